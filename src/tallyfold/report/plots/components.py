"""Components: their strongest labels as bars, and their course over an ordered axis as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.ordering import MOST_NUMBERS, are_names, places_of
from tallyfold.errors import DataError, ParameterError
from tallyfold.kernels.arrays import Array
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import check_parameters, number
from tallyfold.posterior.component_names import in_words, number_of
from tallyfold.posterior.matching import RECURS
from tallyfold.report.plots import style
from tallyfold.report.plots.legible import LONGEST, legible, percent, wrapped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from tallyfold.evaluation.stability import Stability


def component_bars(
    model: CountModel,
    component: int,
    axis: str,
    top: int = 10,
    level: float = 0.9,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the strongest labels of a component on an axis, with their intervals.

    Parameters
    ----------
    model
        A fitted model with factors.
    component
        The component's number, as `model.components` gives it.
    axis
        The axis whose labels to show.
    top, level
        How many labels, and the mass of the intervals. Labels are ranked by the lower end. An
        interval far wider than the others ends in an arrow that says where it goes to.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tf.simulate((9, 8, 7), 2).tensor)
    >>> ax = component_bars(model, 0, "axis_0", top=5)
    >>> ax.figure.savefig("component.png")  # doctest: +SKIP
    """
    table = _strongest(model, component, axis, top, level)
    with style.drawing(ax, (6.4, max(2.2, 1.3 + 0.27 * len(table)))) as ax:
        x = _draw_bars(ax, table, level)
        (name,), how = legible([axis])
        share = percent(float(table["share"].iloc[0]))
        title = f"Component {component} ({share} of the rate): strongest on {name}"
        style.finish(ax, wrapped(title, table["label"]), x, name, how)
    return ax


def _strongest(
    model: CountModel, component: int, axis: str, top: int, level: float
) -> pd.DataFrame:
    """Return a component's rows of `components`."""
    check_parameters({"level": level}, LEVEL)
    checked_component(model, component)
    table = model.posterior_.components(axis, top, level, least=0, by="sure")
    return table[table["component"] == component]


def _draw_bars(
    ax: Axes, table: pd.DataFrame, level: float, ticks: int = 7, longest: int = LONGEST
) -> str:
    """Draw bars of weights; return what their axis is called, with what the whiskers are."""
    weight_N, low_N, high_N = table[["weight", "low", "high"]].to_numpy().T
    style.horizontal_bars(ax, table["label"], weight_N, low_N, high_N, longest)
    style.in_percent(ax.xaxis, ticks)
    spread = (table["high"] > table["low"]).any()
    return "share of the component" + (f" (whiskers: {percent(level)} interval)" if spread else "")


def components_grid(
    model: CountModel,
    component: int,
    axes: Sequence[str] | None = None,
    top: int = 8,
    level: float = 0.9,
    *,
    ordered: Sequence[str] | None = None,
    ax: Any = None,
) -> style.Panels:
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
    with style.drawing_panels(
        ax, len(names), len(names), (width, 1.4 + 0.26 * max(top, 6))
    ) as panels:
        for panel, name in zip(panels, names, strict=True):
            (text,), how = legible([name], 20)
            if name in lines:
                bands = _draw_course(panel, model, name, [number], level, 5)
                x, y, grid = text + bands, "share of the component", "y"
            else:
                table = _strongest(model, number, name, top, level)
                x, y, grid = _draw_bars(panel, table, level, ticks=4, longest=22), text, "x"
            style.finish(panel, text, x.replace(" (", "\n("), y, how, grid)
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


LEVEL = {"level": number(0, 1)}
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
    if components is None:
        posterior = checked_model(model).posterior_
        order = np.argsort(-posterior.shares(), kind="stable")
        components = [int(each) for each in order[~posterior.switched_off()[order]][:4]]
    elif isinstance(components, int | np.integer | str) or not len(components):
        raise ParameterError(
            f"`components` must be a list of their numbers or None; got {components!r}."
        )
    chosen = [checked_component(model, component) for component in components]
    style.refuse_many(len(chosen), "components")
    names = names_of(model, named_by)
    texts, how = legible([axis, *(names[component] for component in chosen)], 44)
    with style.drawing(ax) as ax:
        bands = _draw_course(ax, model, axis, chosen, level, FEW)
        title = f"How components rise and fall over {texts[0]}{bands}"
        style.finish(ax, title, texts[0], "share of the component", how, grid="y")
        style.add_legend_below(ax, ax.get_lines()[-len(chosen) :], texts[1:], how)
    return ax


