"""Frames of results, for people as tables and for programs as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tallyfold.cli.terminal import NOTHING, natural_width, printable, show_table

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
    out: "Console",
    title: str,
    frame: "pd.DataFrame",
    formats: Mapping[str, str],
    spare: Sequence[str] = (),
) -> None:
    """Print a frame as a table: columns with a format are numbers, the others are labels.

    Columns that are `spare` are left out where the table would not fit with them.
    """
    heads, rows = _cells(frame, formats)
    if spare and natural_width(heads, rows) > out.width:
        heads, rows = _cells(frame.drop(columns=list(spare)), formats)
    show_table(out, title, heads, rows)


def _cells(frame: "pd.DataFrame", formats: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    heads = [f"{name}>" if name in formats else printable(name) for name in frame.columns]
    rows = [
        [_cell(value, formats.get(name)) for name, value in zip(frame.columns, row, strict=True)]
        for row in frame.itertuples(index=False, name=None)
    ]
    return heads, rows


def _cell(value: Any, form: str | None) -> str:
    value = _plain(value)
    if value is None:
        return "" if form is None else NOTHING
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
