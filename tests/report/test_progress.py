from io import StringIO

from rich.console import Console

from seatrial.report.run_progress import Progress


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def log(trials: int) -> tuple[Progress, StringIO, Watch]:
    file, watch = StringIO(), Watch()
    return Progress(trials, Console(file=file, force_terminal=False), watch), file, watch


def test_a_log_gets_one_plain_line_per_finished_trial() -> None:
    progress, file, _ = log(12)
    with progress:
        progress.started("001-kwok-r0")
        figures = {"submitted": 10, "workloads": 10, "completed": 10, "total_s": 23.04, "valid": True}
        progress.ended("001-kwok-r0", "completed", figures)
        progress.started("002-kwok-r1")
        progress.ended("002-kwok-r1", "clogged", {**figures, "completed": 4, "total_s": None, "valid": False})
    assert file.getvalue().splitlines() == [
        "[ 1/12] 001-kwok-r0: completed, 10 of 10 workloads completed, total 23.0 s",
        "[ 2/12] 002-kwok-r1: clogged, 4 of 10 workloads completed, not to be trusted",
    ]


def test_workloads_that_failed_are_told_also_where_all_steps_ended() -> None:
    progress, file, _ = log(1)
    with progress:
        progress.started("001-appwrapper-r0")
        progress.ended(
            "001-appwrapper-r0",
            "completed",
            {"submitted": 15, "workloads": 15, "completed": 7, "failed": 8, "valid": True},
        )
    assert file.getvalue() == "[1/1] 001-appwrapper-r0: completed, 7 of 15 workloads completed, 8 failed\n"


def test_a_log_hears_of_a_long_trial_after_two_seconds_and_then_every_five() -> None:
    progress, file, watch = log(1)
    with progress:
        progress.started("001-kwok-r0")
        for tick in range(130):
            watch.now = tick / 10
            progress.update("001-kwok-r0", submitted=tick, completed=tick, of=200, virtual_s=float(tick))
    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0] == "0 of 1 trials done after 2 s; 001-kwok-r0 20 of 200 completed at 20 s; about 18 s left"


def test_a_load_of_requests_is_told_by_its_requests() -> None:
    progress, file, watch = log(1)
    with progress:
        progress.started("001-on-r0")
        watch.now = 3.0
        progress.update("001-on-r0", 0, 0, 0, 2.5, 12345)
        progress.ended("001-on-r0", "completed", {"submitted": 0, "completed": 0, "requests": 200000, "total_s": 60.0})
    assert file.getvalue().splitlines() == [
        "0 of 1 trials done after 3 s; 001-on-r0 12,345 requests at 2 s",
        "[1/1] 001-on-r0: completed, 200,000 requests, total 60.0 s, ran for 3 s",
    ]


def test_a_short_run_says_nothing_but_its_result() -> None:
    progress, file, watch = log(1)
    with progress:
        progress.started("001-kwok-r0")
        watch.now = 1.9
        progress.update("001-kwok-r0", 1, 0, 1, 3.0)
        progress.ended("001-kwok-r0", "completed")
    assert file.getvalue().splitlines() == ["[1/1] 001-kwok-r0: completed"]


def test_on_a_terminal_the_rows_are_live_and_only_what_went_wrong_stays() -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None, _environ={"TERM": "xterm"})
    with Progress(3, console) as progress:
        for number in range(9):
            progress.started(f"trial-{number}")
        progress.update("trial-1", 50, 40, 100, 12.0)
        view = Console(width=80, file=StringIO())
        view.print(progress.view())
        progress.ended("trial-1", "completed", {"submitted": 100, "completed": 100, "valid": True})
        progress.ended("trial-2", "timeout", {"submitted": 100, "completed": 7, "valid": True})
    shown = view.file.getvalue()  # type: ignore[attr-defined]
    assert "40 of 100 completed, at 12 s" in shown
    assert "and 3 more" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "trial-2: timeout, 7 of 100 workloads completed" in file.getvalue()
    assert "trial-1: completed" not in file.getvalue()


def test_a_finding_is_a_line_of_its_own() -> None:
    progress, file, _ = log(1)
    with progress:
        progress.say("pods of 'big' fit no node: fake: too little cpu")
    assert file.getvalue() == "pods of 'big' fit no node: fake: too little cpu\n"


def test_what_a_trial_takes_and_what_is_left_follow_from_the_trials_that_ended() -> None:
    progress, file, watch = log(4)
    with progress:
        for name in ("001-a-r1", "002-b-r1"):
            progress.started(name)
            watch.now += 30.0
            progress.ended(name, "completed")
        progress.started("003-a-r2")
        watch.now += 15.0
        progress.update("003-a-r2", 10, 5, 10, 4000.0)
    lines = file.getvalue().splitlines()
    assert lines[0] == "[1/4] 001-a-r1: completed, ran for 30 s"
    assert (
        lines[-1]
        == "2 of 4 trials done after 75 s; 003-a-r2 5 of 10 completed at 1 h 07 m; 30 s a trial, about 45 s left"
    )
    assert progress.status == "2 of 4 trials ended after 75 s; 30 s a trial, about 45 s left"


def test_time_left_shrinks_while_a_trial_that_only_sends_requests_runs() -> None:
    progress, _, watch = log(2)
    with progress:
        progress.started("001-off-r1")
        watch.now += 40.0
        progress.ended("001-off-r1", "completed")
        progress.started("002-on-r1")
        watch.now += 20.0
        assert progress.status.endswith("40 s a trial, about 20 s left")
        watch.now += 16.0
        assert progress.status.endswith("40 s a trial, about 4 s left")


def test_before_anything_is_done_nothing_is_foretold() -> None:
    progress, file, watch = log(2)
    with progress:
        progress.started("001-a-r1")
        watch.now = 3.0
        progress.update("001-a-r1", 100, 1, 100, 1.0)
    assert "left" not in file.getvalue()
    assert progress.status == "0 of 2 trials ended after 3 s"


def test_a_trial_that_was_cut_off_says_nothing_of_how_long_a_trial_takes() -> None:
    progress, _, watch = log(16)
    progress.started("001-kwok-r0")
    watch.now = 0.6
    progress.ended("001-kwok-r0", "completed", {})
    progress.started("002-kwok-r0")
    progress.ended("002-kwok-r0", "interrupted", {})
    assert progress.status == "1 of 16 trials ended after 0.6 s; 0.6 s a trial, about 9 s left"
