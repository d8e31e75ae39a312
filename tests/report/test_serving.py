"""The local page over all studies, asked by a real client."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from seatrial.model.errors import UsageProblem
from seatrial.record.locks import hold
from seatrial.report.serving import StudyServer
from tests.analysis.making import Made, plain, write_trial
from tests.analysis.test_comparing import FAST, SLOW, study, trials

Ask = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "secret.txt").write_text("nobody's business")
    root = folder / "out"
    study(root / "fast", trials(*FAST), run={"state": "complete", "started": "2026-07-25T10:00:00+00:00"})
    study(root / "week 1" / "slow", trials(*SLOW), seed=2, run={"state": "complete"})
    study(root / "other", trials(*SLOW), name="<script>alert(1)</script>", run={"state": "interrupted"})
    study(root / "newer", trials(10_000), format=7, seatrial="9.0")
    (root / "fast" / "report.html").write_text("<p>the report</p>")
    (root / "fast" / "leak.txt").symlink_to(folder / "secret.txt")
    (root / "fast" / "notes.md").write_text("not for the page")
    return root


@pytest.fixture
def server(root: Path) -> Iterator[StudyServer]:
    with StudyServer(root) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server: StudyServer) -> Ask:
    def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(errors="replace")
        connection.close()
        return found

    return ask


def test_the_list_has_every_study_and_can_be_filtered(ask: Ask) -> None:
    status, page = ask("/")
    assert status == 200
    assert re.findall(r'href="(/study/[^"]+)"', page) != []
    assert {"/study/fast/", "/study/week%201/slow/"} <= set(re.findall(r'href="(/study/[^"]+)"', page))
    assert "reads up to format 1" in page, "one of a newer version is said to be that"
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page
    _, page = ask("/?q=week")
    assert re.findall(r'href="(/study/[^"]+)"', page) == ["/study/week%201/slow/"]
    assert "No study matches" in ask("/?q=nothing")[1]


def test_a_study_is_opened_with_its_figures_and_files(ask: Ask) -> None:
    status, page = ask("/study/fast/")
    assert status == 200 and "5 of 5 trials" in page
    assert ask("/study/fast/report.html") == (200, "<p>the report</p>")
    status, text = ask("/study/week%201/slow/trials/001-kwok-r1/trial.json")
    assert status == 200 and json.loads(text)["setup"] == "kwok"
    assert ask("/study/fast/report.html", "HEAD") == (200, "")


def test_two_ticked_studies_are_compared(ask: Ask) -> None:
    status, page = ask("/compare?study=fast&study=week+1%2Fslow")
    assert status == 200
    assert "more than noise: total_s slower" in page
    status, page = ask("/compare?study=fast&study=other")
    assert "not comparable" in page and 'href="/compare?anyway=1&amp;study=fast&amp;study=other"' in page
    assert "Not comparable, compared anyway" in ask("/compare?anyway=1&study=fast&study=other")[1]
    assert ask("/compare?study=fast")[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/study/../secret.txt", "/study/%2e%2e/secret.txt", "/study/fast/../../../secret.txt", "/study/..%2fsecret.txt",
        "/study/fast/leak.txt", "/study//etc/passwd", "/study/fast/notes.md", "/study/fast/trials/001-kwok-r1/submitted.jsonl",
        "/study/nothing/", "/study/week%201/", "/elsewhere", "/study/fast/%00", "/study/" + "x" * 5000 + "/",
        "/compare?study=..&study=fast", "/compare?study=/etc&study=fast",
    ],
)  # fmt: skip
def test_nothing_outside_the_directory_is_shown(ask: Ask, path: str) -> None:
    status, page = ask(path)
    assert status in (404, 400)
    assert "nobody" not in page


def test_requests_in_the_name_of_another_host_are_refused(ask: Ask, server: StudyServer) -> None:
    assert ask("/", Host="evil.example")[0] == 403
    assert ask("/", Host=f"evil.example:{server.server_address[1]}")[0] == 403
    assert ask("/", Host=f"localhost:{server.server_address[1]}")[0] == 200
    assert server.server_address[0] == "127.0.0.1"


def test_nothing_can_be_written(ask: Ask, root: Path) -> None:
    before = sorted(path for path in root.rglob("*"))
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask("/study/fast/", method)[0] == 501
    ask("/")
    ask("/study/fast/")
    assert sorted(path for path in root.rglob("*")) == before


def test_a_running_study_shows_how_far_it_is(ask: Ask, root: Path) -> None:
    live = study(root / "live", trials(*FAST[:2]), run={"state": "running"})
    document = json.loads((live / "study.json").read_text())
    running = Made([plain(), plain(10)], repeat=3, number=3, outcome="running", sealed=False)
    write_trial(live / "trials" / running.name, running)
    trial = json.loads((live / "trials" / running.name / "trial.json").read_text())
    trial["phases"]["short"]["count"] = 8
    (live / "trials" / running.name / "trial.json").write_text(json.dumps(trial))
    (live / "study.json").write_text(
        json.dumps({**document, "trials": [*document["trials"], running.name, "004-kwok-r4"]})
    )
    with hold(live):
        _, page = ask("/study/live/")
        assert "running: 2 of 4 trials, 2 of 8 workloads submitted" in page
        assert '<meta http-equiv="refresh"' in page, "it comes again by itself"
        assert '<meta http-equiv="refresh"' in ask("/")[1]
        assert '<meta http-equiv="refresh"' not in ask("/study/fast/")[1]
    _, page = ask("/study/live/")
    assert "killed, 2 of 4 trials" in page, "the lock goes with the process"
    assert '<meta http-equiv="refresh"' not in page


def test_the_list_says_what_was_interrupted_and_what_is_damaged(ask: Ask, root: Path) -> None:
    cut = study(root / "cut", trials(*FAST[:2]), run={"state": "interrupted"})
    document = json.loads((cut / "study.json").read_text())
    (cut / "study.json").write_text(json.dumps({**document, "trials": [*document["trials"], "003-x", "004-x"]}))
    (cut / "trials" / "001-kwok-r1" / "observed.parquet").unlink()
    assert "interrupted, 2 of 4 trials, 1 damaged" in ask("/")[1]
    page = ask("/study/cut/")[1]
    assert "interrupted: 2 of 4 trials begun" in page
    assert "001-kwok-r1 is damaged: observed.parquet is missing" in page


def test_a_directory_or_port_that_cannot_be_used_is_said(server: StudyServer, root: Path) -> None:
    with pytest.raises(UsageProblem, match="not a directory"):
        StudyServer(root / "nowhere")
    with pytest.raises(UsageProblem, match="cannot be used"):
        StudyServer(root, server.server_address[1])
