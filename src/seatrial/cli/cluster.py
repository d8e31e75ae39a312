"""`seatrial cluster`: a real control plane to keep, by name, several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seatrial.clusters.local.kept import Kept
    from seatrial.model.plan import NodeGroup

DEFAULT = "local"

cluster_app = typer.Typer(
    help="A real Kubernetes control plane on this machine, to keep until it is taken down.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="Which cluster.", show_default=True)]
Binaries = Annotated[
    Path | None,
    typer.Option(
        "--binaries", metavar="DIR", help="Ready-made programs instead of built ones. KUBEBUILDER_ASSETS works too."
    ),
]


@cluster_app.command(epilog="Example: seatrial cluster up mine --qps 1000")
def up(
    name: Name = DEFAULT,
    binaries: Binaries = None,
    stages: Annotated[
        Path | None, typer.Option(metavar="FILE", help="KWOK stages (YAML) for fake nodes and pods; fast ones without.")
    ] = None,
    qps: Annotated[
        str, typer.Option(metavar="N", help="Client limit of all components: a number, 'as shipped' or 'unlimited'.")
    ] = "as shipped",
    port: Annotated[int, typer.Option(help="Of the API server; a free one without.", min=0, max=65535)] = 0,
    audit: Annotated[bool, typer.Option(help="Write an audit log of all changes.")] = True,
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Fake nodes to begin with: those of a scenario, or a list of groups."),
    ] = None,
) -> None:
    """Start a cluster and keep it until `down`. The programs are built first if the cache does not have them."""
    import asyncio
    import time

    from seatrial.clusters import fakes
    from seatrial.clusters.local import kept, programs
    from seatrial.clusters.local.binaries import ensure_binaries
    from seatrial.clusters.local.components import Wish
    from seatrial.clusters.local.stages import default_stages, read_stages

    begun = time.monotonic()
    kept.refuse_if_up(name)
    groups = _groups(nodes) if nodes else ()
    wish = Wish(
        settings=_settings(qps),
        stages=read_stages(stages) if stages else fakes.stages(groups) if groups else default_stages(),
        audit=audit,
        port=port,
    )
    found = ensure_binaries(programs.CONTROL_PLANE, binaries)
    cluster = kept.up(name, wish, found)
    print(f"The cluster '{name}' is up after {time.monotonic() - begun:.1f} s: {cluster.url}")
    if groups:
        asyncio.run(_add_nodes(cluster.kubeconfig(), groups))
        print(f"It has {sum(group.count for group in groups)} fake nodes.")
    print(f"export KUBECONFIG={cluster.kubeconfig()}")


def _groups(file: Path) -> tuple[NodeGroup, ...]:
    """The fake nodes of a scenario's first set-up that has some; a plain list of groups is a scenario with nothing else."""
    from seatrial import stacks
    from seatrial.model.errors import UsageProblem
    from seatrial.scenario import expand, node_list, read

    known = {stack: stacks.find(stack).settings for stack in stacks.names()}
    trials = expand(node_list(file) or read(file), on="sim", stacks=known, repeat=1)
    for trial in trials:
        if not any(group.kubelet or group.existing for group in trial.setup.nodes):
            return trial.setup.nodes
    raise UsageProblem(f"{file} has no fake nodes", "name a scenario, or a YAML list of node groups (docs/scenario.md)")


async def _add_nodes(kubeconfig: Path, groups: Sequence[NodeGroup]) -> None:
    from seatrial.clusters import fakes
    from seatrial.kube import Client, access_from

    async with Client(access_from(kubeconfig), connections=32) as client:
        for group in groups:
            await fakes.create(client, group, 0, {})


def _settings(qps: str) -> dict[str, dict[str, str | int | float | bool]]:
    from seatrial.model.errors import UsageProblem
    from seatrial.model.settings import CONTROL_PLANE, resolve

    if qps in ("as shipped", "unlimited"):
        return resolve(CONTROL_PLANE, qps, {})
    try:
        limit = float(qps)
        if not 0 < limit < 1e6:
            raise ValueError
    except ValueError:
        raise UsageProblem(f"--qps {qps} is no limit", "Write a number, 'as shipped' or 'unlimited'.") from None
    return resolve(CONTROL_PLANE, limit, {})


