"""Forecasts against what came: scores by origin, and totals with their ribbons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import DataError
from tallyfold.models.parameters import NONE, TEXT, check_parameters, integer
from tallyfold.report.plots.legible import legible
from tallyfold.report.plots.style import (
    COLOURS,
    INK,
    add_legend,
    drawing,
    finish,
    look,
    read_numbers,
    refuse_many,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ["origin", "period", "ahead", "model", "combinations", "metric"]


def backtest_scores(
    rows: Any, metric: str = "total", *, ahead: int = 1, ax: Axes | None = None
) -> Axes:
    """Draw a score of every model at each origin of a backtest.

    Parameters
    ----------
    rows
        What `tallyfold.backtest` returned.
    metric
        Which of its metrics, of all cells.
    ahead
        How many periods after the origin.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> axes = [tf.Axis("who", ["a", "b"]), tf.Axis("day", [1, 2, 3], tf.AxisOrder("ordered"))]
    >>> counts = tf.CountTensor(axes, [[0, 0], [0, 1], [0, 2], [1, 0]], [1, 1, 1, 1])
    >>> rows = tf.backtest(counts, {"last": tf.LastValue()}, origins=1)
    >>> backtest_scores(rows).get_xlabel()
    'last period known'
    """
    part = _chosen(rows, metric, ahead)
    origins = list(dict.fromkeys(part["origin"]))
    refuse_many(part["model"].nunique(), "models")
    ticks, tick_how = legible(origins, 20)
    names, name_how = legible(list(dict.fromkeys(part["model"])), 30)
    with drawing(ax, (6.4, 3.8)) as ax:
        handles = []
        for number, (_, own) in enumerate(part.groupby("model", sort=False)):
            place = own["origin"].map(origins.index)
            colour, marker, line = look(number)
            how: Any = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
            handles += ax.plot(place, own["value"], **how)
        ax.set_xticks(range(len(origins)), ticks, rotation=30, ha="right", **tick_how)
        title = f"Forecasts at {len(origins)} origins, {_periods(ahead)} ahead"
        finish(ax, title, "last period known", f"{metric}, per cell with a count", {}, "y")
        add_legend(ax, handles, names, name_how, loc="best")
    return ax


def forecast_ribbons(
    rows: Any, model: str | None = None, *, ahead: int = 1, ax: Axes | None = None
) -> Axes:
    """Draw the totals of periods that came on the 80 % intervals of what a model expected.

    Parameters
    ----------
    rows
        What `tallyfold.backtest` returned.
    model
        Which model; None: the first.
    ahead
        How many periods after the origins.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> axes = [tf.Axis("who", ["a", "b"]), tf.Axis("day", [1, 2, 3], tf.AxisOrder("ordered"))]
    >>> counts = tf.CountTensor(axes, [[0, 0], [0, 1], [0, 2], [1, 0]], [1, 1, 1, 1])
    >>> rows = tf.backtest(counts, {"last": tf.LastValue()}, origins=1)
    >>> forecast_ribbons(rows).get_xlabel()
    'period'
    """
    check_parameters({"model": model}, {"model": TEXT | NONE})
    known = list(dict.fromkeys(read_numbers(rows, ["value"], COLUMNS, missing=True)["model"]))
    name = known[0] if model is None else model
    if name not in known:
        raise DataError(f"the rows have no model {name!r}; they have {', '.join(known)}.")
    own = rows[rows["model"] == name]
    found = {
        metric: _chosen(own, f"period {metric}", ahead).set_index("period")["value"]
        for metric in ("actual", "mean", "low", "high")
    }
    periods = list(found["actual"].index)
    place = np.arange(len(periods))
    ticks, tick_how = legible(periods, 20)
    (called,), title_how = legible([name], 30)
    with drawing(ax, (6.4, 3.8)) as ax:
        low, high = found["low"].to_numpy(), found["high"].to_numpy()
        band: Any = {"color": COLOURS[0], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(place, low, high, label="80 % interval", **band)
        ax.plot(place, found["mean"].to_numpy(), "-", color=COLOURS[0], label="expected")
        ax.plot(place, found["actual"].to_numpy(), "o", color=INK, markersize=4, label="came")
        ax.set_xticks(place, ticks, rotation=30, ha="right", **tick_how)
        inside = float(np.mean((found["actual"] >= low) & (found["actual"] <= high)))
        title = f"{called}: totals {_periods(ahead)} ahead, {100 * inside:.0f} % inside"
        finish(ax, title, "period", "total of labels known by then", title_how, "y")
        ax.legend(frameon=False)
    return ax


def _chosen(rows: Any, metric: str, ahead: int) -> Any:
    check_parameters({"ahead": ahead}, {"ahead": integer(1)})
    table = read_numbers(rows, ["value"], COLUMNS, missing=True)
    table = table[(table["metric"] == metric) & (table["combinations"] == "all")]
    part = table[(table["ahead"] == ahead) & table["value"].notna()]
    if not len(part):
        known = sorted(set(table["ahead"].dropna().astype(int)))
        raise DataError(
            f"the rows have no {metric!r} {_periods(ahead)} ahead; they have {known or 'none'} "
            "ahead. Take `rows` of a backtest with that horizon, without failed models."
        )
    return part


def _periods(ahead: int) -> str:
    return "1 period" if ahead == 1 else f"{ahead} periods"
