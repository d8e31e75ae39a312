"""api.csv and api-differences.csv: the API server under load, run by run, and what set-ups differ in.

api.csv is one long table with a row per number: of the client (by identity, verb and resource), of the seven measurements, of the
server's priority levels and flow schemas. api-differences.csv compares every set-up with the first, measurement by measurement,
and says whether the difference is larger than the noise between runs.

Runs with different params are different experiments: every table keeps them apart by the params that vary, as `compare` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from seatrial.analysis.api_load import MEASUREMENTS, ApiLoad, counted, measurements
from seatrial.analysis.cells import called, labels
from seatrial.analysis.resampling import of_runs
from seatrial.analysis.studies import Study
from seatrial.model.doubts import COUNTS, KINDS, RATES, TIMES
from seatrial.model.figures import FIGURES
from seatrial.model.units import SECOND
from seatrial.record.files import atomic_write
from seatrial.record.layout import API, DIFFERENCES
from seatrial.record.request_log import SERVER
from seatrial.record.trial_record import TrialRecord

COLUMNS = ("trial", "setup", "params", "repeat", "valid", "about", "who", "verb", "resource", "statistic", "value")
DIFFERENCE_COLUMNS = (
    "measurement", "unit", "statistic", "params", "baseline", "setup", "of_baseline", "of_setup", "difference", "percent", "low",
    "high", "level", "runs", "larger_than_noise", "valid",
)  # fmt: skip

Row = tuple[str, str, str, str, str, float | None]  # about, who, verb, resource, statistic, value


def api_rows(load: ApiLoad) -> Iterator[Row]:
    """The rows of api.csv for one trial."""
    for (identity, verb, resource), rows in load.requests.group_by("identity", "verb", "resource", maintain_order=True):
        for statistic, value in counted(rows).items():
            yield "requests", str(identity), str(verb), str(resource), statistic, value
        asked = rows.filter((pl.col("code") == 429) & (pl.col("retry_after_s") >= 0))["retry_after_s"]
        if asked.len():
            yield "requests", str(identity), str(verb), str(resource), "retry_after_s", _float(asked.mean())
    for (name,), rows in measurements(load).group_by("measurement", maintain_order=True):
        yield "measurement", "", "", str(name), "mean", _float(rows["value"].mean())
        yield "measurement", "", "", str(name), "max", _float(rows["value"].max())
    yield from _flows(load)
    yield from _processes(load)


def _flows(load: ApiLoad) -> Iterator[Row]:
    """Per flow schema (`who`) and priority level (`resource`): dispatched, rejected by reason, waited, executing and queued
    at most."""
    rows = load.metrics.filter(pl.col("metric").str.starts_with("apiserver_flowcontrol_"))
    rows = rows.filter(pl.col("labels").str.contains("flow_schema=", literal=True))
    labels = {
        key: pl.col("labels").str.extract(rf"(?:^|,){key}=([^,]*)")
        for key in ("flow_schema", "priority_level", "reason")
    }
    rows = rows.with_columns(**labels).filter(~pl.col("metric").str.ends_with("_bucket"))
    gained: dict[tuple[str, str, str], float] = {}
    for (schema, level, metric, reason), part in rows.group_by(
        "flow_schema", "priority_level", "metric", "reason", maintain_order=True
    ):
        series = part.group_by("at_ns", maintain_order=True).agg(pl.col("value").sum()).sort("at_ns")
        short = str(metric).removeprefix("apiserver_flowcontrol_")
        if short.endswith(("_total", "_sum", "_count")):
            first = series["value"][0] if series["at_ns"][0] <= _first_look(load) else 0.0
            name = f"rejected {reason}" if short.startswith("rejected") else short
            gained[str(schema), str(level), name] = series["value"][-1] - first
        else:
            yield "flow", str(schema), "", str(level), f"{short}_max", _float(series["value"].max())
    for (schema, level, name), value in gained.items():
        if name == "request_wait_duration_seconds_sum":
            count = gained.get((schema, level, "request_wait_duration_seconds_count"), 0.0)
            yield "flow", schema, "", level, "wait_mean_s", value / count if count else None
        elif name.endswith("_count"):
            continue
        else:
            yield "flow", schema, "", level, name.removesuffix("_requests_total"), value


def _first_look(load: ApiLoad) -> int:
    """When the server was first scraped: a series that is missing then began at 0."""
    first = load.metrics.filter(pl.col("source") == "kube-apiserver")["at_ns"].min()
    return int(first) if isinstance(first, int) else 0


def _processes(load: ApiLoad) -> Iterator[Row]:
    for (source,), rows in load.metrics.filter(pl.col("metric").str.starts_with("process_")).group_by(
        "source", maintain_order=True
    ):
        spent = rows.filter(pl.col("metric") == "process_cpu_seconds").sort("at_ns")["value"]
        if spent.len():
            yield "process", str(source), "", "", "cpu_seconds", float(spent[-1] - spent[0])
        held = rows.filter(pl.col("metric") == "process_resident_bytes")["value"].max()
        yield "process", str(source), "", "", "resident_gb_max", float(held) / 1e9 if isinstance(held, float) else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _kind(row: Row) -> str:
    """The kind of figures (`model.doubts`) that a number of api.csv belongs to."""
    about, _, _, what, statistic, _ = row
    if about == "measurement":
        return TIMES if what == "request duration" else COUNTS if what == "in flight" else RATES
    if statistic in FIGURES:
        return FIGURES[statistic].doubted_as
    return TIMES if statistic.endswith("_s") else COUNTS


def api_table(trials: Sequence[TrialRecord]) -> pl.DataFrame:
    """api.csv of all trials that sent requests; empty if none did."""
    params = labels(trials)
    found = []
    for trial in trials:
        sure = {kind: trial.vouches_for([kind]) for kind in KINDS}
        run = (trial.name, trial.setup, params[trial.name], int(trial.document.get("repeat", 0)))
        found += [(*run, sure[_kind(row)], *row) for row in (api_rows(ApiLoad(trial)) if ApiLoad(trial).there else ())]
    kinds: dict[str, type[pl.DataType]] = {"value": pl.Float64, "repeat": pl.Int64, "valid": pl.Boolean}
    return pl.DataFrame(found, schema={name: kinds.get(name, pl.String) for name in COLUMNS}, orient="row")


@dataclass(frozen=True)
class Difference:
    """One measurement of one set-up against the first in the same cell: means over runs, and the interval of the difference."""

    measurement: str
    unit: str
    statistic: str
    baseline: str
    setup: str
    of_baseline: float
    of_setup: float
    low: float | None
    high: float | None
    level: float
    runs: str
    params: str = ""
    valid: bool = True  # all runs of both are to be trusted

    @property
    def difference(self) -> float:
        """Set-up minus baseline."""
        return self.of_setup - self.of_baseline

    @property
    def percent(self) -> float | None:
        """The difference, in percent of the baseline."""
        return 100 * self.difference / self.of_baseline if self.of_baseline else None

    @property
    def larger_than_noise(self) -> bool | None:
        """None if there are too few runs to tell, or runs that are not to be trusted."""
        return None if not self.valid or self.low is None or self.high is None else self.low > 0 or self.high < 0


def differences(table: pl.DataFrame) -> list[Difference]:
    """Every set-up against the first, cell by cell, by the mean and the maximum of every measurement."""
    rows = table.filter(pl.col("about") == "measurement")
    return [
        one
        for (params,), cell in rows.group_by("params", maintain_order=True)
        for setup in list(dict.fromkeys(cell["setup"].to_list()))[1:]
        for one in _against_the_first(cell, setup, str(params))
    ]


def _against_the_first(cell: pl.DataFrame, setup: str, params: str) -> Iterator[Difference]:
    first = str(cell["setup"][0])
    for measurement, unit in MEASUREMENTS.items():
        for statistic in ("mean", "max"):
            of = cell.filter((pl.col("resource") == measurement) & (pl.col("statistic") == statistic))
            both = [of.filter((pl.col("setup") == one) & pl.col("value").is_not_null()) for one in (first, setup)]
            a, b = (side["value"].to_list() for side in both)
            if a and b:
                effect = of_runs([(a, b)])
                yield Difference(
                    measurement, unit, statistic, first, setup, sum(a) / len(a), sum(b) / len(b), effect.low, effect.high,
                    effect.level, f"{len(a)} and {len(b)}", params, all(side["valid"].all() for side in both),
                )  # fmt: skip


def differences_frame(found: Sequence[Difference]) -> pl.DataFrame:
    """api-differences.csv."""
    texts = ("measurement", "unit", "statistic", "params", "baseline", "setup", "runs")
    schema = {
        name: pl.String if name in texts else pl.Boolean if name in ("larger_than_noise", "valid") else pl.Float64
        for name in DIFFERENCE_COLUMNS
    }
    return pl.DataFrame(
        [[getattr(one, name) for name in DIFFERENCE_COLUMNS] for one in found], schema=schema, orient="row"
    )


def write_api_tables(study: Study) -> list[Path]:
    """api.csv, and api-differences.csv if there is something to compare; neither for a study without requests."""
    table = api_table(study.trials)
    trusted = {trial.name for trial in study.trusted}
    found = differences(table.filter(pl.col("trial").is_in(trusted)))
    written = []
    for name, frame in ((API, table), (DIFFERENCES, differences_frame(found))):
        path = study.out / name
        if frame.is_empty():
            path.unlink(missing_ok=True)
            continue
        with atomic_write(path) as part:
            frame.write_csv(part, float_precision=6)
        written.append(path)
    return written


# ── for reports: over the runs of a set-up ──


@dataclass(frozen=True)
class IdentityRequests:
    """The requests of one identity in one set-up and cell."""

    setup: str
    params: str
    who: str
    doubtful: frozenset[str]  # kinds of figures that some run of it cannot vouch for
    means: Mapping[str, float | None]  # over its runs, by figure


def by_identity(trials: Sequence[TrialRecord]) -> list[IdentityRequests]:
    """A line per set-up, cell and identity, the load's own first."""
    found: dict[tuple[str, str, str], list[dict[str, float | None]]] = {}
    params = labels(trials)
    doubtful: dict[tuple[str, str], set[str]] = {}
    for trial in trials:
        kinds = {kind for kind in KINDS if not trial.vouches_for([kind])}
        doubtful.setdefault((trial.setup, params[trial.name]), set()).update(kinds)
    components: set[str] = set()
    for trial in trials:
        load = ApiLoad(trial)
        for (who, seen_by), rows in load.requests.group_by("identity", "seen_by", maintain_order=True):
            found.setdefault((trial.setup, params[trial.name], str(who)), []).append(counted(rows))
            if seen_by == SERVER:
                components.add(str(who))
    lines = []
    for (setup, cell, who), runs in found.items():
        means = {name: _mean([run[name] for run in runs]) for name in runs[0]}
        lines.append(IdentityRequests(setup, cell, who, frozenset(doubtful[setup, cell]), means))
    places = {where: place for place, where in enumerate(_in_order(trials))}
    return sorted(lines, key=lambda line: (places[line.setup, line.params], line.who in components, line.who))


