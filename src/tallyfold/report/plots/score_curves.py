"""Scores against a number, a line per series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallyfold.models.parameters import check_parameters, one_of
from tallyfold.report.plots.inputs import read_numbers
from tallyfold.report.plots.legible import legible
from tallyfold.report.plots.style import (
    add_legend,
    drawing,
    finish,
    look,
    refuse_many,
    write_values,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FEW, FEW_WHOLE = 6, 8
"""Values, and whole numbers, that have room to be written below an axis."""


def score_curves(
    frame: Any,
    x: str,
    y: str,
    series: str | None = None,
    error: str | None = None,
    *,
    log: str = "none",
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw numbers against numbers, a line with error bars for each series.

    Parameters
    ----------
    frame
        A row per point.
    x, y
        Columns of numbers. A missing y, or error, is a point, or an error bar, left out.
    series
        The column whose values are the lines, at most eight, in the order of the frame.
    error
        A column of standard errors, or of half the length of other bars.
    log
        Axes with a logarithmic scale: ``"none"``, ``"x"``, ``"y"`` or ``"xy"``.
    xlabel, ylabel, title
        What to write, with units; the names of the columns if not given.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"share": [1, 5, 1, 5], "mae": [4, 3, 3, 2], "model": [*"aabb"]})
    >>> len(score_curves(frame, "share", "mae", "model", xlabel="share of the data, %").lines)
    2
    """
    check_parameters({"log": log}, {"log": one_of("none", "x", "y", "xy")})
    numbers = [x, y, *([error] if error else [])]
    table = read_numbers(frame, numbers, [series] if series else [], missing=True)
    parts = [*table.groupby(series, sort=False, dropna=False)] if series else [(y, table)]
    refuse_many(len(parts), "series")
    names, how = legible((name for name, _ in parts), 30)
    texts, how_texts = legible([xlabel or x, ylabel or y, title or f"{y} by {x}"], 90)
    handles = []
    with drawing(ax) as ax:
        for number, (_, part) in enumerate(parts):
            handles.append(_line(ax, part.dropna(subset=[x, y]).sort_values(x), numbers, number))
        ax.set_xscale("log" if log in ("x", "xy") else "linear")
        ax.set_yscale("log" if log in ("y", "xy") else "linear")
        values = sorted(table[x].dropna().unique())
        if log in ("x", "xy"):
            write_values(ax, values, FEW)
        elif all(value.is_integer() for value in values):
            write_values(ax, values, FEW_WHOLE)
        finish(ax, texts[2], texts[0], texts[1], how_texts, "both")
        if series:
            add_legend(ax, handles, names, how, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def _line(ax: Axes, part: Any, numbers: list[str], number: int) -> Any:
    colour, marker, line = look(number)
    x, y, *error = (part[name].to_numpy() for name in numbers)
    style: Any = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5}
    bars, cap = (error[0], 2.5) if error else (None, 0)
    return ax.errorbar(x, y, bars, linewidth=1.5, elinewidth=1, capsize=cap, **style)
