"""The table of docs/figures.md, made from the table of figures: `python -m tests.docs.figures_table` writes it into the page."""

from __future__ import annotations

from pathlib import Path

from seatrial.model.figures import FIGURES, FLAG, LESS, MORE, Figure

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
BEGIN, END = "| figure | unit |", "\n\n"
_BETTER = {MORE: "↑", LESS: "↓", "": ""}


def table() -> str:
    """One row for each figure, in the order of the table."""
    head = "| figure | unit | better | asked by | what it is |\n|---|---|---|---|---|"
    return "\n".join([head, *(_row(figure) for figure in FIGURES.values())])


def _row(figure: Figure) -> str:
    unit = figure.unit or (figure.kind if figure.kind != FLAG else "true or false")
    groups = ", ".join(f"`{group}`" for group in figure.groups)
    needs = f". Needs: {' and '.join(figure.needs)}" if figure.needs else ""
    detail = f". {figure.detail}" if figure.detail else ""
    return f"| `{figure.name}` | {unit} | {_BETTER[figure.better]} | {groups} | {figure.about}{detail}{needs} |"


def written() -> str:
    """The table as the page has it."""
    text = PAGE.read_text(encoding="utf-8")
    return BEGIN + text.partition(BEGIN)[2].partition(END)[0].rstrip("\n")


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(written(), table()), encoding="utf-8")
