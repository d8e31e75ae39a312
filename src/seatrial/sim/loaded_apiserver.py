"""Assembles the API server under load for a trial that needs it, in place of the plain one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import FlowObject, Trial
from seatrial.model.randomness import scalars, stream_seed
from seatrial.record.request_log import RequestLog
from seatrial.scenario.actions.send_requests import Requests
from seatrial.sim.apf_server import ApfServer, Limits
from seatrial.sim.api_clients import Heartbeats, LoadedApi
from seatrial.sim.apiserver import ApiClient
from seatrial.sim.apiserver_metrics import Metering
from seatrial.sim.created_objects import Objects
from seatrial.sim.deployments import Deployments
from seatrial.sim.flow_schemas import DEFAULT_LEVELS, DEFAULT_SCHEMAS, dealable, level_of, schema_of
from seatrial.sim.kernel import Kernel
from seatrial.sim.request_loads import Loads
from seatrial.sim.world import Sim

_NAMESPACE = "trial"


class LoadedApiServer:
    """Server, clients and load of one trial."""

    def __init__(self, trial: Trial, kernel: Kernel, directory: Path) -> None:
        self._trial, self._kernel = trial, kernel
        self._seed = stream_seed(trial.seed, trial.drawn_from, trial.repeat, "requests")
        settings = trial.setup.settings["kube-apiserver"]
        self.objects = Objects(trial.phases(Requests))
        self.log = RequestLog(directory)
        self.server = ApfServer(kernel, _limits(trial), float(settings["cores"]), self._seed)
        self.api = LoadedApi(kernel, self._seed, self.server, self.log, _NAMESPACE)
        manager = trial.setup.settings["kube-controller-manager"]
        self._lifecycle = ApiClient("node-lifecycle-controller", float(manager["qps"]), float(manager["burst"]))
        parallelism = int(trial.setup.settings["kwok"]["parallelism"])
        self.heartbeats = Heartbeats(self.server, self.log, parallelism, self._stream("heartbeats"))
        self.metering = Metering(directory, self.server, float(settings["cores"]))
        self.loads: Loads
        self._deployments: Deployments

    def _stream(self, name: str) -> Random:
        return scalars(stream_seed(self._seed, {}, 0, name))

    def join(self, sim: Sim) -> None:
        """Connects the load to the simulated cluster."""
        trial = self._trial
        namespaces = [f"{_NAMESPACE}-{n}" for n in range(trial.namespaces)] or [_NAMESPACE]
        self._deployments = deployments = Deployments(sim)
        self.loads = Loads(
            self.server, self.log, self.objects, namespaces, trial.setup.delay, self._stream("load"),
            lambda: len(sim.nodes), deployments,
        )  # fmt: skip

    def add_node(self, node: int) -> None:
        """The node renews its lease from now on; the controller manager writes a RegisteredNode event."""
        self.heartbeats.add(node)
        self.api.spend(self._lifecycle)

    def check(self) -> None:
        """Rejects priority levels and flow schemas that a real server would reject or ignore."""
        setup = self._trial.setup
        for level in (level for level in self.server.limits.levels if level.queues):
            if not dealable(level.queues, level.hand):
                raise SetupProblem(
                    f"priority level '{level.name}': a hash cannot deal hands of {level.hand} out of {level.queues} queues",
                    "choose a smaller handSize, at most as many as there are queues",
                )
        levels = {level.name for level in self.server.limits.levels}
        for schema in setup.flow_schemas:
            target = schema_of(schema.name, schema.spec).level
            if target not in levels:
                raise SetupProblem(
                    f"the flow schema '{schema.name}' leads to the priority level '{target}', which does not exist",
                    f"add it under priority-levels, or choose one of {', '.join(sorted(levels))}",
                )

    def close(self) -> None:
        """Writes the remaining metrics and requests."""
        self.metering.close()
        self.log.close()

    def starts(self) -> list[dict[str, Any]]:
        """A row per pod of a created object."""
        return [
            {
                "pod": pod.name, "phase": pod.owner.phase, "created_ns": pod.created, "scheduled_ns": pod.scheduled,
                "running_ns": pod.running, "gone_ns": pod.gone,
            }
            for pod in self._deployments.all
        ]  # fmt: skip


T = TypeVar("T")


def _read(read: Callable[[str, Mapping[str, Any]], T], kind: str, one: FlowObject) -> T:
    """Reads a spec of the set-up; the API server would reject a spec with a missing field."""
    try:
        return read(one.name, one.spec)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        wrong = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise SetupProblem(
            f"the {kind} '{one.name}' is not complete: {wrong}",
            "write its spec as flowcontrol.apiserver.k8s.io/v1 has it (docs/scenario.md)",
        ) from error


def _limits(trial: Trial) -> Limits:
    """Objects of the set-up are added to the server's defaults and replace those of the same name."""
    setup, settings = trial.setup, trial.setup.settings["kube-apiserver"]
    levels = {level.name: level for level in DEFAULT_LEVELS}
    levels |= {one.name: _read(level_of, "priority level", one) for one in setup.priority_levels}
    schemas = {schema.name: schema for schema in DEFAULT_SCHEMAS}
    schemas |= {one.name: _read(schema_of, "flow schema", one) for one in setup.flow_schemas}
    # The server ignores a flow schema whose level does not exist.
    known = tuple(schema for schema in schemas.values() if schema.level in levels)
    reading, mutating = int(settings["max-requests-inflight"]), int(settings["max-mutating-requests-inflight"])
    return Limits(settings["fairness"] == "on", reading, mutating, tuple(levels.values()), known)
