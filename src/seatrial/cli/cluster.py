"""`seatrial cluster`: real control planes to keep, by name."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seatrial.cli.output import with_volume
from seatrial.model.errors import UsageProblem

if TYPE_CHECKING:
    from seatrial.clusters.access.kept_clusters import KeptCluster
    from seatrial.clusters.programs.build_progress import BuildProgress
    from seatrial.model.plan import NodeGroup, Scalar
    from seatrial.model.settings import Setting

_log = logging.getLogger(__name__)
DEFAULT = "local"

cluster_app = typer.Typer(
    help="Start, inspect and stop a real Kubernetes control plane on this machine.",
    no_args_is_help=True,
    epilog="Example: seatrial cluster up mine --nodes nodes.yaml",
)

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="Which cluster.", show_default=True)]
Binaries = Annotated[
    Path | None,
    typer.Option(
        "--binaries", metavar="DIR", help="Ready-made programs instead of built ones. KUBEBUILDER_ASSETS works too."
    ),
]


@cluster_app.command(epilog="Example: seatrial cluster up mine --nodes many-small-jobs.yaml --stack kueue --qps 1000")
@with_volume
def up(
    name: Name = DEFAULT,
    binaries: Binaries = None,
    stages: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="KWOK stages (YAML) for fake nodes and pods [default: fast ones]."),
    ] = None,
    qps: Annotated[
        str, typer.Option(metavar="N", help="Client limit of all components: a number, 'as shipped' or 'unlimited'.")
    ] = "as shipped",
    port: Annotated[int, typer.Option(help="Port of the API server [default: a free one].", min=0, max=65535)] = 0,
    audit: Annotated[bool, typer.Option(help="Write an audit log of all changes.")] = True,
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Permanent fake nodes: those of a scenario, or a list of node groups."),
    ] = None,
    stack: Annotated[str, typer.Option(metavar="S", help="The stack in the cluster.")] = "default",
) -> None:
    """Start a cluster and keep it until `down`. Builds the programs first if they are not cached."""
    import time

    from seatrial import stacks
    from seatrial.clusters import programs
    from seatrial.clusters.kwok import stage_objects
    from seatrial.clusters.kwok.stage_objects import default_stages, read_stages
    from seatrial.clusters.local import kept_planes
    from seatrial.clusters.local.components import PlaneOptions
    from seatrial.clusters.programs.binaries import ensure_binaries
    from seatrial.clusters.supervision import cluster_state
    from seatrial.study.keeper_process import MODULE

    begun = time.monotonic()
    cluster_state.refuse_if_up(name)
    groups = _groups(nodes) if nodes else ()
    chosen = stacks.find(stack)
    if "local" not in chosen.runs_on:
        raise UsageProblem(f"the stack '{stack}' does not run on local, only on {' and '.join(chosen.runs_on)}",
                           "choose another stack: `seatrial stacks` lists them")  # fmt: skip
    options = PlaneOptions(
        settings=_settings(qps, chosen.settings),
        stages=read_stages(stages) if stages else stage_objects.stages(groups) if groups else default_stages(),
        audit=audit,
        port=port,
    )
    found = ensure_binaries([*programs.CONTROL_PLANE, *chosen.real.programs()], binaries)
    cluster = kept_planes.up(name, options, found, stack=stack, nodes=groups, keeper=MODULE)
    for component, process in cluster.state.processes.items():
        _log.info("started %s, pid %d: %s", component, process.pid, _command_of(process.pid))
    if groups:
        _make_nodes(cluster, groups)
    print(f"The cluster '{name}' is up after {time.monotonic() - begun:.1f} s: {cluster.url}")
    if groups or stack != "default":
        print(f"It has {_shown(cluster)}.")
    print(f"export KUBECONFIG={cluster.kubeconfig()}")


def _shown(cluster: KeptCluster) -> str:
    """`200 fake nodes and the stack 'kueue'`."""
    count = sum(group.count for group in cluster.nodes)
    return f"{count or 'no'} fake node{'' if count == 1 else 's'} and the stack '{cluster.state.stack}'"


def _groups(file: Path) -> tuple[NodeGroup, ...]:
    """The fake nodes of a scenario's first set-up that has some; or the groups of a plain list."""
    from seatrial.cli.node_files import groups_in

    for groups in groups_in(file):
        if not any(group.kubelet or group.existing for group in groups):
            return groups
    raise UsageProblem(
        f"{file} has no fake nodes",
        "name a scenario, a YAML list of node groups, or a CSV with a row per node (docs/scenario.md)",
    )


