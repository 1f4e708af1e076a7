"""Figures of fitted models and of experiments, drawn with matplotlib.

Each function draws on the axes it is given, or on a new figure, and returns the axes:
``ax.figure.savefig("words.pdf")`` writes it. Figures are made without pyplot, so that none is left
open; in a notebook end the cell with ``ax.figure``, or give ``ax=plt.gca()``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyfold.report.plots.bars import component_bars
    from tallyfold.report.plots.course import time_course
    from tallyfold.report.plots.coverage import calibration
    from tallyfold.report.plots.curves import score_curves
    from tallyfold.report.plots.dots import score_bars
    from tallyfold.report.plots.entities import top_entities_bars
    from tallyfold.report.plots.grid import components_grid
    from tallyfold.report.plots.history import convergence
    from tallyfold.report.plots.map_of_components import component_map
    from tallyfold.report.plots.map_of_entities import entity_map
    from tallyfold.report.plots.pit import pit_histogram
    from tallyfold.report.plots.profiles import factor_profile
    from tallyfold.report.plots.rank import rank_curve

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

_HOMES = {
    "calibration": "coverage",
    "component_bars": "bars",
    "component_map": "map_of_components",
    "components_grid": "grid",
    "convergence": "history",
    "entity_map": "map_of_entities",
    "factor_profile": "profiles",
    "pit_histogram": "pit",
    "rank_curve": "rank",
    "score_bars": "dots",
    "score_curves": "curves",
    "time_course": "course",
    "top_entities_bars": "entities",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tallyfold.report.plots' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # the next look-up is a plain one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
