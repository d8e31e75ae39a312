"""What a study directory holds at its top: one list, for those who write the files and for `--force`, which removes them."""

from __future__ import annotations

STUDY, TRIALS = "study.json", "trials"
TIMES, PODS, SUMMARY, SIZES = "times.csv", "pods.csv", "summary.csv", "sizes.csv"
API, DIFFERENCES = "api.csv", "api-differences.csv"
ERRORS = "errors.csv"
REPORT = "report.html"
PICTURES = ("general", "detailed", "totals", "sizes", "api")
FORMATS = ("png", "svg", "pdf")

_FILES = (
    STUDY, TIMES, PODS, SUMMARY, SIZES, API, DIFFERENCES, ERRORS, REPORT,
    *(f"{picture}.{kind}" for picture in PICTURES for kind in FORMATS),
)  # fmt: skip
# Files that a killed process left half written are ours too.
OURS = (TRIALS, *_FILES, *(f"{name}.part" for name in _FILES))