def _make_nodes(cluster: KeptCluster, groups: Sequence[NodeGroup]) -> None:
    """Counts the nodes on a progress line. If interrupted, removes the cluster, which would lack nodes."""
    import asyncio

    from seatrial.clusters.local import kept_planes
    from seatrial.clusters.programs.build_progress import BuildProgress

    progress = BuildProgress()
    try:
        asyncio.run(_add_nodes(cluster.kubeconfig(), groups, progress))
    except BaseException:
        kept_planes.down(cluster.name)
        raise
    progress.done()


async def _add_nodes(kubeconfig: Path, groups: Sequence[NodeGroup], progress: BuildProgress) -> None:
    """Creates the nodes; returns when KWOK manages all of them."""
    import asyncio
    import itertools

    from seatrial.clusters.kwok import fake_nodes
    from seatrial.kube import Client, access_from

    progress.begin(f"{sum(group.count for group in groups):,} fake nodes")
    made, there = itertools.count(1), 0
    async with Client(access_from(kubeconfig), connections=fake_nodes.CONNECTIONS) as client:
        for group in groups:
            await fake_nodes.create(client, group, 0, {}, lambda: progress.step(f"{next(made):,} made"), there)
            there += group.count
        wanted = {name for group in groups for name in fake_nodes.names(group)}
        while not await fake_nodes.leased(client, wanted):
            progress.step()
            await asyncio.sleep(0.1)


def _settings(qps: str, own: Sequence[Setting]) -> dict[str, dict[str, Scalar]]:
    from seatrial.model.settings import CONTROL_PLANE, resolve

    table = (*CONTROL_PLANE, *own)
    if qps in ("as shipped", "unlimited"):
        return resolve(table, qps, {})
    try:
        limit = float(qps)
        if not 0 < limit < 1e6:
            raise ValueError
    except ValueError:
        raise UsageProblem(f"--qps {qps} is not a limit", "Write a number, 'as shipped' or 'unlimited'.") from None
    return resolve(table, limit, {})


@cluster_app.command(epilog="Example: seatrial cluster down mine")
@with_volume
def down(
    name: Name = DEFAULT, everything: Annotated[bool, typer.Option("--all", help="All kept clusters.")] = False
) -> None:
    """Stop a cluster and remove its files."""
    from seatrial.clusters.access import kept_clusters
    from seatrial.clusters.local import kept_planes
    from seatrial.clusters.supervision import cluster_state

    cluster_state.reap()
    names = [c.name for c in kept_clusters.all_clusters() if c.state.kept] if everything else [name]
    for each in names:
        kept_planes.down(each)
        print(f"The cluster '{each}' is gone.")
    if not names:
        print("No clusters.")


