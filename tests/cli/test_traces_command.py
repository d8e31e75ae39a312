"""`seatrial traces inspect` as a user calls it."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Seatrial
from tests.traces import samples

NODES = "cpu,memory,gpus\n" + "64,274877906944,8\n" * 3


def test_inspect_shows_a_trace_against_a_fleet_and_draws_it(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.openb(tmp_path / "pods.csv")
    (tmp_path / "nodes.csv").write_text(NODES)
    done = seatrial("traces", "inspect", "pods.csv", "--nodes", "nodes.csv")
    assert done.returncode == 0, done.stderr
    assert "3 jobs, 3 pods, submitted within 60.0 s" in done.stdout
    assert "1 job asking for a fraction of a GPU: rounded up" in done.stdout
    assert "the fleet has 24 GPUs" in done.stdout
    assert done.stdout.splitlines()[-1] == "pods-trace.png"
    assert (tmp_path / "pods-trace.png").read_bytes().startswith(b"\x89PNG")


def test_shares_and_the_first_submission_are_of_the_jobs_that_a_replay_has(seatrial: Seatrial, tmp_path: Path) -> None:
    gone = [samples.swf_line(job, 7200 * job, user=1, run=-1) for job in range(3)]
    samples.swf(tmp_path / "t.swf", [*gone, samples.swf_line(8, 36000, user=2), samples.swf_line(9, 36060, user=2)])
    done = seatrial("traces", "inspect", "t.swf")
    assert "1 user (2 100%)" in done.stdout
    assert "first submission Mon 1996-09-23 22:00 UTC" in done.stdout
    assert "  Mon" + " " * 25 + "█" in done.stdout, "22:00 is the hour of both"


def test_the_same_trace_gives_the_same_picture(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf.gz")
    for name in ("a.png", "b.png"):
        assert seatrial("traces", "inspect", "t.swf.gz", "--picture", name).returncode == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_table_needs_columns_and_a_wrong_one_is_told_the_nearest(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrived,ran:ms\n0,1500\n60,3000\n")
    unknown = seatrial("traces", "inspect", "t.csv")
    assert (unknown.returncode, "--column submit=" in unknown.stderr) == (2, True)
    wrong = seatrial("traces", "inspect", "t.csv", "--column", "submit=arived", "--column", "duration=ran:ms")
    assert (wrong.returncode, "did you mean 'arrived'?" in wrong.stderr) == (2, True)
    field = seatrial("traces", "inspect", "t.csv", "--column", "submitt=arrived")
    assert (field.returncode, "did you mean 'submit'?" in field.stderr) == (2, True)
    good = seatrial("traces", "inspect", "t.csv", "--column", "submit=arrived:m", "--column", "duration=ran:ms:ms")
    assert (good.returncode, "within 1 h 00 m" in good.stdout, "1.50 s" in good.stdout) == (0, True, True), good.stderr


def test_unusable_lines_are_counted_and_named_and_strict_refuses_them(seatrial: Seatrial, tmp_path: Path) -> None:
    lines = [samples.swf_line(1, 7), "2 10 5\n", samples.swf_line(3, 5, run=-5), samples.swf_line(4, 2)]
    samples.swf(tmp_path / "t.swf", lines)
    done = seatrial("traces", "inspect", "t.swf")
    assert done.returncode == 0
    for said in ("cut off or mixed up (line 6)", "negative duration (line 7)", "1 line earlier than the line before"):
        assert said in done.stdout
    strict = seatrial("traces", "inspect", "t.swf", "--strict")
    assert (strict.returncode, "t.swf:6: cut off or mixed up, and 1 more such line" in strict.stderr) == (2, True)


def test_what_cannot_be_inspected_is_a_sentence_and_status_2(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf")
    (tmp_path / "none.swf").write_text(samples.SWF_HEADER)
    for arguments, said in (
        (("none.swf",), "no jobs"),
        (("there-is-none.swf",), "no such file"),
        (("t.swf", "--format", "swff"), "did you mean 'swf'?"),
        (("t.swf", "--picture", "t.doc"), ".png, .svg, .pdf"),
        (("t.swf", "--nodes", "t.swf"), "t.swf"),
        (("t.swf", "--unknown-duration", "7"), "is not a duration"),
        (("t.swf", "--fractions", "upp"), "did you mean 'up'?"),
    ):
        done = seatrial("traces", "inspect", *arguments)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