def _draw_course(
    ax: Axes, model: CountModel, axis: str, components: Sequence[int], level: float, most: int
) -> str:
    """Draw a line of mean weights and a band for each component; say what the bands are."""
    check_parameters({"level": level}, LEVEL)
    posterior = model.posterior_
    labels = model.axes_[posterior.axis_number(axis)].labels
    place_D = places_of(labels)
    if place_D is None or len(place_D) < 2:
        raise DataError(
            f"a line over axis {axis!r} needs at least two labels that are numbers, dates, time "
            f"bins or names of months or weekdays; got {len(labels):,}, such as "
            f"{in_words(labels[0].as_py())!r}. Use component_bars."
        )
    order = np.argsort(place_D, kind="stable")
    mean_DK = posterior.mean(axis)
    ends = [posterior.quantile(axis, (1 + side * level) / 2) for side in (-1, 1)]
    total_K = np.maximum(mean_DK.sum(axis=0), 1e-300)
    mean_DK, low_DK, high_DK = (part_DK[order] / total_K for part_DK in (mean_DK, *ends))
    for place, component in enumerate(components):
        colour, marker, line = style.look(place)
        low_D, high_D = low_DK[:, component], high_DK[:, component]
        if (high_D > low_D).any():
            ax.fill_between(place_D[order], low_D, high_D, color=colour, alpha=0.18, linewidth=0)
        line_style: Any = {"color": colour, "linestyle": line, "markersize": 4.5, "linewidth": 1.5}
        marked = marker if len(order) <= 3 * FEW else None
        ax.plot(place_D[order], mean_DK[:, component], marker=marked, **line_style)
    highest = max(mean_DK[:, components].max(), np.quantile(high_DK[:, components], 0.98))
    ax.set_ylim(0, 1.05 * float(highest))
    style.in_percent(ax.yaxis)
    _write_places(ax, [str(label) for label in labels.to_pylist()], place_D, most)
    return f" (bands: {percent(level)} intervals)" if (posterior.sd(axis) > 0).any() else ""


def _write_places(ax: Axes, labels: list[str], place_D: Array, most: int) -> None:
    """Write names of months and days, and whole numbers if they are few; leave the rest."""
    whole = place_D.dtype.kind == "f" and bool(np.all(place_D == np.round(place_D)))
    if len(place_D) > FEW or not (whole or are_names(labels)):
        return
    shown = np.argsort(place_D, kind="stable")[:: -(-len(place_D) // most)]
    texts, how = legible([labels[place] for place in shown], 12)
    slant: Any = {"rotation": 45, "ha": "right"} if sum(map(len, texts)) > 60 else {}
    ax.set_xticks(place_D[shown], texts, **slant, **how)


def stability_bars(found: Stability, *, ax: Axes | None = None) -> Axes:
    """Draw how surely each component comes back in other fits.

    Bars are mean overlaps with the component's partner in each fit, dots those of single fits. A
    dotted line marks the overlap from which on a component recurs.

    Parameters
    ----------
    found
        What `stability` returned.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((20, 15, 8), 2, density=0.3).tensor
    >>> found = tf.stability(tensor, tf.BPTF(n_components=2, max_iter=10), runs=3)
    >>> stability_bars(found).get_xlabel()
    'overlap with the same component of other fits'
    """
    table = found.table
    names = [f"{row.component}: {row.name}" for row in table.itertuples(index=False)]
    texts, how = legible(names, LONGEST)
    with style.drawing(ax) as ax:
        place_K = np.arange(len(table))[::-1]
        ax.barh(place_K, table["stability"], color=style.COLOURS[0], alpha=0.5, height=0.6)
        for overlap_K in found.overlap_RK:
            ax.plot(overlap_K, place_K, ".", color=style.COLOURS[0], markersize=4)
        ax.axvline(RECURS, color=style.PALE_INK, linestyle=":", linewidth=1)
        ax.set_yticks(place_K, texts, **how)
        ax.set_xlim(0, 1)
        title = f"How surely {len(found.overlap_RK)} other fits find each component"
        x = "overlap with the same component of other fits"
        style.finish(ax, title, x, "component", how, "x")
    return ax


def checked_component(model: CountModel, component: Any) -> int:
    """Refuse a component that the model does not have."""
    return number_of(component, checked_model(model).component_names_)


def names_of(model: CountModel, named_by: str | None) -> list[str]:
    """Return a name for each component: its number with what it is called.

    With an axis, its three strongest labels there instead.
    """
    if named_by is None:
        return [f"{number}: {name}" for number, name in enumerate(model.component_names_)]
    parts = model.components(named_by, top=3, least=0).groupby("component")["label"]
    return [f"{number}: {', '.join(map(in_words, labels))}" for number, labels in parts]