@cluster_app.command(epilog="Example: seatrial cluster status mine")
@with_volume
def status(name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only this cluster, in detail.")] = "") -> None:
    """List clusters, or the components of one cluster."""
    from seatrial.clusters.access import kept_clusters
    from seatrial.clusters.supervision import cluster_state

    cluster_state.reap()
    if name:
        _show_one(kept_clusters.find(name, running=False))
        return
    clusters = kept_clusters.all_clusters()
    if not clusters:
        print("There is no cluster. Start one with `seatrial cluster up`.")
        return
    rows = [("NAME", "STATE", "SINCE", "STACK", "NODES", "API SERVER")]
    rows += [(c.name, _state_of(c), _since(c), *_inside(c), c.url) for c in clusters]
    _columns(rows)


def _inside(cluster: KeptCluster) -> tuple[str, str]:
    """Stack and nodes of a kept cluster; not of a trial's own cluster."""
    if not cluster.state.kept:
        return "-", "-"
    return cluster.state.stack, str(sum(group.count for group in cluster.nodes))


def _show_one(cluster: KeptCluster) -> None:
    print(f"{cluster.name}: {_state_of(cluster)} since {_since(cluster)}, {cluster.url}")
    if cluster.state.kept:
        groups = ", ".join(f"{group.count} {group.name}" for group in cluster.nodes)
        print(f"stack:      {cluster.state.stack}\nnodes:      {groups or 'none'}")
    print(f"directory:  {cluster.layout.directory}\nkubeconfig: {cluster.kubeconfig()}\n")
    rows = [("COMPONENT", "PID", "PORT", "MEMORY", "RESTARTS")]
    for component, process in cluster.state.processes.items():
        pid = str(process.pid) if process.alive else "dead"
        port = str(cluster.state.ports.get(component, "-"))
        rows.append((component, pid, port, _memory(process.pid), str(cluster.state.restarts.get(component, 0))))
    _columns(rows)


def _state_of(cluster: KeptCluster) -> str:
    if not cluster.running:
        return "dead"
    if not cluster.state.up:
        return "starting"
    missing = [name for name, process in cluster.state.processes.items() if not process.alive]
    return f"up, without {', '.join(missing)}" if missing else "up" if cluster.state.kept else "up (trial)"


def _since(cluster: KeptCluster) -> str:
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(cluster.state.since))


def _command_of(pid: int) -> str:
    """The command line of a process that the cluster's keeper started."""
    from seatrial.model.diagnostics import command_line

    try:
        return command_line(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0"))
    except OSError:
        return "?"


def _memory(pid: int) -> str:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return f"{int(line.split()[1]) // 1024} MB"
    except OSError:
        pass
    return "-"


def _columns(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@cluster_app.command(epilog="Example: kubectl --kubeconfig $(seatrial cluster kubeconfig mine) get nodes")
@with_volume
def kubeconfig(
    name: Name = DEFAULT,
    identity: Annotated[str, typer.Option("--as", help="Identity: seatrial, admin, kube-scheduler …")] = "seatrial",
    content: Annotated[bool, typer.Option("--content", help="Print the content of the file.")] = False,
) -> None:
    """Print the path of a kubeconfig for this cluster."""
    from seatrial.clusters.access import kept_clusters

    file = kept_clusters.find(name).kubeconfig(identity)
    if not file.exists():
        known = ", ".join(sorted(f.stem for f in file.parent.glob("*.yaml")))
        raise UsageProblem(f"the cluster has no identity '{identity}'", f"choose one of {known}")
    print(file.read_text() if content else file, end="" if content else "\n")


@cluster_app.command(epilog="Example: seatrial cluster logs kube-scheduler --name mine -f")
@with_volume
def logs(
    component: Annotated[str, typer.Argument(metavar="[COMPONENT]", help="Only this component.")] = "",
    name: Annotated[str, typer.Option("--name", help="Which cluster.")] = DEFAULT,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the logs.")] = False,
) -> None:
    """Print the logs of a cluster's components."""
    from seatrial.clusters.access import kept_clusters
    from seatrial.clusters.supervision.logs import show

    cluster = kept_clusters.find(name, running=False)
    files = sorted(cluster.layout.logs.glob("*.log"))
    if component:
        known = ", ".join(file.stem for file in files)
        files = [file for file in files if file.stem == component]
        if not files:
            raise UsageProblem(f"the cluster has no log of '{component}'", f"choose one of {known}")
    show(files, follow)


@cluster_app.command(epilog="Example: seatrial cluster build")
@with_volume
def build(
    peers: Annotated[bool, typer.Option(help="Also kubectl and kwokctl, which tests and benchmarks use.")] = False,
) -> None:
    """Build the programs of the control plane and of all stacks ahead of time; about twenty minutes on two cores the first time."""
    from seatrial import stacks
    from seatrial.clusters import programs
    from seatrial.clusters.programs.binaries import ensure_binaries

    own = [program for name in stacks.names() for program in stacks.find(name).real.programs()]
    wanted = [*programs.CONTROL_PLANE, programs.KUBELETS, *own, *(programs.PEERS if peers else ())]
    for name, path in ensure_binaries(wanted).items():
        print(f"{name}: {path}")
