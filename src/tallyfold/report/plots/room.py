"""Labels beside points, written where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.report.plots.style import PALE_INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

DISTANCES = (3, 13, 24, 36)
"""From the edge of a point to its label, in points; from afar a line leads to it."""

DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (-0.7, -0.7), (0.7, -0.7), (-0.7, 0.7))


class Spot(NamedTuple):
    """Where a label could stand: from its point, in points of type, and the box it would fill."""

    offset: tuple[float, float]
    afar: bool
    box: Floats


def write_where_there_is_room(
    ax: Axes,
    place_N2: Floats,
    texts: Sequence[str],
    how: dict[str, Any],
    radius_N: Floats | float = 2.5,
    size: float = 8,
) -> int:
    """Write texts beside the first points, in their order; return how many had room.

    A text is left out if wherever it could stand it would cover another text or a point, or leave
    the axes.
    """
    figure: Any = ax.get_figure(root=True)
    figure.draw_without_rendering()  # so that places on paper are known
    point_N2 = ax.transData.transform(place_N2)
    taken: list[Floats] = []
    radius_N = np.broadcast_to(radius_N, len(place_N2))
    disc_N = radius_N * figure.dpi / 72
    for number, text in enumerate(texts):
        note = ax.annotate(
            text, place_N2[number], (0, 0), textcoords="offset points", fontsize=size, **how
        )
        note.set_in_layout(False)
        extent = note.get_window_extent()
        spots = _spots(point_N2[number], extent, float(radius_N[number]), figure.dpi / 72)
        spot = next((spot for spot in spots if _fits(spot.box, ax, taken, point_N2, disc_N)), None)
        note.remove()
        if spot is not None:
            taken.append(spot.box)
            _write(ax, text, place_N2[number], spot, {"fontsize": size, **how})
    return len(taken)


def _spots(point: Floats, extent: Any, radius: float, pixels: float) -> Iterator[Spot]:
    """Yield the spots beside a point, near ones first."""
    for distance, (right, up) in product(DISTANCES, DIRECTIONS):
        offset = ((radius + distance) * right, (radius + distance) * up)
        left = point[0] + pixels * offset[0] + extent.width * (np.sign(right) - 1) / 2
        low = point[1] + pixels * offset[1] + extent.height * (np.sign(up) - 1) / 2
        box = np.array([left, low, left + extent.width, low + extent.height])
        yield Spot(offset, distance > DISTANCES[0], box)


def _write(ax: Axes, text: str, place: Floats, spot: Spot, how: dict[str, Any]) -> None:
    right, up = np.sign(spot.offset)
    leader = {"arrowstyle": "-", "lw": 0.6, "color": PALE_INK, "shrinkA": 0, "shrinkB": 0}
    note = ax.annotate(
        text,
        (float(place[0]), float(place[1])),
        spot.offset,
        textcoords="offset points",
        ha=("right", "center", "left")[int(right) + 1],
        va=("top", "center", "bottom")[int(up) + 1],
        arrowprops=leader if spot.afar else None,
        **how,
    )
    note.set_in_layout(False)


def _fits(box: Floats, ax: Axes, taken: list[Floats], point_N2: Floats, disc_N: Floats) -> bool:
    inside = ax.get_window_extent()
    if (box[:2] < inside.min).any() or (box[2:] > inside.max).any():
        return False
    if any((box[:2] < other[2:]).all() and (box[2:] > other[:2]).all() for other in taken):
        return False
    gap_N2 = np.maximum(np.maximum(box[:2] - point_N2, point_N2 - box[2:]), 0)
    return bool((np.hypot(*gap_N2.T) >= disc_N).all())
