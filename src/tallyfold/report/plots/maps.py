"""Maps: components and entities as points, near each other if alike, with labels beside them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.evaluation.scaling import component_places
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import NONE, check_parameters, integer
from tallyfold.report.plots import style
from tallyfold.report.plots.components import names_of
from tallyfold.report.plots.legible import legible, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DIMENSION = "dimension (Hellinger distance)"
LARGEST = 2600
"""The area of a component that has the whole rate, in square points."""


def component_map(
    model: CountModel,
    axes: Sequence[str] | None = None,
    *,
    named_by: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw components as discs: near each other if alike, as large as their share of the rate.

    Components that are switched off are left out.

    Places come from classical scaling of the Hellinger distances between the components' shares
    over labels, averaged over axes. The title says how much of the distances the plane shows.

    Parameters
    ----------
    model
        A fitted model with factors.
    axes
        Axes on which to compare components; None takes all.
    named_by
        An axis whose strongest labels name the components; a name is left out where there is no
        room.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tf.simulate((9, 8, 7), 2).tensor)
    >>> component_map(model).get_xlabel()
    'first dimension (Hellinger distance)'
    """
    posterior = model.posterior_
    number_K = np.flatnonzero(~posterior.switched_off())
    shown = posterior.names if axes is None else axes
    means = [posterior.mean(name)[:, number_K] for name in shown]
    weights = [mean_DK / np.maximum(mean_DK.sum(axis=0), 1e-300) for mean_DK in means]
    place_K2, seen = component_places(weights)
    share_K = posterior.shares()[number_K]
    named = names_of(model, named_by)
    names, how = legible([named[number] for number in number_K])
    with style.drawing(ax, (6.4, 4.8)) as ax:
        x_K, y_K = place_K2.T
        area_K = LARGEST * share_K
        ax.scatter(x_K, y_K, area_K, color=style.COLOURS[0], alpha=0.4, edgecolor=style.COLOURS[0])
        ax.set_aspect("equal", "datalim")
        ax.margins(0.16)
        title = "Map of components: near if alike, area is the share of the rate\n"
        title += f"({percent(seen)} of the squared distances is seen in the plane)"
        style.finish(ax, title, f"first {DIMENSION}", f"second {DIMENSION}", {}, "both")
        ax.scatter(x_K, y_K, 6, color=style.INK)
        order = np.argsort(-share_K, kind="stable")
        texts = [names[place] if named_by else str(number_K[place]) for place in order]
        radius_K = np.sqrt(area_K[order] / np.pi)
        write_where_there_is_room(ax, place_K2[order], texts, how, radius_K, size=9)
    return ax


FEW_POINTS, FARTHEST = 60, 30