def rejections(table: pl.DataFrame) -> list[tuple[str, str, str, str, float]]:
    """The server's counts of rejections over the runs of a set-up and cell: set-up, flow schema, level, reason, count."""
    rows = table.filter(
        (pl.col("about") == "flow") & pl.col("statistic").str.starts_with("rejected ") & (pl.col("value") > 0)
    )
    summed = rows.group_by("setup", "params", "who", "resource", "statistic", maintain_order=True).agg(
        pl.col("value").sum()
    )
    return [
        (called(setup, params), who, level, str(text).removeprefix("rejected "), count)
        for setup, params, who, level, text, count in summed.iter_rows()
    ]


def unmatched(trial: TrialRecord) -> list[str]:
    """Flow schemas of the set-up that matched no request, if the server exports flow metrics."""
    wanted = (trial.document.get("flows") or {}).get("flow_schemas") or []
    load = ApiLoad(trial)
    if not wanted or not load.there:
        return []
    gained = dict.fromkeys(wanted, 0.0)
    for about, who, _, _, statistic, value in _flows(load):
        if about == "flow" and who in gained and (statistic == "dispatched" or statistic.startswith("rejected")):
            gained[who] += value or 0.0
    told = load.metrics.filter(pl.col("metric") == "apiserver_flowcontrol_dispatched_requests_total").height
    return [who for who, count in gained.items() if not count] if told else []


