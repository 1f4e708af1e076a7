"""The entities that go best with others, as bars with standard deviations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallyfold.errors import ParameterError
from tallyfold.evaluation.profiles import top_entities
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.report.plots.inputs import has_column, read_numbers
from tallyfold.report.plots.legible import in_words, legible, wrapped
from tallyfold.report.plots.style import drawing, finish
from tallyfold.report.plots.whiskers import horizontal_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def top_entities_bars(
    source: Any,
    axis: str | None = None,
    given: Mapping[str, Any] | None = None,
    top: int = 10,
    *,
    xlabel: str = "rate",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the entities with the highest rates beside given ones, with standard deviations.

    Parameters
    ----------
    source
        A fitted model, or a frame as `top_entities` returns it: columns ``label``, ``mean``, and
        ``sd`` or ``low`` and ``high``, in the order to draw.
    axis, given
        With a model, the axis to rank and the entities of other axes, such as
        ``{"author": "..."}``. With a frame, `axis` is what to call its labels.
    top
        How many entities.
    xlabel, title
        What to write in the place of what is written by itself.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": ["kernel", "margin"], "mean": [3, 2], "sd": [0.2, 0.4]})
    >>> top_entities_bars(frame, "word").get_xlabel()
    'rate (whiskers: ± one standard deviation)'
    """
    check_parameters({"top": top}, {"top": integer(1)})
    frame = source
    if hasattr(source, "posterior_"):
        if axis is None:
            raise ParameterError("`axis` must name the axis to rank when a model is given.")
        frame = top_entities(source, axis, given or {}, top=top)
    table, whiskers = _whiskered(frame, top)
    title = title or f"Highest rates on {axis or 'the axis'}{_beside(given)}"
    texts, how = legible([xlabel + whiskers, axis or "", title], 80)
    with drawing(ax, (6.4, max(2.2, 1.3 + 0.27 * len(table)))) as ax:
        parts = (table[name].to_numpy() for name in ("mean", "low", "high"))
        horizontal_bars(ax, table["label"], *parts)
        finish(ax, wrapped(texts[2], table["label"]), texts[0], texts[1], how)
    return ax


def _whiskered(frame: Any, top: int) -> tuple[Any, str]:
    """Return the rows to draw, with the ends of their whiskers, and what the whiskers are."""
    if not has_column(frame, "sd"):
        return read_numbers(frame, ["mean", "low", "high"], ["label"])[:top], " (with intervals)"
    table = read_numbers(frame, ["mean", "sd"], ["label"])[:top]
    table = table.assign(low=table["mean"] - table["sd"], high=table["mean"] + table["sd"])
    whiskers = " (whiskers: ± one standard deviation)" if (table["sd"] > 0).any() else ""
    return table, whiskers


def _beside(given: Mapping[str, Any] | None) -> str:
    if not given:
        return ""
    return " for " + ", ".join(f"{name} {in_words(label)}" for name, label in given.items())
