"""`-v`, `-q` and SEATRIAL_LOG: how much a command says, and that it never says a secret."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

import pytest

from seatrial.model.diagnostics import command_line, start_log
from seatrial.model.errors import UsageProblem
from tests.conftest import COMMAND, Seatrial

SCENARIO = """name: fits-nowhere
nodes: [{name: fake, count: 1, capacity: {cpu: 1, memory: 1Gi}}]
stacks: [default]
steps:
  - submit: {name: large, count: 1, duration: 2s, requests: {cpu: 8}}
  - pause: 5s
"""


def test_quiet_leaves_results_and_drops_progress_and_findings(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    loud = seatrial("run", "s.yaml", "-o", "loud")
    quiet = seatrial("run", "-q", "s.yaml", "-o", "quiet")
    before = seatrial("-q", "run", "s.yaml", "-o", "before")
    assert "finding: " in loud.stderr
    assert "[1/1]" in loud.stderr
    assert quiet.stderr == before.stderr == ""
    assert quiet.stdout == loud.stdout.replace("loud", "quiet")


def test_the_log_is_off_by_default_and_goes_to_a_file_if_asked(tmp_path: Path) -> None:
    say = "import logging; from seatrial.cli.main import app; from seatrial.cli import listing;"
    say += "logging.getLogger('seatrial.x').debug('hello'); "
    code = f"{say} app(['scenarios'], standalone_mode=False); logging.getLogger('seatrial.x').debug('there')"
    command = [COMMAND[0], "-c", code]
    environment = {key: value for key, value in os.environ.items() if key != "SEATRIAL_LOG"}
    silent = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert silent.stderr == ""
    file = tmp_path / "log.txt"
    environment["SEATRIAL_LOG"] = f"debug:{file}"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert file.read_text().endswith("DEBUG seatrial.x: there\n")


def test_a_level_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_LOG", "loud")
    with pytest.raises(UsageProblem, match="SEATRIAL_LOG=loud: no such level"):
        start_log()


def test_values_of_secret_options_are_not_logged() -> None:
    words = [
        "prog",
        "--token=abc",
        "--password",
        "def",
        "--tls-private-key-file=/x/key",
        "--token-auth-file",
        "/x/t",
        "-v",
    ]
    assert (
        command_line(words)
        == "prog '--token=***' --password '***' --tls-private-key-file=/x/key --token-auth-file /x/t -v"
    )


def test_requests_are_logged_without_their_headers(caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    from seatrial.kube import Access, Client, Request
    from seatrial.kube.credentials import Credentials

    async def exchange() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Client(Access("127.0.0.1", port, Credentials(None, "Bearer abc123"), tls=False)) as client:
            await client.send(Request("list", "pods", "GET", "/api/v1/pods?limit=1"))
        server.close()
        await server.wait_closed()

    with caplog.at_level(logging.DEBUG, logger="seatrial"):
        asyncio.run(exchange())
    said = [record.getMessage() for record in caplog.records if record.name == "seatrial.kube"]
    assert len(said) == 1
    assert "/api/v1/pods?limit=1 as seatrial: 404 Not Found in " in said[0]
    assert said[0].startswith("GET http://127.0.0.1:")
    assert "abc123" not in caplog.text
