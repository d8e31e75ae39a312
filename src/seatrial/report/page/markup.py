"""Markup for report.html in which names and messages of a cluster can only be text.

Names come from clusters and files of others: `<script>` is a legal name in some of them. So markup has a type of its own, all
other text is escaped where it is put in, and data for scripts is JSON that cannot end its element.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_VOID = frozenset({"br", "meta", "input", "hr", "img"})


class Html(str):
    """Markup: put in as it stands."""

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
    """Markup as it stands, all other text escaped, lists one after another."""
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
    """Text as HTML: markup and control characters in it do no harm."""
    return Html(html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), quote=True))


def json_block(data: Any, **attributes: str) -> Html:
    """Data for a script. No `<` is left in it, so nothing in it can end the element; all is ASCII, so no line ends there either."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Html(safe), type="application/json", **attributes)


def chart(kind: str, data: Any, title: str, *notes: Inside, controls: Inside = None) -> Html:
    """A figure that the script of that kind (`assets/KIND.js`) fills; the title says in words what one sees."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", title), [tag("p", note) for note in notes if note], class_="caption"),
        tag("div", controls, class_="controls"),
        tag("div", class_="plot"),
        json_block(data),
        class_=f"chart {kind}",
        data_chart=kind,
    )


def badge(evidence: str) -> Html:
    """What figures are of, told apart at a glance: `real`, `verified model`, `unverified model`."""
    return tag("span", evidence, class_=f"badge {evidence.split(maxsplit=1)[0]}")


@dataclass(frozen=True)
class Heading:
    """A column's heading; `about` explains it in a tool tip."""

    text: str
    number: bool = True
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by where that is something else; None is sorted last."""

    shown: Inside
    value: float | str | None = None
    kind: str = ""


def table(heads: Sequence[Heading], rows: Sequence[Sequence[Cell]], caption: str, name: str = "") -> Html:
    """A table that is sorted by a click on a heading; the first column names the row."""
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
