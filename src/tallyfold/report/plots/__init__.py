"""Figures of fitted models and of experiments, drawn with matplotlib.

Each function draws on the axes it is given, or on a new figure, and returns the axes:
``ax.figure.savefig("words.pdf")`` writes it. Figures are made without pyplot, so that none is left
open; in a notebook end the cell with ``ax.figure``, or give ``ax=plt.gca()``. A function is in the
file of its name.
"""

from tallyfold.report.plots.calibration import calibration
from tallyfold.report.plots.component_bars import component_bars
from tallyfold.report.plots.component_map import component_map
from tallyfold.report.plots.components_grid import components_grid
from tallyfold.report.plots.convergence import convergence
from tallyfold.report.plots.entity_map import entity_map
from tallyfold.report.plots.factor_profile import factor_profile
from tallyfold.report.plots.pit_histogram import pit_histogram
from tallyfold.report.plots.rank_curve import rank_curve
from tallyfold.report.plots.score_bars import score_bars
from tallyfold.report.plots.score_curves import score_curves
from tallyfold.report.plots.time_course import time_course
from tallyfold.report.plots.top_entities_bars import top_entities_bars

__all__ = [
    "calibration",
    "component_bars",
    "component_map",
    "components_grid",
    "convergence",
    "entity_map",
    "factor_profile",
    "pit_histogram",
    "rank_curve",
    "score_bars",
    "score_curves",
    "time_course",
    "top_entities_bars",
]


def __dir__() -> list[str]:
    return sorted(__all__)