@cluster_app.command(epilog="Example: seatrial cluster down mine")
def down(
    name: Name = DEFAULT, everything: Annotated[bool, typer.Option("--all", help="All that are kept.")] = False
) -> None:
    """Stop a cluster and remove everything it left on this machine."""
    from seatrial.clusters.local import kept, state

    state.reap()
    names = [c.name for c in kept.all_clusters() if c.state.kept] if everything else [name]
    for each in names:
        kept.down(each)
        print(f"The cluster '{each}' is gone.")
    if not names:
        print("There is no cluster.")


@cluster_app.command(epilog="Example: seatrial cluster status mine")
def status(name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only this one, in detail.")] = "") -> None:
    """What runs: clusters, and with a name the components of that one."""
    from seatrial.clusters.local import kept, state

    state.reap()
    if name:
        _show_one(kept.find(name, running=False))
        return
    clusters = kept.all_clusters()
    if not clusters:
        print("There is no cluster. Make one with `seatrial cluster up`.")
        return
    rows = [("NAME", "STATE", "SINCE", "API SERVER")]
    rows += [(c.name, _state_of(c), _since(c), c.url) for c in clusters]
    _columns(rows)


def _show_one(cluster: Kept) -> None:
    print(f"{cluster.name}: {_state_of(cluster)} since {_since(cluster)}, {cluster.url}")
    print(f"directory:  {cluster.layout.directory}\nkubeconfig: {cluster.kubeconfig()}\n")
    rows = [("COMPONENT", "PID", "PORT", "MEMORY", "RESTARTS")]
    for component, process in cluster.state.processes.items():
        pid = str(process.pid) if process.alive else "dead"
        port = str(cluster.state.ports.get(component, "-"))
        rows.append((component, pid, port, _memory(process.pid), str(cluster.state.restarts.get(component, 0))))
    _columns(rows)


def _state_of(cluster: Kept) -> str:
    if not cluster.running:
        return "dead"
    if not cluster.state.up:
        return "starting"
    missing = [name for name, process in cluster.state.processes.items() if not process.alive]
    return f"up, without {', '.join(missing)}" if missing else "up" if cluster.state.kept else "up (trial)"


def _since(cluster: Kept) -> str:
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(cluster.state.since))


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
def kubeconfig(
    name: Name = DEFAULT,
    identity: Annotated[str, typer.Option("--as", help="Whose: seatrial, admin, kube-scheduler …")] = "seatrial",
    content: Annotated[bool, typer.Option("--content", help="Print the file itself.")] = False,
) -> None:
    """Print the path of a kubeconfig for this cluster."""
    from seatrial.clusters.local import kept
    from seatrial.model.errors import UsageProblem

    file = kept.find(name).kubeconfig(identity)
    if not file.exists():
        known = ", ".join(sorted(f.stem for f in file.parent.glob("*.yaml")))
        raise UsageProblem(f"nobody here is called '{identity}'", f"There are {known}.")
    print(file.read_text() if content else file, end="" if content else "\n")


@cluster_app.command(epilog="Example: seatrial cluster logs kube-scheduler --name mine -f")
def logs(
    component: Annotated[str, typer.Argument(metavar="[COMPONENT]", help="Only this one's.")] = "",
    name: Annotated[str, typer.Option("--name", help="Which cluster.")] = DEFAULT,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as they are written.")] = False,
) -> None:
    """Print the logs of a cluster's components."""
    from seatrial.clusters.local import kept
    from seatrial.clusters.local.logs import show
    from seatrial.model.errors import UsageProblem

    cluster = kept.find(name, running=False)
    files = sorted(cluster.layout.logs.glob("*.log"))
    if component:
        known = ", ".join(file.stem for file in files)
        files = [file for file in files if file.stem == component]
        if not files:
            raise UsageProblem(f"'{component}' has no log", f"There are those of {known}.")
    show(files, follow)


@cluster_app.command(epilog="Example: seatrial cluster build")
def build(
    peers: Annotated[bool, typer.Option(help="Also kubectl and kwokctl, which tests and benchmarks use.")] = False,
) -> None:
    """Build the programs of the control plane and of all stacks ahead of time; about twenty minutes on two cores the first time."""
    from seatrial import stacks
    from seatrial.clusters.local import programs
    from seatrial.clusters.local.binaries import ensure_binaries

    own = [program for name in stacks.names() for program in stacks.find(name).programs()]
    wanted = [*programs.CONTROL_PLANE, *own, *(programs.PEERS if peers else ())]
    for name, path in ensure_binaries(wanted).items():
        print(f"{name}: {path}")
