"""The files of a study: their names, their format, and which of them `--force` removes."""

from __future__ import annotations

FORMAT = 1  # of study.json and trial.json; readers refuse a later one
PART = ".part"  # suffix of a file that is being written (`files.atomic_write`)

# At the top of a study.
STUDY, TRIALS = "study.json", "trials"
TIMES, PODS, SUMMARY, SIZES = "times.csv", "pods.csv", "summary.csv", "sizes.csv"
QUEUES, CLASSES = "queues.csv", "classes.csv"  # only where a scenario has queues, or names classes
API, DIFFERENCES, ERRORS = "api.csv", "api-differences.csv", "errors.csv"
REPORT = "report.html"
PICTURES = ("general", "detailed", "totals", "sizes", "api", "find", "sensitivity")
FORMATS = ("png", "svg", "pdf")

# In a trial's directory.
TRIAL, SUBMITTED = "trial.json", "submitted.jsonl"
OBSERVED, OBSERVED_PODS, OBSERVED_NODES = "observed.parquet", "pods.parquet", "nodes.txt"
EVICTIONS = "evictions.parquet"  # only where there are any
REQUESTS, METRICS, STARTS = "requests.parquet", "metrics.parquet", "starts.parquet"

_FILES = (
    STUDY, TIMES, PODS, SUMMARY, SIZES, QUEUES, CLASSES, API, DIFFERENCES, ERRORS, REPORT,
    *(f"{picture}.{kind}" for picture in PICTURES for kind in FORMATS),
)  # fmt: skip
# What `--force` removes; a killed process may have left files half written.
REMOVABLE = (TRIALS, *_FILES, *(f"{name}{PART}" for name in _FILES))
