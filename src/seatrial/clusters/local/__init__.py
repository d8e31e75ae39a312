"""A real Kubernetes control plane as processes of this machine: no container engine, ready in seconds, removed completely.

`components` describes its processes, `plane` starts and stops them, `local_cluster` chooses the parts of a trial, `keeper` runs the
control plane of `seatrial cluster up`.
"""
