"""`seatrial submit`: workloads for an existing cluster, and `seatrial templates`: their Jobs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from seatrial.cli.output import OUT_ARGUMENT, OUT_OPTION, study_directory
from seatrial.model import diagnostics
from seatrial.model.errors import UsageProblem
from seatrial.report.durations import lasting

if TYPE_CHECKING:
    from seatrial.study.submission import SubmissionRequest
    from seatrial.study.submission_sending import SubmissionProgress

SAY_EVERY_S = 5.0  # in a log; on a terminal ten times a second


def submit(
    given_out: Path | None = OUT_ARGUMENT,
    out: Path | None = OUT_OPTION,
    kind: str | None = typer.Option(
        None, "-t", "--type", metavar="TYPE", help="training, distributed or interactive [default: training]."
    ),
    count: int | None = typer.Option(
        None, "-n", "--workloads", metavar="N", min=1, help="Number of workloads [default: 1]."
    ),
    parallel: int | None = typer.Option(
        None, "-p", "--parallel", metavar="P", min=1, max=1000, help="Parallel submissions in a round [default: 8]."
    ),
    workers: int | None = typer.Option(
        None, "--num-workers", metavar="W", min=1, help="With -t distributed: workers beside the launcher [default: 1]."
    ),
    gpus: int | None = typer.Option(
        None, "-g", "--gpus", metavar="G", min=0, help="nvidia.com/gpu of each pod [default: the template's]."
    ),
    delay: float | None = typer.Option(
        None, "--delay", metavar="S", min=0, help="Seconds between starts of rounds [default: 0]."
    ),
    project: str | None = typer.Option(
        None, "--project", metavar="P", help="An existing namespace or queue [default: a new namespace]."
    ),
    pvc: bool | None = typer.Option(
        None, "--pvc", help="A PersistentVolumeClaim for each workload.", show_default=False
    ),
    stack: str | None = typer.Option(
        None, "--stack", metavar="S", help="Stack of the workloads [default: that of the cluster]."
    ),
    template: Path | None = typer.Option(
        None, "--template", metavar="FILE", help="A Job as YAML; see `seatrial templates` [default: a built-in one]."
    ),
    cluster: str | None = typer.Option(
        None, "--cluster", metavar="NAME", help="A kept cluster (`seatrial cluster up NAME`)."
    ),
    context: str | None = typer.Option(None, "--context", metavar="C", help="Any cluster, by its kubeconfig context."),
    kubeconfig: Path | None = typer.Option(
        None, "--kubeconfig", metavar="FILE", help="Instead of KUBECONFIG and ~/.kube/config."
    ),
    resume: bool = typer.Option(False, "--resume", help="Continue OUT where it stopped; needs no other option."),
    retry_refused: bool = typer.Option(False, "--retry-refused", help="With --resume: retry refused workloads."),
) -> None:
    """Submit workloads to a cluster in rounds and leave them there. After a crash, --resume continues without duplicates.

    `seatrial sample -o OUT` measures them, `seatrial clean -o OUT` removes them.

    Example: seatrial submit -t training -n 2000 -p 5 --delay 1 --cluster mine -o out/first
    """
    from seatrial.study import submission_sending
    from seatrial.study.interruption import interruption

    interruption.listen()
    out = study_directory(given_out, out)
    given = {
        "--type": kind, "--workloads": count, "--parallel": parallel, "--num-workers": workers, "--gpus": gpus,
        "--delay": delay, "--project": project, "--pvc": pvc, "--stack": stack,
        "--template": str(template) if template else None, "--cluster": cluster, "--context": context,
        "--kubeconfig": str(kubeconfig.expanduser().absolute()) if kubeconfig else None,
    }  # fmt: skip
    if retry_refused and not resume:
        raise UsageProblem(
            "--retry-refused retries workloads that an earlier run of OUT could not submit", "add --resume"
        )
    with _Progress() as progress:
        if resume:
            text = _text(template) if template else None
            sent = submission_sending.resume(out, given, text, progress.told, retry_refused)
        else:
            sent = submission_sending.begin(out, _wish(given, template), progress.told)
    raise typer.Exit(_say(sent, out, progress.seconds))


def _wish(given: dict[str, Any], template: Path | None) -> SubmissionRequest:
    from functools import partial

    from seatrial.model.plan import Target
    from seatrial.scenario.settings_file import read_settings
    from seatrial.scenario.template import KINDS, Options, blame, read_template, submit_of
    from seatrial.study.submission import SubmissionRequest

    defaults = {"--type": "training", "--workloads": 1, "--parallel": 8, "--delay": 0.0, "--pvc": False}
    asked: dict[str, Any] = {name: defaults.get(name) if value is None else value for name, value in given.items()}
    if asked["--type"] not in KINDS:
        raise UsageProblem(f"--type {asked['--type']}: no such workload", f"choose one of {', '.join(KINDS)}")
    if asked["--num-workers"] is not None and asked["--type"] != "distributed":
        raise UsageProblem(f"a {asked['--type']} workload has no workers", "add -t distributed, or omit --num-workers")
    if asked["--cluster"] and (asked["--context"] or asked["--kubeconfig"]):
        raise UsageProblem("--cluster names one cluster and --context another", "keep one of them")
    read = read_template(template, asked["--type"])
    options = Options(
        asked["--type"], asked["--workloads"], asked["--parallel"], asked["--delay"], asked["--num-workers"],
        asked["--gpus"], asked["--pvc"],
    )  # fmt: skip
    target = Target(
        cluster=asked["--cluster"] or "", context=asked["--context"] or "", kubeconfig=asked["--kubeconfig"] or ""
    )
    return SubmissionRequest(
        submit_of(read, options), target, asked["--stack"] or "", asked["--project"] or "", read_settings(),
        asked, read.text, partial(blame, read),
    )  # fmt: skip


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{file}: {error}", "omit --template: OUT has it") from None


def _say(sent: SubmissionProgress, out: Path, seconds: float) -> int:
    if sent.torn:
        typer.echo(
            "the last line of submitted.jsonl was incomplete after a crash: removed, and its workload looked up in the cluster",
            err=True,
        )
    typer.echo(f"{sent.sent} of {sent.of} workloads submitted after {lasting(seconds, decimals=1)}")
    for why, many in sent.refused.most_common():
        typer.echo(f"{many} refused: {why}", err=True)
    if sent.interrupted:
        typer.echo(f"interrupted; continue with: seatrial submit -o {out} --resume", err=True)
        return 130
    return 1 if sent.refused else 0


class _Progress:
    """Progress on standard error: one redrawn line on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._began = self._spoke = time.monotonic()
        self._live = sys.stderr.isatty() and not diagnostics.is_quiet() and not diagnostics.logs_to_terminal()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._began

    def told(self, sent: int, refused: int, of: int) -> None:
        """Prints how many were submitted, at most a few times a second."""
        now = time.monotonic()
        if diagnostics.is_quiet() or now - self._spoke < (0.1 if self._live else SAY_EVERY_S):
            return
        self._spoke = now
        text = (
            f"{sent} of {of} submitted"
            + (f", {refused} refused" if refused else "")
            + f", {lasting(self.seconds, decimals=0)}"
        )
        sys.stderr.write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
        sys.stderr.flush()


def templates(
    write: Path | None = typer.Option(None, "--write", metavar="DIR", help="Write the templates to this directory."),
) -> None:
    """List the built-in templates of `seatrial submit`, or write them out for editing.

    Example: seatrial templates --write mine
    """
    from seatrial.scenario.template import KINDS, built_in

    for kind in KINDS:
        text = built_in(kind).read_text(encoding="utf-8")
        if write is None:
            typer.echo(f"{kind:<12} {text.splitlines()[0].removeprefix('# ')}")
        else:
            _write_new(write / f"{kind}.yaml", text)


def _write_new(file: Path, text: str) -> None:
    """Never overwrites a file, which may have been edited."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageProblem(f"{file} exists already", "give --write another directory") from None
    except OSError as error:
        raise UsageProblem(f"{file} cannot be written: {error.strerror}", "give --write another directory") from None
    typer.echo(file)
