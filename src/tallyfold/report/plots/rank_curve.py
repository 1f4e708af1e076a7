"""Held-out score against the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import DataError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.report.plots.inputs import read_numbers
from tallyfold.report.plots.style import (
    COLOURS,
    PALE_INK,
    add_legend,
    drawing,
    finish,
    write_values,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def rank_curve(choice: Any, *, score: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the held-out score against the number of components, with standard errors.

    Parameters
    ----------
    choice
        What `select_rank` returned: a dotted line marks the best score, and bars are standard
        errors of the difference to it, fold by fold. The smallest number whose bar reaches the
        line is chosen. Or a frame with columns ``components``, ``mean`` and ``se``, where larger
        means are better: bars are standard errors of the means, the line is one below the best,
        and the smallest number above it is chosen.
    score
        What the score is; None says it by the metric's name.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"components": [2, 4, 8], "mean": [-1.3, -1.1, -1.0], "se": 0.2})
    >>> [text.get_text() for text in rank_curve(table).get_legend().get_texts()]
    ['best: 8', 'chosen: 4']
    """
    compared = hasattr(choice, "chosen")
    error = "difference_se" if compared else "se"
    table = read_numbers(
        getattr(choice, "table", choice), ["components", "mean", error], missing=True
    )
    table = table.dropna(subset=["components", "mean"]).sort_values("components")
    if not len(table):
        raise DataError("no number of components has a score; there is nothing to draw.")
    best, chosen = (choice.best, choice.chosen) if compared else _best_and_chosen(table)
    with drawing(ax) as ax:
        bars: Any = {"color": COLOURS[0], "capsize": 3, "linewidth": 1.5, "markersize": 5}
        ax.errorbar(table["components"], table["mean"], table[error].fillna(0), fmt="o-", **bars)
        handles = [_ring(ax, table, best, "o", 10), _ring(ax, table, chosen, "D", 13)]
        line = float(table.loc[table["components"] == best, "mean"].iloc[0]) if compared else None
        line = _bar(table) if line is None else line
        ax.axhline(line, color=PALE_INK, linestyle=":", linewidth=1)
        _write_ranks(ax, table["components"].to_numpy())
        title = "Score on held-out cells by the number of components"
        of = " of the difference to the best" if compared else ""
        y = f"{score or _meaning(choice)}\n(± one standard error{of})"
        finish(ax, title, "number of components", y, {}, "y")
        names = [f"best: {best:g}", f"chosen: {chosen:g}"]
        add_legend(ax, handles, names, {}, loc="best", labelspacing=0.8)
    return ax


def _bar(table: pd.DataFrame) -> float:
    """Return the best mean less its standard error."""
    best = int(np.argmax(table["mean"]))
    return float(table["mean"].iloc[best] - np.nan_to_num(table["se"].iloc[best]))


def _best_and_chosen(table: pd.DataFrame) -> tuple[float, float]:
    """Return the best number of components, and the smallest within one standard error."""
    rank_R, mean_R = table["components"].to_numpy(), table["mean"].to_numpy()
    return float(rank_R[np.argmax(mean_R)]), float(rank_R[mean_R >= _bar(table)].min())


def _ring(ax: Axes, table: pd.DataFrame, rank: float, marker: str, size: int) -> Any:
    """Draw a ring around a point."""
    at = table[table["components"] == rank]
    style: Any = {"markersize": size, "mfc": "none", "mew": 1.6, "linestyle": ""}
    colour = COLOURS[1] if marker == "o" else COLOURS[2]
    return ax.plot(at["components"], at["mean"], marker=marker, color=colour, **style)[0]


def _write_ranks(ax: Axes, rank_R: Any) -> None:
    if rank_R.max() > 8 * rank_R.min() > 0:
        ax.set_xscale("log", base=2)
    write_values(ax, rank_R, 12)


def _meaning(choice: Any) -> str:
    metric = METRICS.get(getattr(choice, "metric", ""))
    if metric is None:
        return "score"
    return f"{metric.meaning}, {metric.better} is better"