def entity_map(
    frame: Any,
    colour_by: str | None = None,
    *,
    labelled: int | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw labels as points on a plane, coloured and shaped by a group.

    Parameters
    ----------
    frame
        A row per label: columns ``label``, ``x`` and ``y``, as `scaling` returns them, and perhaps
        a column of groups.
    colour_by
        The column of groups; None takes ``group`` if there is one. Beyond seven groups the
        smaller ones are drawn together in grey.
    labelled
        How many labels to write, from the first row on, where there is room. None writes all
        if there are at most 60 rows, else the 30 farthest out.
    title
        A title of your own.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": ["a", "b"], "x": [0, 1], "y": [1, 0], "genre": ["q", "r"]})
    >>> ax = entity_map(frame, colour_by="genre")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['q (1)', 'r (1)']
    """
    check_parameters({"labelled": labelled}, {"labelled": integer(0) | NONE})
    group = "group" if colour_by is None and style.has_column(frame, "group") else colour_by
    points = style.read_numbers(frame, ["x", "y"], ["label", *([group] if group else [])])
    explained = getattr(frame, "attrs", {}).get("explained")
    kept = f"\n({percent(explained)} of the squared distances is seen)" if explained else ""
    if labelled is None and len(points) > FEW_POINTS:
        points, labelled = _outermost_first(points), FARTHEST
    wanted = len(points) if labelled is None else labelled
    texts, how = legible(points["label"][:wanted], 30)
    place_N2 = points[["x", "y"]].to_numpy(np.float64)
    with style.drawing(ax, (6.4, 4.8)) as ax:
        if group:
            _draw_groups(ax, points, group)
        else:
            ax.scatter(
                points["x"], points["y"], s=18, color=style.COLOURS[0], alpha=0.7, linewidth=0
            )
        ax.set_aspect("equal", "datalim")
        ax.margins(0.08)
        heading = title or f"Map of {len(points):,} labels: near if their factors are alike{kept}"
        style.finish(ax, heading, "first dimension of the scaling", "second dimension", how, "both")
        write_where_there_is_room(ax, place_N2, texts, how)
    return ax


def _outermost_first(points: pd.DataFrame) -> pd.DataFrame:
    """Return points in the order of their distance from the middle of most."""
    place_N2 = points[["x", "y"]].to_numpy(np.float64)
    distance_N = np.hypot(*(place_N2 - np.median(place_N2, axis=0)).T)
    return points.iloc[np.argsort(-distance_N, kind="stable")]


def _draw_groups(ax: Axes, points: pd.DataFrame, group: str) -> None:
    """Draw the groups, the largest first; those beyond the seventh as one, in grey."""
    sizes = points[group].value_counts(dropna=False)
    drawn = sizes.index if len(sizes) <= len(style.COLOURS) else sizes.index[:7]
    number_N = drawn.get_indexer(points[group])  # type: ignore[arg-type]  # -1: the others
    handles, names = [], []
    for number in dict.fromkeys([*range(len(drawn)), *number_N]):
        part, (colour, marker, _) = points[number_N == number], style.look(number)
        line_style: Any = {"color": colour, "marker": marker, "alpha": 0.75, "linewidth": 0}
        handles.append(ax.scatter(part["x"], part["y"], s=22, **line_style))
        name = drawn[number] if number >= 0 else f"{len(sizes) - 7} other groups"
        names.append(f"{'no group' if name is None or name != name else name} ({len(part):,})")
    texts, how = legible(names, 26)
    where = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0.0}
    (title,), title_how = legible([group], 24)
    legend = style.add_legend(ax, handles, texts, how, **where)
    legend.set_title(title)
    legend.get_title().set(**title_how)


LEADER = {"arrowstyle": "-", "lw": 0.6, "color": style.PALE_INK, "shrinkA": 0, "shrinkB": 0}
DISTANCES = (3, 13, 24, 36)
"""From the edge of a point to its label, in points; from afar a line leads to it."""

DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (-0.7, -0.7), (0.7, -0.7), (-0.7, 0.7))


def write_where_there_is_room(
    ax: Axes,
    place_N2: Floats,
    texts: Sequence[str],
    how: dict[str, Any],
    radius_N: Floats | float = 2.5,
    size: float = 8,
) -> None:
    """Write texts beside the first points, in their order.

    A text is left out if wherever it could stand it would cover another text or a point, or leave
    the axes.
    """
    from matplotlib.text import Text

    figure: Any = ax.get_figure(root=True)
    figure.draw_without_rendering()  # so that places on paper are known
    pixels, inside = figure.dpi / 72, ax.get_window_extent()
    point_N2, taken = ax.transData.transform(place_N2), list[Floats]()
    radius_N = np.broadcast_to(radius_N, len(place_N2))
    how = {"textcoords": "offset points", "fontsize": size, "arrowprops": LEADER, **how}
    for number, text in enumerate(texts):
        note: Any = ax.annotate(text, place_N2[number], (0, 0), **how)
        note.set_in_layout(False)
        extent_2 = np.array(Text.get_window_extent(note).size)  # without the leader
        for distance, direction in product(DISTANCES, DIRECTIONS):
            side_2 = np.sign(direction)
            offset_2 = (radius_N[number] + distance) * np.array(direction)
            low_2 = point_N2[number] + pixels * offset_2 + extent_2 * (side_2 - 1) / 2
            box = np.stack([low_2, low_2 + extent_2])
            if _fits(box, inside, taken, point_N2, radius_N * pixels):
                taken.append(box)
                right, up = side_2.astype(int)
                note.set(position=offset_2, ha=("center", "left", "right")[right])
                note.set_va(("center", "bottom", "top")[up])
                note.arrow_patch.set_visible(distance > DISTANCES[0])
                break
        else:
            note.remove()


def _fits(box: Floats, inside: Any, taken: list[Floats], point_N2: Floats, disc_N: Floats) -> bool:
    low, high = box
    if (low < inside.min).any() or (high > inside.max).any():
        return False
    if any((low < other[1]).all() and (high > other[0]).all() for other in taken):
        return False
    gap_N2 = np.maximum(np.maximum(low - point_N2, point_N2 - high), 0)
    return bool((np.hypot(*gap_N2.T) >= disc_N).all())
