"""From bytes to a document with places. Finds what is wrong before the rules of a scenario apply: encoding, YAML, duplicate keys.

PyYAML's events are read, not its objects: those have lost line and column, silently keep the last of two equal keys, and follow
YAML 1.1. Reading events also stops at an absurd depth or size before it costs anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from seatrial.model.errors import Mistake, ScenarioProblem
from seatrial.scenario import yaml_scalars
from seatrial.scenario.source import KeyPath, Place, Source, one_line

LARGEST_FILE = 2**20
MOST_VALUES = 100_000  # after aliases are expanded
DEEPEST = 40

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_TEXT_TAG = "tag:yaml.org,2002:str"
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class _Node:
    """A value as written. An alias is the same node again: a bomb of aliases stays small until its values are counted."""

    value: Any  # a scalar, a list of nodes, or a dict of key → (key's place, node)
    place: Place


def decode(raw: bytes, file: str) -> str:
    """The text of a file, without a byte order mark. Raises ScenarioProblem if it is not UTF-8 text."""
    if len(raw) > LARGEST_FILE:
        _give_up(file, (0, 0), f"the file is larger than {LARGEST_FILE // 2**20} MiB", "a scenario is a page of YAML")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place_in(raw[: error.start].decode("utf-8", "replace"))
        _give_up(file, place, f"the file is not UTF-8 (byte 0x{raw[error.start]:02x})", "save it as UTF-8 text")
    bad = _UNPRINTABLE.search(text)
    if bad:
        place = _place_in(text[: bad.start()])
        _give_up(file, place, f"control character U+{ord(bad[0]):04X}", "remove it; is this a text file?")
    return text


def parse(text: str, file: str) -> Source:
    """The document in `text`. Raises ScenarioProblem if there is none; duplicate keys are in `Source.mistakes`."""
    reader = _Reader(text, file)
    try:
        top = reader.document()
    except yaml.MarkedYAMLError as error:
        _not_yaml(error, text, file)
    except yaml.YAMLError as error:
        _give_up(file, (1, 1), f"not YAML: {str(error).splitlines()[0]}", "is this a text file?")
    if top is None or top.value is None:
        _give_up(
            file, (0, 0), "the file is empty", "start with `name:`, `nodes:` and `steps:`; see `seatrial scenarios`"
        )
    if not isinstance(top.value, dict):
        _give_up(file, top.place, "a scenario is a mapping of keys to values", "start with `name:`")
    return _Flattening(file).source(top, reader.duplicates)


def parse_all(text: str, file: str) -> list[Source]:
    """Every document in `text` that is a mapping: manifests, as `kubectl` takes them."""
    reader = _Reader(text, file)
    try:
        found = list(reader.documents())
    except yaml.MarkedYAMLError as error:
        _not_yaml(error, text, file)
    if reader.duplicates:
        raise ScenarioProblem(reader.duplicates)
    for node in found:
        if not isinstance(node.value, dict):
            _give_up(file, node.place, "a manifest is a mapping of keys to values", "start with `apiVersion:`")
    return [_Flattening(file).source(node, []) for node in found]


def _not_yaml(error: yaml.MarkedYAMLError, text: str, file: str) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    _give_up(file, place, f"not YAML: {error.problem or error.context}", _yaml_remedy(text, place))


def _give_up(file: str, place: Place, what: str, remedy: str) -> NoReturn:
    raise ScenarioProblem([Mistake(file, *place, one_line(what), remedy)])


def _place_in(before: str) -> Place:
    lines = _LINE_BREAK.split(before)
    return len(lines), len(lines[-1]) + 1


def _yaml_remedy(text: str, place: Place) -> str:
    lines = _LINE_BREAK.split(text)
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    if "\t" in line[: place[1]]:
        return "indent with spaces, not tabs"
    if re.search(r"[^\"'\w]\$\{", line):
        return 'inside { } and [ ] write "${param}" in quotes'
    if line[place[1] - 1 : place[1]] in ("@", "`", "%"):
        return "put the text in quotes"
    return "look at the indentation, brackets and quotes here and in the line before"


class _Reader:
    """Turns events into nodes."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))
        self.anchors: dict[str, _Node] = {}
        self.duplicates: list[Mistake] = []

    def document(self) -> _Node | None:
        top: _Node | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if top is not None:
                    place = _place_of(event)
                    _give_up(self.file, place, "a second document", "a file holds one scenario; remove the `---`")
                top = self.node(next(self.events), 0)
        return top

    def documents(self) -> Iterator[_Node]:
        """All documents but empty ones."""
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                node = self.node(next(self.events), 0)
                if node.value is not None:
                    yield node

    def node(self, event: Any, depth: int) -> _Node:
        place = _place_of(event)
        if depth > DEEPEST:
            _give_up(self.file, place, f"nested deeper than {DEEPEST} levels", "a scenario needs about ten")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                _give_up(self.file, place, f"no anchor '&{event.anchor}' before this alias", "define it further up")
            return self.anchors[event.anchor]
        self.refuse_tag(event, place)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0] and event.style in (None, "")
            node = _Node(yaml_scalars.resolve(event.value) if plain else event.value, place)
        elif isinstance(event, yaml.SequenceStartEvent):
            items = _until(self.events, yaml.SequenceEndEvent)
            node = _Node([self.node(item, depth + 1) for item in items], place)
        else:
            node = _Node(self.mapping(depth), place)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def mapping(self, depth: int) -> dict[str, tuple[Place, _Node]]:
        pairs: dict[str, tuple[Place, _Node]] = {}
        for event in _until(self.events, yaml.MappingEndEvent):
            place = _place_of(event)
            if not isinstance(event, yaml.ScalarEvent):
                _give_up(self.file, place, "a key must be plain text", "put quotes around text with [ ] { } * &")
            key = event.value
            value = self.node(next(self.events), depth + 1)
            if key == "<<":
                what, remedy = "merge keys (<<) are not supported", "write the fields out"
            elif key in pairs:
                what, remedy = f"'{key}' is a duplicate key", f"the first is in line {pairs[key][0][0]}; remove one"
            else:
                pairs[key] = (place, value)
                continue
            self.duplicates.append(Mistake(self.file, *place, one_line(what), remedy))
        return pairs

    def refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag not in (None, "!", _TEXT_TAG):
            _give_up(self.file, place, f"tags like {event.tag} are not supported", "remove the tag; put text in quotes")


def _until(events: Iterator[Any], end: type) -> Iterator[Any]:
    for event in events:
        if isinstance(event, end):
            return
        yield event


def _place_of(event: Any) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1


class _Flattening:
    """Turns nodes into plain data and places, with aliases expanded."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[KeyPath, Place] = {}
        self.keys: dict[KeyPath, Place] = {}

    def source(self, top: _Node, mistakes: list[Mistake]) -> Source:
        data = self.plain(top, ())
        return Source(self.file, data, self.values, self.keys, tuple(mistakes))

    def plain(self, node: _Node, path: KeyPath) -> Any:
        if len(self.values) >= MOST_VALUES:
            what = f"more than {MOST_VALUES:,} values once aliases are expanded"
            _give_up(self.file, node.place, what, "use fewer aliases; large numbers belong in `count`")
        self.values[path] = node.place
        if isinstance(node.value, dict):
            data: dict[str, Any] = {}
            for key, (place, child) in node.value.items():
                self.keys[*path, key] = place
                data[key] = self.plain(child, (*path, key))
            return data
        if isinstance(node.value, list):
            return [self.plain(child, (*path, number)) for number, child in enumerate(node.value)]
        return node.value
