"""`seatrial clean`: removes what interrupted or killed runs left behind."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from seatrial.clusters.access.cleanup import LabelledObject
    from seatrial.model.plan import Target

SHOWN = 20  # names of one kind; a run may have left a thousand nodes


def clean(
    context: str = typer.Option("", "--context", metavar="NAME", help="The cluster to clean, by its context."),
    kubeconfig: Path | None = typer.Option(
        None, "--kubeconfig", metavar="FILE", help="Instead of KUBECONFIG and ~/.kube/config."
    ),
    out: Path | None = typer.Option(
        None, "-o", "--out", metavar="OUT", help="A study directory: only what this study created, in its cluster."
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Remove what interrupted or killed runs left behind: everything with our label in a cluster, processes and files here.

    Without --context and -o only this machine is cleaned. Clusters kept with `seatrial cluster up` are not touched.

    Example: seatrial clean --context my-cluster
    """
    from seatrial.clusters.supervision.cluster_state import reap

    for name in reap():
        typer.echo(f"removed on this machine: {name}")
    if out is not None:
        _clean_study(out, context, kubeconfig)
    elif context or kubeconfig:
        _clean_context(context, kubeconfig, yes)
    else:
        typer.echo("This machine is clean. To clean a cluster, name it with --context, or a study with -o.")


def _clean_study(out: Path, context: str, kubeconfig: Path | None) -> None:
    """Cleans without confirmation: every object was created by this study."""
    from seatrial.analysis.studies import Study

    study = Study.open(out)
    recorded = dict(study.document.get("target") or {})
    made = [dict(trial.document.get("target") or {}) for trial in study.trials]
    studies = {str(one["study"]) for one in made if one.get("study")}
    if not studies:
        typer.echo(f"{out} created nothing in a cluster that outlives it.")
        return
    named = context or (str(kubeconfig) if kubeconfig else "")
    target = _target(
        "" if named else str(recorded.get("cluster", "")),
        context or str(recorded.get("context", "")),
        str(kubeconfig or recorded.get("kubeconfig", "")),
    )
    inside = {str(one["namespace"]) for one in made if one.get("namespace") and not one.get("own_namespace", True)}
    _clear(target, studies, "" if named else str(recorded.get("server", "")), ask=False, inside=inside)


def _clean_context(context: str, kubeconfig: Path | None, yes: bool) -> None:
    _clear(_target("", context, str(kubeconfig or "")), None, "", ask=not yes)


def _target(cluster: str, context: str, kubeconfig: str) -> Target:
    from seatrial.model.plan import Target

    return Target(cluster=cluster, context=context, kubeconfig=kubeconfig)


def _clear(target: Target, studies: set[str] | None, ran_on: str, *, ask: bool, inside: Collection[str] = ()) -> None:
    from seatrial.clusters.access.cleanup import WITHIN_S, clear
    from seatrial.clusters.access.target_access import access_of
    from seatrial.model.errors import SetupProblem

    access = access_of(target, ran_on)
    gone, left = clear(access, studies, lambda things: _agrees(things, access.context, ask), inside)
    for line in _lines(gone):
        typer.echo(f"removed from {access.context}: {line}")
    if left:
        raise SetupProblem(
            f"still there after {WITHIN_S:.0f} s: {'; '.join(_lines(left))}",
            "something blocks the deletion (`kubectl describe` shows what); run the command again later",
        )
    if not gone:
        typer.echo(f"{access.context}: nothing was removed.")


def _agrees(things: Sequence[LabelledObject], context: str, ask: bool) -> bool:
    from seatrial.model.errors import UsageProblem

    if not ask:
        return True
    typer.echo(f"objects with our label in {context}:")
    for line in _lines(things):
        typer.echo(f"  {line}")
    if not sys.stdin.isatty():
        raise UsageProblem("confirmation is needed, and standard input is not a terminal", "pass --yes")
    return typer.confirm("Remove all of these? Studies that still run there would fail.")


def _lines(things: Sequence[LabelledObject]) -> list[str]:
    """One line per kind and study: `12 nodes of 1a2b3c4d: fake-…`."""
    groups: dict[tuple[str, str], list[LabelledObject]] = {}
    for thing in things:
        groups.setdefault((thing.resource.plural, thing.study), []).append(thing)
    lines = []
    for (plural, study), members in groups.items():
        names = ", ".join(thing.name for thing in members[:SHOWN])
        more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
        since = min(thing.since for thing in members)
        lines.append(f"{plural} of {study} ({len(members)}, since {since}): {names}{more}")
    return lines
