"""Markup for report.html in which names and messages of a cluster can only be text.

Names come from clusters and foreign files, where `<script>` may be a legal name. So markup has its own type, all other text is
escaped on insertion, and data for scripts is JSON that cannot end its element.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.record.trial_record import REAL, UNVERIFIED, VERIFIED

_BADGES = {
    REAL: ("real", "real components"),
    VERIFIED: ("checked model", "model checked against the real stack"),
    UNVERIFIED: ("model not checked yet", "model not checked against the real stack yet"),
}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_VOID = frozenset({"br", "meta", "input", "hr", "img"})


class Html(str):
    """Markup, inserted without escaping."""

    __slots__ = ()


Inside = str | Iterable["Inside"] | None


def tag(name: str, /, *inside: Inside, **attributes: str | int | float | bool | None) -> Html:
    """An element. `class_` and `for_` lose their underscore, others become dashes; an attribute that is None is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        words.append(label if value is True else f'{label}="{escaped(str(value))}"')
    if name in _VOID:
        return Html(f"<{' '.join(words)}>")
    return Html(f"<{' '.join(words)}>{join(*inside)}</{name}>")


def join(*inside: Inside) -> Html:
    """Joins markup and lists of it; all other text is escaped."""
    parts: list[str] = []
    for one in inside:
        if one is None:
            continue
        if isinstance(one, str):
            parts.append(one if isinstance(one, Html) else escaped(one))
        else:
            parts.append(join(*one))
    return Html("".join(parts))


def escaped(text: str) -> Html:
    """Text as HTML, with markup and control characters escaped."""
    return Html(html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), quote=True))


def json_block(data: Any, **attributes: str) -> Html:
    """Data for a script: JSON in ASCII without `<`, so nothing in it can end the element or a line."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Html(safe), type="application/json", **attributes)


def chart(kind: str, data: Any, title: str, *notes: Inside) -> Html:
    """A figure that the script of that kind (`assets/KIND.js`) fills; the title describes it."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", title), [tag("p", note) for note in notes if note], class_="caption"),
        tag("div", class_="controls"),
        tag("div", class_="plot"),
        json_block(data),
        class_=f"chart {kind}",
        data_chart=kind,
    )


def badge(evidence: str) -> Html:
    """The source of figures: real components, a checked model, or an unchecked one."""
    short, long = _BADGES[evidence]
    return tag("span", short, class_=f"badge {evidence.split(maxsplit=1)[0]}", title=long)


@dataclass(frozen=True)
class Heading:
    """A column's heading; `about` explains it in a tool tip."""

    text: str
    number: bool = True
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and its sort key if that differs; None is sorted last."""

    shown: Inside
    value: float | str | None = None
    kind: str = ""


def table(heads: Sequence[Heading], rows: Sequence[Sequence[Cell]], caption: str, name: str = "") -> Html:
    """A table that a click on a heading sorts; the first column names the row."""
    top = [
        tag(
            "th", tag("button", head.text, type="button", title=head.about or None),
            scope="col", class_=None if head.number else "text",
        )
        for head in heads
    ]  # fmt: skip
    body = [
        tag("tr", [_cell(cell, head, place == 0) for place, (cell, head) in enumerate(zip(row, heads, strict=True))])
        for row in rows
    ]
    inner = tag("table", tag("caption", caption), tag("thead", tag("tr", top)), tag("tbody", body), class_="sortable")
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption, id=name or None)


def _cell(cell: Cell, head: Heading, first: bool) -> Html:
    kinds = " ".join(filter(None, ("" if head.number else "text", cell.kind)))
    value = cell.value if cell.value is not None else (cell.shown if isinstance(cell.shown, str) else None)
    sort = None if value is None or cell.shown == "–" else str(value)
    if first:
        return tag("th", tag("span", cell.shown, class_="of"), scope="row", class_=kinds or None, data_value=sort)
    return tag("td", cell.shown, class_=kinds or None, data_value=sort)
