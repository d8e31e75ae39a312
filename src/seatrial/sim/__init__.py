"""The simulator as a library: discrete events in integer nanoseconds, each mechanism of Kubernetes in a module of its own.

Models see `kernel.now`, `kernel.at(when, do, arg)`, `api.call(client, verb, then, arg)` and the ledger. They are callbacks over
integers: no coroutine and no object per pod, because a run may have a million of them.
"""
