"""One component on several axes, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tallyfold.errors import ParameterError
from tallyfold.report.ordering import MOST_NUMBERS, places_of
from tallyfold.report.plots.component_bars import draw_strongest, strongest_labels
from tallyfold.report.plots.inputs import checked_component
from tallyfold.report.plots.legible import legible, percent
from tallyfold.report.plots.style import Panels, drawing_panels, finish
from tallyfold.report.plots.time_course import band_words, draw_course, ordered_places, write_places

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel


def components_grid(
    model: CountModel,
    component: int,
    axes: Sequence[str] | None = None,
    top: int = 8,
    level: float = 0.9,
    *,
    ordered: Sequence[str] | None = None,
    ax: Any = None,
) -> Panels:
    """Draw one component on several axes: bars of labels, and a line where labels have an order.

    Parameters
    ----------
    model
        A fitted model with factors.
    component
        The component's number, as `model.components` gives it.
    axes
        Which axes to show; None shows all.
    top, level
        How many labels on an axis, and the mass of the intervals.
    ordered
        Axes to draw as a line; None draws those of dates, time bins and at most 200 numbers so.
    ax
        As many axes to draw on; None makes a figure.

    Returns
    -------
    numpy.ndarray
        A panel per axis.

    Examples
    --------
    >>> import tallyfold as tf
    >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tf.simulate((9, 8, 7), 2).tensor)
    >>> components_grid(model, 0).shape
    (3,)
    """
    number = checked_component(model, component)
    names = list(model.posterior_.names if axes is None else axes)
    if isinstance(axes, str) or not names:
        raise ParameterError(f"`axes` must be a list of axes or None; got {axes!r}.")
    lines = [n for n in names if _is_ordered(model, n)] if ordered is None else list(ordered)
    width = 3.4 * len(names) if len(names) > 1 else 6.4
    with drawing_panels(ax, len(names), len(names), (width, 1.4 + 0.26 * max(top, 6))) as panels:
        for panel, name in zip(panels, names, strict=True):
            (text,), how = legible([name], 20)
            if name in lines:
                draw_course(panel, model, name, [number], level)
                write_places(panel, model, name, ordered_places(model, name), 5)
                x = _broken(text + band_words(model, name, level))
                finish(panel, text, x, "share of the component", how, grid="y")
            else:
                strongest = strongest_labels(model, number, name, top, level)
                draw_strongest(panel, strongest, level, ticks=4, longest=22)
                finish(panel, text, _broken(panel.get_xlabel()), text, how)
        if ax is None:
            share = percent(float(model.posterior_.shares()[number]))
            panels[0].figure.suptitle(f"Component {number} ({share} of the rate)", fontsize=11)
    return panels


def _is_ordered(model: CountModel, name: str) -> bool:
    """Tell whether an axis looks like a line of time or of numbers."""
    places = places_of(model.axes_[model.posterior_.axis_number(name)].labels)
    if places is None or len(places) < 2:
        return False
    return places.dtype.kind == "M" or len(places) <= MOST_NUMBERS


def _broken(words: str) -> str:
    return words.replace(" (", "\n(")
