"""Options that `run` and `find` share: which trials, where, and with what."""

from __future__ import annotations

from typing import Any

import typer

ON: Any = typer.Option("", "--on", metavar="CLUSTER", help="Where to run: sim, local or kubeconfig [default: sim].")
SETUP: Any = typer.Option("", "--setup", metavar="A,B", help="Only these set-ups of the scenario.")
STACK: Any = typer.Option("", "--stack", metavar="A,B", help="These stacks, on the scenario's fake nodes.")
SETS: Any = typer.Option([], "--set", metavar="K=V[,V…]", help="Other values of a parameter; repeatable.")
SEED: Any = typer.Option(None, "--seed", metavar="N", min=0, help="Seed of all random streams.")
OUT: Any = typer.Option(None, "-o", "--out", metavar="OUT", help="Study directory [default: out/NAME-DATE].")
FORCE: Any = typer.Option(False, "--force", help="Replace the study in OUT.")
JOBS: Any = typer.Option(
    None, "-j", "--jobs", metavar="N", min=1, help="Parallel trials [default: by size, up to all cores]."
)
RAY: Any = typer.Option(
    "",
    "--ray",
    metavar="ADDRESS",
    help="Trials on the machines of a Ray: HOST:PORT, ray://HOST:PORT, auto or local.",
)
LIMIT: Any = typer.Option("", "--limit", metavar="TIME", help="End a trial that takes longer, as timed out: 10m.")
CLUSTER: Any = typer.Option(
    "", "--cluster", metavar="NAME", help="With --on local: a kept cluster instead of a fresh one."
)
CONTEXT: Any = typer.Option(
    "", "--context", metavar="NAME", help="With --on kubeconfig: the context to use; there is no default."
)
KUBECONFIG: Any = typer.Option(None, "--kubeconfig", metavar="FILE", help="Instead of KUBECONFIG and ~/.kube/config.")
BINARIES: Any = typer.Option(
    None, "--binaries", metavar="DIR", help="With --on local: ready-made programs. KUBEBUILDER_ASSETS works too."
)
