"""Options of a replay: part of the trace, speed, and the mapping of names and unknown fields."""

from __future__ import annotations

from dataclasses import dataclass

ROUND_UP, IN_MILLI, DROP = "up", "milli", "drop"
FRACTIONS = (ROUND_UP, IN_MILLI, DROP)
BY = ("queue", "partition", "user", "group", "class")
GPU, GPU_MILLI = "nvidia.com/gpu", "nvidia.com/gpu-milli"
GPU_MODEL = "nvidia.com/gpu.product"  # the label that NVIDIA's feature discovery sets
OTHERS = "*"  # key of a mapping: every value that it does not name
EACH = "each"  # the users, groups and so on that a mapping does not name, spread evenly over the queues


@dataclass(frozen=True, slots=True)
class NameMap:
    """The values of a column of the trace and what they become."""

    by: str
    to: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TraceSample:
    """A share of the trace: every job by itself, or all jobs of a share of the users. The same seed keeps the same ones."""

    share: float = 1.0
    by: str = "job"  # or user
    seed: int = 1


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Hashable: a trace that was read once is kept by its path and these."""

    format: str = ""  # empty: found out by content
    columns: tuple[tuple[str, str, str], ...] = ()  # field, column of the file, unit
    strict: bool = False
    speed: float = 1.0  # arrivals and durations are divided by it
    into: int = 0  # nanoseconds that all arrivals must fit into, instead of `speed`
    since: int | str | None = None  # ns since the trace's beginning, or a date and time
    until: int | str | None = None  # None: to its end
    head: int = 0  # 0: all
    sample: TraceSample = TraceSample()
    sizes: float = 1.0  # number of pods × this
    durations: float = 1.0
    queue: NameMap | None = None
    classes: NameMap | None = None
    priority: NameMap | None = None
    queues: tuple[str, ...] = ()  # those of the scenario
    fixed_queue: str = ""  # all jobs go there
    processors_per_pod: int = 1
    gpus_per_pod: int = 8
    share_nodes: bool = True  # false: a pod takes whole `processors_per_pod`, even for a smaller job
    think: bool = False
    fractions: str = ROUND_UP
    unknown_duration: int = -1  # ns; −1: such jobs are dropped
    unknown_size: int = 0  # processors or pods; 0: such jobs are dropped
    gang: bool | None = None  # None: as the format has it
