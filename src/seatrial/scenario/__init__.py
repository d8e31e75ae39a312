"""The scenario language: a YAML file in, trials out.

`read` a file, `expand` it to trials. Everything a user can get wrong is said at once, each with file:line:column and
what to write instead.
"""

from seatrial.scenario.document import Scenario, from_document, node_list, override, read
from seatrial.scenario.editor import json_schema
from seatrial.scenario.expansion import expand
from seatrial.scenario.findings import check_never_fits, findings_of
from seatrial.scenario.nearest import nearest, remedy_for
from seatrial.scenario.params import parse_sets
from seatrial.scenario.shipped import Shipped, find, shipped

__all__ = [
    "Scenario",
    "Shipped",
    "check_never_fits",
    "expand",
    "find",
    "findings_of",
    "from_document",
    "json_schema",
    "nearest",
    "node_list",
    "override",
    "parse_sets",
    "read",
    "remedy_for",
    "shipped",
]
