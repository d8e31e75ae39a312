"""`seatrial doctor`: checks the environment, with remedies."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seatrial.cli.output import print_wrapped

if TYPE_CHECKING:
    from seatrial.clusters.machine_checks import Finding

STATE_WIDTH = 9


def doctor(
    on: str = typer.Option(
        "", "--on", metavar="CLUSTER", help="Cluster to check for: sim, local or kubeconfig [default: local]."
    ),
    context: str = typer.Option(
        "", "--context", metavar="NAME", help="Also check this cluster; implies --on kubeconfig."
    ),
    kubeconfig: Path | None = typer.Option(
        None, "--kubeconfig", metavar="FILE", help="Instead of KUBECONFIG and ~/.kube/config."
    ),
) -> None:
    """Check what trials need, a line per check: `ok`, `warn` or `missing`, with a remedy. Changes nothing.

    Ends with status 3 if something is missing that the chosen cluster needs.

    Example: seatrial doctor --context my-cluster
    """
    from seatrial.cli.run_plan import CLUSTERS
    from seatrial.clusters import machine_checks
    from seatrial.model.errors import UsageProblem

    asked = on or ("kubeconfig" if context else "local")
    if asked not in CLUSTERS:
        raise UsageProblem(f"--on {asked}: no such cluster", f"choose one of {', '.join(CLUSTERS)}")
    findings = list(machine_checks.machine(asked))
    needed = asked == "kubeconfig"
    if asked != "sim":
        files, found = machine_checks.kubeconfig(kubeconfig, needed)
        findings.append(files)
        if needed and found is not None:
            findings += _cluster(kubeconfig, context)
    for finding in findings:
        _show(finding)
    raise typer.Exit(3 if any(f.state == "missing" and f.needed for f in findings) else 0)


def _cluster(kubeconfig: Path | None, context: str) -> Iterable[Finding]:
    from seatrial import stacks
    from seatrial.clusters.attached.cluster_checks import examine
    from seatrial.clusters.machine_checks import Finding
    from seatrial.kube import access_from
    from seatrial.model.errors import SetupProblem

    try:
        access = access_from(kubeconfig, context or None, must_name=True)
    except SetupProblem as problem:
        return [Finding("missing", problem.message, problem.remedy, needed=True)]
    return examine(access, stacks.signs(), stacks.permissions())


def _show(finding: Finding) -> None:
    words = [" ".join(text.split()) for text in (finding.what, finding.remedy) if text]
    print_wrapped(f"{finding.state:<{STATE_WIDTH}}{'  '.join(words)}", STATE_WIDTH)
