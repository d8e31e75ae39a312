"""The fuller API server in place of the plain one, put together for one trial that asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import FlowObject, Span, Trial
from seatrial.model.randomness import scalars, stream_seed
from seatrial.record.requests import RequestLog
from seatrial.sim.api import Client
from seatrial.sim.calling import BusyApi, Heartbeats
from seatrial.sim.flows import DEFAULT_LEVELS, DEFAULT_SCHEMAS, dealable, level_of, schema_of
from seatrial.sim.kernel import Kernel
from seatrial.sim.loading import Loads
from seatrial.sim.metering import Metering
from seatrial.sim.owners import Owners
from seatrial.sim.server import Limits, Server
from seatrial.sim.world import Sim

_NAMESPACE = "trial"


class Busy:
    """Server, clients and load of one trial."""

    def __init__(self, trial: Trial, kernel: Kernel, directory: Path) -> None:
        self._trial, self._kernel = trial, kernel
        self._seed = stream_seed(trial.seed, trial.drawn_from, trial.repeat, "requests")
        settings = trial.setup.settings["kube-apiserver"]
        self.log = RequestLog(directory)
        self.server = Server(kernel, _limits(trial), float(settings["cores"]), self._seed)
        self.api = BusyApi(kernel, self._seed, self.server, self.log, _NAMESPACE)
        manager = trial.setup.settings["kube-controller-manager"]
        self._lifecycle = Client("node-lifecycle-controller", float(manager["qps"]), float(manager["burst"]))
        parallelism = int(trial.setup.settings["kwok"]["parallelism"])
        self.heartbeats = Heartbeats(self.server, self.log, parallelism, self._stream("heartbeats"))
        self.metering = Metering(directory, self.server, float(settings["cores"]))
        self.loads: Loads
        self._owners: Owners

    def _stream(self, name: str) -> Random:
        return scalars(stream_seed(self._seed, {}, 0, name))

    def join(self, sim: Sim) -> None:
        """Once the rest of the cluster is there."""
        trial = self._trial
        namespaces = [f"{_NAMESPACE}-{n}" for n in range(trial.namespaces)] or [_NAMESPACE]

        def delays() -> Span | None:
            """Of the first node that would take a pod."""
            group = next((group for node, group in enumerate(sim.nodes.groups) if sim.nodes.is_open(node)), None)
            if group is None:
                return None
            create, start = group.create, group.start
            return Span(create.least + start.least, max(create.most, create.least) + max(start.most, start.least))

        self._owners = owners = Owners(self._kernel, self.api, sim.kwok, trial.setup.settings, delays)
        self.loads = Loads(
            self.server, self.log, trial.requests(), namespaces, trial.setup.delay, self._stream("load"),
            lambda: len(sim.nodes), owners,
        )  # fmt: skip

    def add_node(self, node: int) -> None:
        """It renews its lease from now on, and the controller manager records that it is there (RegisteredNode)."""
        self.heartbeats.add(node)
        self.api.spend(self._lifecycle)

    def check(self) -> None:
        """What a real server would not follow is said before the load."""
        setup = self._trial.setup
        for level in (level for level in self.server.limits.levels if level.queues):
            if not dealable(level.queues, level.hand):
                raise SetupProblem(
                    f"priority level '{level.name}': a hash cannot deal hands of {level.hand} out of {level.queues} queues",
                    "choose a smaller handSize, at most as many as there are queues",
                )
        levels = {level.name for level in self.server.limits.levels}
        for one in setup.flow_schemas:
            wanted = schema_of(one.name, one.spec).level
            if wanted not in levels:
                raise SetupProblem(
                    f"the flow schema '{one.name}' leads to the priority level '{wanted}', which is not there",
                    f"add it under priority-levels, or choose one of {', '.join(sorted(levels))}",
                )

    def close(self) -> None:
        self.metering.close()
        self.log.close()

    def starts(self) -> list[dict[str, Any]]:
        """A row per pod that came of a created object."""
        return [
            {
                "pod": pod.name, "phase": pod.owner.phase, "created_ns": pod.created, "scheduled_ns": pod.scheduled,
                "running_ns": pod.running, "gone_ns": pod.gone,
            }
            for pod in self._owners.all
        ]  # fmt: skip


T = TypeVar("T")


def _read(read: Callable[[str, Mapping[str, Any]], T], kind: str, one: FlowObject) -> T:
    """A spec as the set-up writes it; the API server would refuse one with a field missing."""
    try:
        return read(one.name, one.spec)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        wrong = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise SetupProblem(
            f"the {kind} '{one.name}' is not complete: {wrong}",
            "write its spec as flowcontrol.apiserver.k8s.io/v1 has it (docs/scenario.md)",
        ) from error


def _limits(trial: Trial) -> Limits:
    """Objects of the set-up stand beside those that the server makes, or in their place if they have the same name."""
    setup, settings = trial.setup, trial.setup.settings["kube-apiserver"]
    levels = {level.name: level for level in DEFAULT_LEVELS}
    levels |= {one.name: _read(level_of, "priority level", one) for one in setup.priority_levels}
    schemas = {schema.name: schema for schema in DEFAULT_SCHEMAS}
    schemas |= {one.name: _read(schema_of, "flow schema", one) for one in setup.flow_schemas}
    # The server passes over a flow schema whose level is not there.
    known = tuple(schema for schema in schemas.values() if schema.level in levels)
    reading, mutating = int(settings["max-requests-inflight"]), int(settings["max-mutating-requests-inflight"])
    return Limits(settings["fairness"] == "on", reading, mutating, tuple(levels.values()), known)
