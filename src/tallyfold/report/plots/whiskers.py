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
    ax.barh(np.arange(len(value_N)), value_N, height=0.72, color=COLOURS[0], alpha=0.55)
    name_rows(ax, labels, longest)
    limit = value_limit(value_N, high_N)
    ax.set_xlim(0, limit)
    _whiskers(ax, value_N, low_N, high_N, COLOURS[0], limit, upright=False)


def upright_bars(
    ax: Axes, value_N: Floats, low_N: Floats, high_N: Floats, colour: str, limit: float
) -> None:
    """Draw a bar per number, and a whisker from low to high."""
    ax.bar(np.arange(len(value_N)), value_N, width=0.72, color=colour, alpha=0.55)
    ax.set_ylim(0, limit)
    _whiskers(ax, value_N, low_N, high_N, colour, limit, upright=True)


def name_rows(ax: Axes, labels: Any, longest: int) -> None:
    """Write labels beside the rows of a figure, the first on top."""
    names, how = legible(labels, longest)
    ax.set_yticks(np.arange(len(names)), names, **how)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _whiskers(
    ax: Axes,
    value_N: Floats,
    low_N: Floats,
    high_N: Floats,
    colour: str,
    limit: float,
    *,
    upright: bool,
) -> None:
    """Draw whiskers; an arrow says where an interval ends that goes on beyond the axis."""
    if not np.any(high_N > low_N):
        return
    ink, place_N = DARKER.get(colour, colour), np.arange(len(value_N))
    draw_lines = ax.vlines if upright else ax.hlines
    draw_lines(place_N, low_N, np.minimum(high_N, limit), color=ink, linewidth=1.4)
    ax.plot(*_turned(place_N, value_N, upright), "o", color=ink, markersize=3.5)
    for place in place_N[high_N > limit]:
        end = _turned(place, limit, upright)
        ax.plot(*end, "^" if upright else ">", color=ink, markersize=6, clip_on=False)
        ax.annotate(
            f"to {high_N[place]:.2g}",
            end,
            xytext=(4, -10) if upright else (-5, 5),
            textcoords="offset points",
            fontsize=7.5,
            ha="left" if upright else "right",
            va="center",
        )


def _turned(place: Any, value: Any, upright: bool) -> tuple[Any, Any]:
    return (place, value) if upright else (value, place)
