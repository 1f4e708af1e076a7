"""Forecasts against what came: scores by origin, and totals with their ribbons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import DataError
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.report.plots.style import COLOURS, INK, drawing, finish, read_numbers

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
    """
    part = _chosen(rows, metric, ahead)
    origins = sorted(part["origin"].unique(), key=list(part["origin"]).index)
    with drawing(ax, (6.4, 3.8)) as ax:
        for number, (model, own) in enumerate(part.groupby("model", sort=False)):
            place = own["origin"].map(origins.index)
            colour = COLOURS[number % len(COLOURS)]
            ax.plot(place, own["value"], "o-", color=colour, markersize=4, label=str(model))
        ax.set_xticks(range(len(origins)), origins, rotation=30, ha="right")
        title = f"Forecasts at {len(origins)} origins, {_periods(ahead)} ahead"
        finish(ax, title, "last period known", f"{metric}, per cell with a count", {}, "y")
        ax.legend(frameon=False)
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
    """
    name = model or str(rows["model"].iloc[0])
    own = rows[rows["model"] == name]
    found = {
        metric: _chosen(own, f"period {metric}", ahead).set_index("period")["value"]
        for metric in ("actual", "mean", "low", "high")
    }
    periods = list(found["actual"].index)
    place = np.arange(len(periods))
    with drawing(ax, (6.4, 3.8)) as ax:
        low, high = found["low"].to_numpy(), found["high"].to_numpy()
        band: Any = {"color": COLOURS[0], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(place, low, high, label="80 % interval", **band)
        ax.plot(place, found["mean"].to_numpy(), "-", color=COLOURS[0], label="expected")
        ax.plot(place, found["actual"].to_numpy(), "o", color=INK, markersize=4, label="came")
        ax.set_xticks(place, periods, rotation=30, ha="right")
        inside = float(np.mean((found["actual"] >= low) & (found["actual"] <= high)))
        title = f"{name}: totals {_periods(ahead)} ahead, {100 * inside:.0f} % inside"
        finish(ax, title, "period", "total of labels known by then", {}, "y")
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
