"""Whether what a load makes fits the memory of this machine: said before the start, when there is still time to ask for less."""

from __future__ import annotations

from seatrial.model.plan import Trial
from seatrial.observe.machine import free_bytes

# Of the API server, per object, a rough guess from one run: 3.1 GB with 113,000 small Secrets and ConfigMaps (docs/verified.md).
PER_OBJECT = 25_000
PER_PAYLOAD = 6  # the object is kept decoded, encoded, in caches and in etcd


def memory_findings(trial: Trial) -> list[str]:
    """A line where a control plane of this machine would need more than there is."""
    free = free_bytes()
    made = [phase for phase in trial.requests() if phase.verb == "create"]
    needed = sum((p.count or 0) * len(p.objects) * (PER_OBJECT + PER_PAYLOAD * p.payload) for p in made)
    if trial.on != "local" or not free or needed < free:
        return []
    count = sum((phase.count or 0) * len(phase.objects) for phase in made)
    return [
        f"{count:,} objects need about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; "
        "with fewer objects or smaller payloads the server is not killed half-way"
    ]
