"""From the queues, cohorts, flavors and rules of a file to the fleet of each set-up, and the mistakes that only the whole shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from seatrial.model.errors import Mistake
from seatrial.model.fleet import ANY, NEVER, Cohort, Flavor, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import NodeGroup, Scalar
from seatrial.model.units import format_quantity
from seatrial.scenario import params
from seatrial.scenario.field_types import quantity
from seatrial.scenario.fields import Fields, KnownNames
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.queue_fields import NONE, CohortFields, PreemptionFields, QueueFields
from seatrial.scenario.schema import ScenarioFields
from seatrial.scenario.source import KeyPath, Source
from seatrial.scenario.validation import translated

BYTES = ("memory", "ephemeral-storage", "storage")
F = TypeVar("F", bound=Fields)
Quotas = Mapping[str, Mapping[str, int]]  # flavor → resource → amount


class FleetPlanning:
    """The fleet of a scenario whose fields are valid. What is wrong with it as a whole is added to `mistakes`."""

    def __init__(
        self, source: Source, fields: ScenarioFields, values: Mapping[str, Scalar], mistakes: list[Mistake]
    ) -> None:
        self.source, self.fields, self.values, self.mistakes = source, fields, values, mistakes
        self.flavors = tuple(Flavor(name, flavor.nodes) for name, flavor in (fields.flavors or {}).items())
        self.priorities = dict(fields.priorities or {})
        self._known = KnownNames({"flavor": [flavor.name for flavor in self.flavors]})
        self.cohorts = tuple(
            self._cohort(path, name, one) for path, name, one in self._entries("cohorts", CohortFields, fields.cohorts)
        )
        self.queues = tuple(
            self._queue(path, name, one) for path, name, one in self._entries("queues", QueueFields, fields.queues)
        )
        self._refuse_rings()

    def fleet(self, setup: str, own: PreemptionFields | None) -> Fleet:
        """The fleet of a set-up: its own rules of preemption win over the scenario's."""
        return Fleet(self.queues, self.cohorts, self.flavors, self._preemption(setup, own), self.priorities)

    def check_nodes(self, setup: str, groups: Iterable[NodeGroup]) -> list[Mistake]:
        """Flavors and quotas of what the nodes of a set-up do not have. Existing nodes are not known here."""
        nodes = {group.name: group for group in groups}
        if any(group.existing for group in nodes.values()):
            return []
        found = [
            self.source.mistake(
                ("flavors", flavor.name, "nodes"),
                f"set-up '{setup}' has no node group '{flavor.nodes}'",
                remedy_for(flavor.nodes, nodes),
            )
            for flavor in self.flavors
            if flavor.nodes not in nodes
        ]
        has = {flavor.name: [nodes[flavor.nodes]] for flavor in self.flavors if flavor.nodes in nodes}
        has[""] = list(nodes.values())
        for section, path, quotas in self._written_quotas():
            for flavor, amounts in quotas.items():
                for resource in amounts:
                    if flavor in has and not any(group.capacity.get(resource) for group in has[flavor]):
                        found.append(self._no_such_resource((section, path, "quota"), flavor, resource, has[flavor]))
        return found

    def _no_such_resource(self, path: KeyPath, flavor: str, resource: str, groups: list[NodeGroup]) -> Mistake:
        known = dict.fromkeys(name for group in groups for name, amount in group.capacity.items() if amount)
        where = f"of flavor '{flavor}' " if flavor else ""
        nested = (flavor,) if (*path, flavor) in self.source.values else ()
        what = f"a quota of {resource}, which no node {where}has"
        return self.source.mistake((*path, *nested, resource), what, remedy_for(resource, known), key=True)

    def _written_quotas(self) -> Iterator[tuple[str, str, Quotas]]:
        for section, entries in (("queues", self.fields.queues), ("cohorts", self.fields.cohorts)):
            for name, fields in (entries or {}).items():
                if fields.quota:
                    yield section, name, fields.quota

    def _entries(
        self, section: str, kind: type[F], written: Mapping[str, F] | None
    ) -> Iterator[tuple[KeyPath, str, F]]:
        """Every queue or cohort: path as written, name, fields. Of many alike each is read with its own `${i}`."""
        taken: set[str] = set()
        for key, first in (written or {}).items():
            path: KeyPath = (section, key)
            count: int | None = getattr(first, "count", None)
            numbered = "${i" in key.replace(" ", "")
            if count is not None and not numbered:
                what, remedy = f"{count} {section} called '{key}'", "write ${i} into the name, like " + key + "-${i}"
                self._wrong(path, what, remedy, key=True)
            elif count is None and numbered:
                self._wrong(path, "'${i}' in a name without `count`", "add how many there are, like count: 6", key=True)
            else:
                for name, fields in self._alike(path, kind, first, count):
                    if name in taken:
                        what = f"two {section} are called '{name}'"
                        self._wrong(path, what, "give each a different name", key=True)
                    else:
                        yield path, name, fields
                    taken.add(name)

    def _alike(self, path: KeyPath, kind: type[F], first: F, count: int | None) -> Iterator[tuple[str, F]]:
        numbers = [None] if count is None else range(count)
        fields, last = first, ""
        for number, (name, body, wrong) in enumerate(params.alike(self.source, self.values, path, numbers)):
            mistakes = [mistake for mistake in wrong.values() if mistake]
            if number and not wrong and (text := repr(body)) != last:
                last = text
                try:
                    fields = kind.model_validate(body, context=self._known)
                except ValidationError as error:
                    mistakes += translated(self.source, {path[0]: {path[1]: body}}, self._known, error, path)
            self.mistakes += mistakes
            if mistakes:
                return
            yield name, fields

    def _queue(self, path: KeyPath, name: str, fields: QueueFields) -> Queue:
        if len(fields.quota) < 2:
            for key in ("borrow-first", "preempt-first"):
                if key.replace("-", "_") in fields.model_fields_set:
                    what = f"'{key}' is about the next flavor, and this queue has one"
                    self._wrong((*path, key), what, "remove it, or give the queue a quota of two flavors", key=True)
        if not fields.cohort and not any(amount for amounts in fields.quota.values() for amount in amounts.values()):
            what = f"queue '{name}' has a quota of nothing and nobody to borrow from"
            self._wrong((*path, "quota"), what, "write amounts above 0, or add a `cohort`")
        return Queue(
            name, self._quotas(path, fields.quota, fields), fields.cohort or "", fields.weight, fields.borrow_first,
            fields.preempt_first,
        )  # fmt: skip

    def _cohort(self, path: KeyPath, name: str, fields: CohortFields) -> Cohort:
        return Cohort(name, fields.parent or "", self._quotas(path, fields.quota or {}, fields), fields.weight)

    def _quotas(self, path: KeyPath, quota: Quotas, fields: QueueFields | CohortFields) -> tuple[FlavorQuota, ...]:
        borrow = self._limits((*path, "borrow"), fields.borrow, quota)
        lend = self._limits((*path, "lend"), fields.lend, quota)
        for flavor, amounts in quota.items():
            for resource, most in lend[flavor].items():
                if most > amounts[resource]:
                    has = format_quantity(amounts[resource], resource)
                    what = f"lends {format_quantity(most, resource)} of {resource}, and its quota is {has}"
                    self._wrong((*path, "lend"), what, f"write {has} or less, or any")
        return tuple(
            FlavorQuota(flavor, dict(amounts), borrow[flavor], lend[flavor]) for flavor, amounts in quota.items()
        )

    def _limits(self, path: KeyPath, limit: Any, quota: Quotas) -> dict[str, dict[str, int]]:
        """Flavor → resource → how much at most; what has no limit is left out."""
        if not isinstance(limit, Mapping):
            return {flavor: self._same(path, limit, amounts) for flavor, amounts in quota.items()}
        found: dict[str, dict[str, int]] = {flavor: {} for flavor in quota}
        if any(flavor in limit for flavor in quota if flavor):
            for flavor, own in limit.items():
                if flavor not in quota:
                    self._wrong((*path, flavor), f"no quota of flavor '{flavor}'", remedy_for(flavor, quota), key=True)
                elif isinstance(own, Mapping):
                    found[flavor] = self._limits((*path, flavor), own, {flavor: quota[flavor]})[flavor]
                else:
                    found[flavor] = self._same((*path, flavor), own, quota[flavor])
            return found
        for resource, amount in limit.items():
            having = [flavor for flavor, amounts in quota.items() if resource in amounts]
            if not having:
                known = dict.fromkeys(name for amounts in quota.values() for name in amounts)
                what = f"a limit of {resource}, of which there is no quota"
                self._wrong((*path, resource), what, remedy_for(resource, known), key=True)
            for flavor in having:
                found[flavor] |= self._same((*path, resource), amount, {resource: 0})
        return found

    def _same(self, path: KeyPath, limit: Any, amounts: Mapping[str, int]) -> dict[str, int]:
        """`none`, `any` or one amount, for every resource of a quota."""
        if limit in (ANY, NONE):
            return {} if limit == ANY else dict.fromkeys(amounts, 0)
        if len(amounts) > 1 and any(resource in BYTES for resource in amounts):
            each = ", ".join(f"{resource}: …" for resource in amounts)
            self._wrong(path, "one amount for bytes and for what is counted otherwise", f"write {{{each}}}")
            return {}
        try:
            return {resource: quantity(limit, resource) for resource in amounts}
        except PydanticCustomError as error:
            context = error.context or {}
            self._wrong(path, context["what"], f"{context['remedy']}; or write none or any")
            return {}

    def _preemption(self, setup: str, own: PreemptionFields | None) -> Preemption:
        given: dict[str, Any] = {}
        places: dict[str, KeyPath] = {}
        for path, fields in ((("preemption",), self.fields.preemption), (("setups", setup, "preemption"), own)):
            for name in fields.model_fields_set if fields else ():
                given[name], places[name] = getattr(fields, name), (*path, name.replace("_", "-"))
        up_to = given.pop("while_borrowing_up_to", None)
        rules = Preemption(**given, while_borrowing_up_to=self.priorities.get(up_to, up_to))
        if rules.while_borrowing != NEVER and rules.reclaim == NEVER:
            what = "'while-borrowing' evicts in other queues, and 'reclaim' is never"
            self._wrong(places["while_borrowing"], what, "write reclaim: any or lower-priority, or remove it")
        if up_to is not None and rules.while_borrowing == NEVER:
            what = "'while-borrowing-up-to' goes with 'while-borrowing'"
            self._wrong(places["while_borrowing_up_to"], what, "add while-borrowing: lower-priority", key=True)
        return rules

    def _refuse_rings(self) -> None:
        """A cohort that is, over its parents, part of itself. Each ring is reported once."""
        parents = {cohort.name: cohort.parent for cohort in self.cohorts}
        done: set[str] = set()
        for first in parents:
            way: list[str] = []
            at = first
            while at in parents and at not in done:
                done.add(at)
                way.append(at)
                at = parents[at]
            if at in way:
                ring = [*way[way.index(at) :], at]
                what = f"the parents of cohort '{at}' make a ring: {' → '.join(ring)}"
                self._wrong((*self._path_of(way[-1]), "parent"), what, "give one of them no parent")

    def _path_of(self, cohort: str) -> KeyPath:
        """Where a cohort is written; of many alike, the entry that makes them."""
        written = self.fields.cohorts or {}
        if cohort in written:
            return ("cohorts", cohort)
        made = (key for key in written if "${" in key and cohort.startswith(key.partition("${")[0]))
        return ("cohorts", next(made, cohort))

    def _wrong(self, path: KeyPath, what: str, remedy: str, *, key: bool = False) -> None:
        self.mistakes.append(self.source.mistake(path, what, remedy, key=key))
