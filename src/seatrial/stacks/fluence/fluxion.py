"""Fluxion, Flux's graph scheduler, as far as Fluence uses it: match a number of equal slots to nodes, and cancel the match.

Facts (flux-framework/flux-k8s at ed3815c):
- The graph is made once, when the sidecar starts (src/fluence/utils/utils.go, CreateInClusterJGF): per node its whole cores,
  its memory in pieces of 1 GiB, its GPUs, in the order of the API server's list, which is by name. Nodes added later are not in
  the graph, nodes removed stay in it.
- A group is `count` slots, each with its cores, memory and GPUs (src/fluence/jobspec/jobspec.go); a slot does not name a node, so
  several may share one. Slots do not share resources, hence memory in whole pieces: this last step is how we understand
  Fluxion, not something we have run.
- Policy `lonode`: lowest node ids first. MatchAllocate without reservation (src/fluence/fluxion/fluxion.go): now or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seatrial.model.plan import Amounts

GPU = "nvidia.com/gpu"
CORE, PIECE = 1000, 1 << 30  # millicores and bytes


def slot_of(requests: Amounts) -> tuple[int, int, int]:
    """Cores, pieces of memory and GPUs of one pod; a pod that asks for no core gets one (podspec.go, PreparePodJobSpec)."""
    cores = max(-(-requests.get("cpu", 0) // CORE), 1)
    return cores, -(-requests.get("memory", 0) // PIECE), requests.get(GPU, 0)


class Fluxion:
    """The graph: what is free on every node, and what each group was allocated."""

    def __init__(self, names: Sequence[str], capacities: Sequence[Amounts]) -> None:
        """`names` and `capacities` of the nodes, by node number."""
        self._order = sorted(range(len(names)), key=lambda node: names[node])
        ordered = [capacities[node] for node in self._order]
        self._free = np.array(
            [(c.get("cpu", 0) // CORE, c.get("memory", 0) // PIECE, c.get(GPU, 0)) for c in ordered], dtype=np.int64
        ).reshape(-1, 3)
        self._jobs: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # group → places in the order, what it has there
        # (slot, count) that found no room since the last cancel
        self._hopeless: set[tuple[tuple[int, int, int], int]] = set()
        self.looked = 0  # nodes examined in the last match

    def match(self, group: int, slot: tuple[int, int, int], count: int) -> list[int]:
        """A node for each slot, in order of ids, or none at all. An earlier allocation of the group is cancelled first."""
        self.cancel(group)
        if (slot, count) in self._hopeless:
            self.looked = len(self._order)
            return []
        need = np.array(slot, dtype=np.int64)
        asked = need > 0
        slots = (self._free[:, asked] // need[asked]).min(axis=1)
        total = np.cumsum(slots)
        end = int(np.searchsorted(total, count))
        self.looked = min(end + 1, len(self._order))
        if end >= len(self._order):
            self._hopeless.add((slot, count))
            return []
        places = slots[: end + 1].nonzero()[0]
        taken = slots[places].copy()
        taken[-1] -= total[end] - count
        self._free[places] -= taken[:, None] * need
        self._jobs[group] = (places, taken[:, None] * need)
        return [
            self._order[place]
            for place, times in zip(places.tolist(), taken.tolist(), strict=True)
            for _ in range(times)
        ]

    def cancel(self, group: int) -> None:
        """Frees the group's allocation."""
        if group in self._jobs:
            places, amounts = self._jobs.pop(group)
            self._free[places] += amounts
            self._hopeless.clear()

    def forget(self, group: int) -> None:
        """The allocation is lost: nothing will ever free it."""
        self._jobs.pop(group, None)
