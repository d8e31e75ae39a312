"""A real Kubernetes control plane as processes of this machine: no container engine, ready in seconds, gone without a
trace.

`description` is what a cluster consists of, `components` the defaults, `supervisor` runs descriptions, `plane` is the
whole for a trial, `keeper` the whole for `seatrial cluster up`.
"""
