"""Local clusters that stay until they are taken down (`seatrial cluster up`): found by name, from their state files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters.supervision.cluster_state import ClusterState, is_run, layouts, read_state
from seatrial.clusters.supervision.directories import USER, Layout, check_name, clusters_root
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup


@dataclass(frozen=True, slots=True)
class KeptCluster:
    """A local cluster, from its state file."""

    layout: Layout
    state: ClusterState
    running: bool  # its keeper, or its trial, is alive

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.layout.name

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.state.url

    @property
    def audit_log(self) -> Path | None:
        """The audit log; None without auditing."""
        return self.layout.audit_log if self.layout.audit_log.exists() else None

    @property
    def pids(self) -> dict[str, int]:
        """Pids of the running components."""
        return {name: process.pid for name, process in self.state.processes.items() if process.alive}

    @property
    def nodes(self) -> tuple[NodeGroup, ...]:
        """Fake nodes of the cluster's own (`--nodes`)."""
        return self.state.nodes

    def kubeconfig(self, identity: str = USER) -> Path:
        """The kubeconfig of an identity."""
        return self.layout.kubeconfig(identity)


def all_clusters() -> list[KeptCluster]:
    """All local clusters, those of running trials included."""
    found: list[KeptCluster] = []
    for layout in layouts():
        state = read_state(layout)
        if state:
            found.append(KeptCluster(layout, state, is_run(layout)))
    return found


def find(name: str, running: bool = True) -> KeptCluster:
    """The cluster of this name; `SetupProblem` if there is none, or if it should be `running` and is not."""
    layout = Layout(clusters_root() / check_name(name))
    state = read_state(layout)
    if state is None:
        others = ", ".join(kept.name for kept in all_clusters())
        raise SetupProblem(
            f"there is no cluster '{name}'",
            f"There {'are ' + others if others else 'is none'}; make one with `seatrial cluster up {name}`.",
        )
    kept = KeptCluster(layout, state, is_run(layout))
    if running and not (kept.running and state.up):
        what = "is not up yet" if kept.running else "no longer runs"
        raise SetupProblem(
            f"the cluster '{name}' {what}",
            f"Take it down with `seatrial cluster down {name}` and up again.",
        )
    return kept
