"""`seatrial record`: the load of a cluster as a trace, and its nodes as a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from seatrial.cli.output import check_file, error_console, print_lines, progress_console, with_volume
from seatrial.model import diagnostics
from seatrial.model.errors import UsageProblem

if TYPE_CHECKING:
    from seatrial.kube import Access
    from seatrial.observe.recorder import RecordingProgress

SAY_EVERY_S = 60.0  # in a log

record_app = typer.Typer(
    invoke_without_command=True,
    help="Record the load of a cluster as a trace, or its nodes. Reads only; installs nothing.",
)
_CLUSTER: Any = typer.Option(None, "--cluster", metavar="NAME", help="A kept cluster (`seatrial cluster up NAME`).")
_CONTEXT: Any = typer.Option(None, "--context", metavar="C", help="Any cluster, by its kubeconfig context.")
_KUBECONFIG: Any = typer.Option(
    None,
    "--kubeconfig",
    metavar="FILE",
    help="Instead of KUBECONFIG and ~/.kube/config; without --context its current context.",
)


@record_app.callback(epilog="Example: seatrial record --context prod -o january --for 24h")
@with_volume
def record(
    ctx: typer.Context,
    cluster: str | None = _CLUSTER,
    context: str | None = _CONTEXT,
    kubeconfig: Path | None = _KUBECONFIG,
    namespace: str = typer.Option("", "-n", "--namespace", metavar="NS", help="Only this namespace [default: all]."),
    out: Path | None = typer.Option(
        None, "-o", "--out", metavar="OUT", help="A directory, or a file that ends in .parquet.", show_default=False
    ),
    lasting: str = typer.Option(
        "", "--for", metavar="TIME", help="How long, since the recording began: 1h, 7d [default: until Ctrl-C]."
    ),
    anonymise: bool = typer.Option(
        True, help="Replace names of users, queues, namespaces and jobs by hashes; the salt stays on this machine."
    ),
    user_label: str = typer.Option(
        "", "--user-label", metavar="KEY", help="Label that names the user [default: the namespace is the user]."
    ),
    class_label: str = typer.Option(
        "", "--class-label", metavar="KEY", help="Label that names the class [default: the kind, such as Job]."
    ),
) -> None:
    """Record the workloads of a cluster as a trace that `submit: {trace: …}` replays.

    Lists and watches pods and Jobs, and changes nothing. Killed at any moment, the same command continues. Ctrl-C ends it and
    writes the trace.
    """
    if ctx.invoked_subcommand is not None:
        return
    from seatrial.study.cluster_recording import RecordingWish
    from seatrial.study.cluster_recording import record as go
    from seatrial.study.interruption import interruption

    if out is None:
        raise UsageProblem("no place for the recording", "name it with -o OUT")
    labels = {name: key for name, key in (("user", user_label), ("class", class_label)) if key}
    wish = RecordingWish(out, _access(cluster, context, kubeconfig), namespace, anonymise, _duration(lasting), labels)
    interruption.listen()
    words = progress_console()
    with _RecordingLine(lasting) as line:
        found = go(wish, line.told)
    jobs = found.sealed.jobs
    words.print(
        f"{jobs.height:,} workload{'s' * (jobs.height != 1)} recorded{' in all' * found.resumed}", highlight=False
    )
    print_lines(words, found.notes)
    typer.echo(found.trace)
    if found.interrupted and lasting:
        error_console().print(
            "interrupted before the time was over; the same command continues", soft_wrap=True, markup=False
        )
        raise typer.Exit(130)


@record_app.command(epilog="Example: seatrial record nodes --context prod --into nodes.yaml")
@with_volume
def nodes(
    cluster: str | None = _CLUSTER,
    context: str | None = _CONTEXT,
    kubeconfig: Path | None = _KUBECONFIG,
    selector: str = typer.Option("", "-l", "--selector", metavar="SELECTOR", help="Only nodes with these labels."),
    into: Path | None = typer.Option(
        None, "--into", metavar="FILE", help="A file that ends in .yaml or .csv.", show_default=False
    ),
    out: Path | None = typer.Option(None, "-o", "--out", hidden=True),  # the former form
    anonymise: bool = typer.Option(
        False, help="Replace labels, taints and their values by hashes, except Kubernetes' and GPU makers' own."
    ),
) -> None:
    """Write the nodes of a cluster as a file that a scenario reads: capacity, labels and taints, a group per kind of node.

    Lists nodes once, and changes nothing.
    """
    from seatrial.study.node_recording import record_nodes

    into = into or out
    if into is None:
        raise UsageProblem("no place for the nodes", "name it with --into nodes.yaml")
    check_file("--into", into)
    found = record_nodes(_access(cluster, context, kubeconfig), into, selector, anonymise)
    words = progress_console()
    kinds = len(found.groups)
    words.print(
        f"{found.count:,} node{'s' * (found.count != 1)} of {kinds:,} kind{'s' * (kinds != 1)}", highlight=False
    )
    print_lines(words, found.notes)
    typer.echo(into)


def _duration(text: str) -> int | None:
    from seatrial.model.units import parse_duration

    if not text:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageProblem(f"--for: {error}", "write it like 30m, 24h or 7d") from None


def _access(cluster: str | None, context: str | None, kubeconfig: Path | None) -> Access:
    from seatrial.clusters.access.target_access import access_of
    from seatrial.kube import access_from
    from seatrial.model.plan import Target

    if cluster and (context or kubeconfig):
        raise UsageProblem("--cluster names one cluster and --context another", "keep one of them")
    if kubeconfig and not context:
        return access_from(kubeconfig)  # its current context will do: nothing is changed there
    return access_of(
        Target(cluster=cluster or "", context=context or "", kubeconfig=str(kubeconfig) if kubeconfig else "")
    )


class _RecordingLine:
    """Progress on standard error: one redrawn line on a terminal, a line a minute elsewhere."""

    def __init__(self, lasting: str) -> None:
        self._of = f" of {lasting}" if lasting else ""
        self._live = sys.stderr.isatty() and not diagnostics.is_quiet() and not diagnostics.logs_to_terminal()
        self._spoke = time.monotonic() - SAY_EVERY_S

    def __enter__(self) -> _RecordingLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")

    def told(self, now: RecordingProgress) -> None:
        """Shows how far it is."""
        from seatrial.report.durations import lasting

        moment = time.monotonic()
        if diagnostics.is_quiet() or (not self._live and moment - self._spoke < SAY_EVERY_S):
            return
        self._spoke = moment
        text = f"recording for {lasting(now.seconds, decimals=0)}{self._of}: "
        text += f"{now.workloads:,} workloads, {now.running:,} pods running"
        text += "" if now.well else "; the API server does not answer, waiting for it"
        text += f"; {now.held:,} lines wait for room on the disk" if now.held else ""
        sys.stderr.write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
        sys.stderr.flush()