def phase_times(trials: Sequence[TrialRecord]) -> list[tuple[str, dict[str, float]]]:
    """Phase → set-up (and cell) → its mean duration in seconds."""
    params = labels(trials)
    found: dict[str, dict[str, list[float]]] = {}
    for trial in trials:
        took = sorted(trial.document.get("took") or (), key=lambda one: (one["step"], one["from_ns"]))
        for one in took:
            times = found.setdefault(str(one["phase"]), {}).setdefault(called(trial.setup, params[trial.name]), [])
            times.append((one["until_ns"] - one["from_ns"]) / SECOND)
    return [(phase, {setup: sum(times) / len(times) for setup, times in of.items()}) for phase, of in found.items()]


def _in_order(trials: Sequence[TrialRecord]) -> list[tuple[str, str]]:
    """Set-ups with their cells, cell by cell: set-ups to be compared are adjacent."""
    params = labels(trials)
    cells, setups = (list(dict.fromkeys(names)) for names in (params.values(), (trial.setup for trial in trials)))
    return [(setup, cell) for cell in cells for setup in setups]


def in_order(trials: Sequence[TrialRecord]) -> list[str]:
    """The same by name, those with a trial."""
    params = labels(trials)
    there = {(trial.setup, params[trial.name]) for trial in trials}
    return [called(*where) for where in _in_order(trials) if where in there]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
