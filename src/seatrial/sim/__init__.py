"""The simulator as a library: discrete events in integer nanoseconds, each mechanism of Kubernetes in a module of its own.

Models use `kernel.now`, `kernel.at(when, do, arg)`, `api.call(client, verb, then, arg)` and the ledger. Models are callbacks over
integers, without a coroutine or an object per pod, because a run may have a million pods.
"""
