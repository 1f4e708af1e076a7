"""Frames of results, for people as tables and for programs as JSON."""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallyfold.cli.terminal import printable, table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


def as_json(document: Any) -> str:
    """Return a document as JSON that every program reads: no NaN, dates in ISO form."""
    return json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return a frame's rows as dicts of plain values."""
    return [_plain(row) for row in frame.to_dict("records")]


def show_frame(
    out: "Console", title: str, frame: "pd.DataFrame", formats: Mapping[str, str]
) -> None:
    """Print a frame as a table: columns with a format are numbers, the others are labels.

    The title stands on a line of its own, for it may be wider than the table.
    """
    heads = [f"{name}>" if name in formats else printable(name) for name in frame.columns]
    rows = [
        [_cell(value, formats.get(name)) for name, value in zip(frame.columns, row, strict=True)]
        for row in frame.itertuples(index=False, name=None)
    ]
    out.print(title, style="bold", markup=False, overflow="ellipsis", no_wrap=True)
    out.print(table("", heads, rows))


def _cell(value: Any, form: str | None) -> str:
    value = _plain(value)
    if value is None:
        return ""
    return printable(value) if form is None else format(value, form)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: NaN becomes null, dates text, NumPy's numbers Python's."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
