"""Bars with intervals, where one wide interval does not squash the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.report.plots.legible import LONGEST, legible
from tallyfold.report.plots.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

DARKER = {"#0072B2": "#00334F", "#D55E00": "#6B2F00", "#009E73": "#004F39"}


def value_limit(value_N: Floats, high_N: Floats) -> float:
    """Return where an axis of values ends: at all intervals but those far wider than most."""
    usual = max(float(value_N.max()), float(np.quantile(high_N, 0.8, method="lower")))
    widest = max(usual, float(high_N.max()))
    most = 1.05 * widest if widest <= 1.6 * usual else 1.25 * usual
    return most if most > 0 else 1.0


def horizontal_bars(
    ax: Axes, labels: Any, value_N: Floats, low_N: Floats, high_N: Floats, longest: int = LONGEST
) -> None:
    """Draw a bar per label, the first on top, and a whisker from low to high."""
    names, how = legible(labels, longest)
    colour = COLOURS[0]
    place_N = np.arange(len(names))
    ax.barh(place_N, value_N, height=0.72, color=colour, alpha=0.55)
    ax.set_yticks(place_N, names, **how)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    limit = value_limit(value_N, high_N)
    ax.set_xlim(0, limit)
    if np.any(high_N > low_N):
        ink = DARKER.get(colour, colour)
        ax.hlines(place_N, low_N, np.minimum(high_N, limit), color=ink, linewidth=1.4)
        ax.plot(value_N, place_N, "o", color=ink, markersize=3.5)
        _mark_cut(ax, place_N, high_N, limit, ink, upright=False)


def upright_bars(
    ax: Axes, value_N: Floats, low_N: Floats, high_N: Floats, colour: str, limit: float
) -> None:
    """Draw a bar per number, and a whisker from low to high."""
    place_N = np.arange(len(value_N))
    ax.bar(place_N, value_N, width=0.72, color=colour, alpha=0.55)
    ax.set_ylim(0, limit)
    if np.any(high_N > low_N):
        ink = DARKER.get(colour, colour)
        ax.vlines(place_N, low_N, np.minimum(high_N, limit), color=ink, linewidth=1.4)
        ax.plot(place_N, value_N, "o", color=ink, markersize=3.5)
        _mark_cut(ax, place_N, high_N, limit, ink, upright=True)


def _mark_cut(
    ax: Axes, place_N: npt.NDArray[Any], high_N: Floats, limit: float, ink: str, *, upright: bool
) -> None:
    """Put an arrow where an interval goes on beyond the axis, and say where it ends."""
    for place in place_N[high_N > limit]:
        end, mark = (place, limit), "^" if upright else ">"
        ax.plot(*(end if upright else end[::-1]), mark, color=ink, markersize=6, clip_on=False)
        ax.annotate(
            f"to {high_N[place]:.2g}",
            end if upright else end[::-1],
            xytext=(4, -10) if upright else (-5, 5),
            textcoords="offset points",
            fontsize=7.5,
            ha="left" if upright else "right",
            va="center",
        )
