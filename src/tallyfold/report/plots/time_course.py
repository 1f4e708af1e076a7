"""Components over an ordered axis, as lines with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.errors import DataError
from tallyfold.report.ordering import are_names, places_of
from tallyfold.report.plots.inputs import check_level, chosen_components, names_of
from tallyfold.report.plots.legible import in_words, legible, percent
from tallyfold.report.plots.style import (
    add_legend_below,
    drawing,
    finish,
    in_percent,
    look,
    refuse_many,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tallyfold.models.base import CountModel

FEW = 16
"""Up to this many places, each is marked and, if whole numbers, written out."""


def time_course(
    model: CountModel,
    axis: str,
    components: Sequence[int] | None = None,
    level: float = 0.9,
    *,
    named_by: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how components rise and fall along an ordered axis, such as years.

    Parameters
    ----------
    model
        A fitted model with factors.
    axis
        An axis whose labels are numbers, dates, time bins, or names of months or weekdays.
    components
        Their numbers, at most eight; None takes the four largest.
    level
        The mass of the bands.
    named_by
        An axis whose strongest labels name the components in the legend.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> made = tf.simulate((9, 8, 7), 2).tensor
    >>> years = tf.Axis("year", range(2010, 2017))
    >>> tensor = tf.CountTensor([*made.axes[:2], years], made.indices, made.counts)
    >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tensor)
    >>> len(time_course(model, "year").get_lines())
    2
    """
    chosen = chosen_components(model, components)
    refuse_many(len(chosen), "components")
    names = names_of(model, named_by)
    places = ordered_places(model, axis)
    with drawing(ax) as ax:
        draw_course(ax, model, axis, chosen, level)
        texts, how = legible([axis, *(names[component] for component in chosen)], 44)
        title = f"How components rise and fall over {texts[0]}{band_words(model, axis, level)}"
        finish(ax, title, texts[0], "share of the component", how, grid="y")
        write_places(ax, model, axis, places)
        add_legend_below(ax, ax.get_lines()[-len(chosen) :], texts[1:], how)
    return ax


def ordered_places(model: CountModel, axis: str) -> npt.NDArray[Any]:
    """Return where an axis's labels stand; refuse labels without an order."""
    labels = model.axes_[model.posterior_.axis_number(axis)].labels
    places = places_of(labels)
    if places is None or len(places) < 2:
        raise DataError(
            f"a line over axis {axis!r} needs at least two labels that are numbers, dates, time "
            f"bins or names of months or weekdays; got {len(labels):,}, such as "
            f"{in_words(labels[0].as_py())!r}. Use component_bars."
        )
    return places


def draw_course(
    ax: Axes, model: CountModel, axis: str, components: Sequence[int], level: float
) -> None:
    """Draw a line of mean weights and a band for each component."""
    check_level(level)
    posterior, place_D = model.posterior_, ordered_places(model, axis)
    order = np.argsort(place_D, kind="stable")
    total_K = np.maximum(posterior.mean(axis).sum(axis=0), 1e-300)
    mean_DK, low_DK, high_DK = (
        (part_DK / total_K)[order]
        for part_DK in (
            posterior.mean(axis),
            posterior.quantile(axis, (1 - level) / 2),
            posterior.quantile(axis, (1 + level) / 2),
        )
    )
    for number, component in enumerate(components):
        colour, marker, line = look(number)
        low_D, high_D = low_DK[:, component], high_DK[:, component]
        if (high_D > low_D).any():
            ax.fill_between(place_D[order], low_D, high_D, color=colour, alpha=0.18, linewidth=0)
        style: Any = {"color": colour, "linestyle": line, "markersize": 4.5, "linewidth": 1.5}
        marked = marker if len(order) <= 3 * FEW else None
        ax.plot(place_D[order], mean_DK[:, component], marker=marked, **style)
    most = max(mean_DK[:, components].max(), np.quantile(high_DK[:, components], 0.98))
    ax.set_ylim(0, 1.05 * float(most))
    in_percent(ax.yaxis)


def write_places(
    ax: Axes, model: CountModel, axis: str, places: npt.NDArray[Any], most: int = FEW
) -> None:
    """Write names of months and days, and whole numbers if they are few; leave the rest."""
    labels = model.axes_[model.posterior_.axis_number(axis)].labels
    whole = places.dtype.kind == "f" and bool(np.all(places == np.round(places)))
    written = [str(label) for label in labels.to_pylist()]
    if len(places) > FEW or not (whole or are_names(written)):
        return
    shown = np.argsort(places, kind="stable")[:: -(-len(places) // most)]
    texts, how = legible([written[place] for place in shown], 12)
    slant: Any = {"rotation": 45, "ha": "right"} if sum(map(len, texts)) > 60 else {}
    ax.set_xticks(places[shown], texts, **slant, **how)


def band_words(model: CountModel, axis: str, level: float) -> str:
    """Say what the bands are, if there are any."""
    spread = bool((model.posterior_.sd(axis) > 0).any())
    return f" (bands: {percent(level)} intervals)" if spread else ""
