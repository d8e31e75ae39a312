"""What all tests share: running the command line as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# What `make test` says depends on the commit alone; `make hunt` draws other cases than last time, ten times as many.
# The machines that run the tests are busy: how long one example takes says nothing.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("hunt", settings.get_profile("same"), derandomize=False, print_blob=True)
settings.load_profile("same")
HUNTED = 10  # times as many, also for tests that say themselves how many they draw

Seatrial = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-m", "seatrial"]


# What starts processes, of ours or of others: a second or more each, so `make check` leaves them to `make test`.
PROCESSES = {"attached", "cli", "kube", "local", "page", "ray", "runs", "sampling", "stacks", "submit"}
# Folders whose tests share one control plane: one worker runs all of them.
SHARING = {"attached", "kube", "local", "sampling", "steps", "submit"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fast tests first: a mistake shows within seconds, not after the control planes."""
    if config.getoption("--hypothesis-profile", None) == "hunt":
        _draw_more(items)
    for item in items:
        place = item.path.relative_to(config.rootpath / "tests")
        if place.parts[0] in PROCESSES:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: [item.get_closest_marker(mark) is not None for mark in ("local", "slow")])


def _control_plane_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    folder = file.split("/")[1]
    return folder if folder in SHARING else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup`: the tests of a file, and of a folder that shares a control plane, run on one worker. xdist's own way
    writes the group into a field that pytest 9.2 no longer reads: it groups nothing."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _control_plane_of
    return scheduler


def _draw_more(items: list[pytest.Item]) -> None:
    """A test's own `max_examples` wins over the profile: so it is changed where hypothesis keeps it."""
    tests = {id(test): test for item in items if hasattr(test := getattr(item, "obj", None), _SETTINGS)}
    for test in tests.values():
        own = getattr(test, _SETTINGS)
        setattr(test, _SETTINGS, settings(own, max_examples=HUNTED * own.max_examples))


_SETTINGS = "_hypothesis_internal_use_settings"


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clusters of the person who runs the tests are none of our business. Binaries are: the cache stays theirs."""
    home = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        patch.delenv("KUBECONFIG", raising=False)
        yield home


def command_in(folder: Path, *command: str) -> Seatrial:
    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
        return subprocess.run(
            [*command, *map(str, arguments)],
            cwd=folder,
            env={**plain, "COLUMNS": "80", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def seatrial(tmp_path: Path) -> Seatrial:
    """`seatrial("run", …)` in an empty directory; 80 columns, no terminal."""
    return command_in(tmp_path, *COMMAND)


_SLOWLY = """
import asyncio, sys
from seatrial.cli.main import main
from seatrial.clusters.requests.role_bindings import RoleBindings

bind = RoleBindings._bind

async def slowly(self, user, namespaces):
    await asyncio.sleep(0.5)
    await bind(self, user, namespaces)

RoleBindings._bind = slowly
sys.exit(main())
"""


@pytest.fixture
def seatrial_giving_roles_slowly(tmp_path: Path) -> Seatrial:
    """The same where it takes half a second until an identity of a load has its role."""
    return command_in(tmp_path, sys.executable, "-c", _SLOWLY)
