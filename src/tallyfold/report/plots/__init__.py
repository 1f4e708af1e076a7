"""Figures of fitted models and of experiments, drawn with matplotlib.

Each function draws on the axes it is given, or on a new figure, and returns the axes:
``ax.figure.savefig("words.pdf")`` writes it. Figures are made without pyplot, so that none is left
open; in a notebook end the cell with ``ax.figure``, or give ``ax=plt.gca()``. Files are named after
what their figures show.
"""

from tallyfold.report.plots.calibration import calibration, pit_histogram
from tallyfold.report.plots.components import (
    component_bars,
    components_grid,
    stability_bars,
    time_course,
)
from tallyfold.report.plots.convergence import convergence
from tallyfold.report.plots.entities import factor_profile, top_entities_bars
from tallyfold.report.plots.forecasts import backtest_scores, forecast_ribbons
from tallyfold.report.plots.maps import component_map, entity_map
from tallyfold.report.plots.scores import rank_curve, score_bars, score_curves

__all__ = [
    "backtest_scores",
    "calibration",
    "component_bars",
    "component_map",
    "components_grid",
    "convergence",
    "entity_map",
    "factor_profile",
    "forecast_ribbons",
    "pit_histogram",
    "rank_curve",
    "score_bars",
    "score_curves",
    "stability_bars",
    "time_course",
    "top_entities_bars",
]


def __dir__() -> list[str]:
    return sorted(__all__)
