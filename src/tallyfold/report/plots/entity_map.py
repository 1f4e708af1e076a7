"""Labels of an axis on a map, coloured by what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.models.parameters import check_parameters, integer
from tallyfold.report.plots.inputs import has_column, read_numbers
from tallyfold.report.plots.legible import legible, percent
from tallyfold.report.plots.room import write_where_there_is_room
from tallyfold.report.plots.style import COLOURS, add_legend, drawing, finish, look

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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
    if labelled is not None:
        check_parameters({"labelled": labelled}, {"labelled": integer(0)})
    group = "group" if colour_by is None and has_column(frame, "group") else colour_by
    points = read_numbers(frame, ["x", "y"], ["label", *([group] if group else [])])
    explained = getattr(frame, "attrs", {}).get("explained")
    kept = f"\n({percent(explained)} of the squared distances is seen)" if explained else ""
    if labelled is None and len(points) > FEW_POINTS:
        points, labelled = _outermost_first(points), FARTHEST
    wanted = len(points) if labelled is None else labelled
    texts, how = legible(points["label"][:wanted], 30)
    with drawing(ax, (6.4, 4.8)) as ax:
        if group:
            _draw_groups(ax, points, group)
        else:
            ax.scatter(points["x"], points["y"], s=18, color=COLOURS[0], alpha=0.7, linewidth=0)
        ax.set_aspect("equal", "datalim")
        ax.margins(0.08)
        heading = title or f"Map of {len(points):,} labels: near if their factors are alike{kept}"
        finish(ax, heading, "first dimension of the scaling", "second dimension", how, "both")
        place_N2 = points[["x", "y"]].to_numpy(np.float64)
        write_where_there_is_room(ax, place_N2, texts, how)
    return ax


def _outermost_first(points: pd.DataFrame) -> pd.DataFrame:
    """Return points in the order of their distance from the middle of most."""
    place_N2 = points[["x", "y"]].to_numpy(np.float64)
    distance_N = np.hypot(*(place_N2 - np.median(place_N2, axis=0)).T)
    return points.iloc[np.argsort(-distance_N, kind="stable")]


def _draw_groups(ax: Axes, points: pd.DataFrame, group: str) -> None:
    sizes = points[group].value_counts(dropna=False)
    named = list(sizes.index) if len(sizes) <= len(COLOURS) else list(sizes.index[:7])
    rest = ~points[group].isin(named)
    handles, names = [], []
    parts = [(name, points[_is(points[group], name)], look(n)) for n, name in enumerate(named)]
    if rest.any():
        parts.append((f"{len(sizes) - 7} other groups", points[rest], look(7)))
    for name, part, (colour, marker, _) in parts:
        style: Any = {"color": colour, "marker": marker, "alpha": 0.75, "linewidth": 0}
        handles.append(ax.scatter(part["x"], part["y"], s=22, **style))
        names.append(f"{'no group' if _missing(name) else name} ({len(part):,})")
    texts, how = legible(names, 26)
    where = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0.0}
    (group_name,), title_how = legible([group], 24)
    add_legend(ax, handles, texts, how, **where)
    ax.get_legend().set_title(group_name, None)  # type: ignore[union-attr]
    ax.get_legend().get_title().set(**title_how)  # type: ignore[union-attr]


def _is(column: pd.Series[Any], name: Any) -> Any:
    return column.isna() if _missing(name) else column == name


def _missing(name: Any) -> bool:
    return name is None or name != name
