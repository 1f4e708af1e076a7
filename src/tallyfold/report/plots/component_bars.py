"""The strongest labels of a component, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyfold.report.plots.inputs import check_level, checked_component
from tallyfold.report.plots.legible import LONGEST, legible, percent, wrapped
from tallyfold.report.plots.style import drawing, finish, in_percent
from tallyfold.report.plots.whiskers import horizontal_bars

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from tallyfold.models.base import CountModel


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
    strongest = strongest_labels(model, component, axis, top, level)
    share = float(strongest["share"].iloc[0])
    with drawing(ax, (6.4, max(2.2, 1.3 + 0.27 * len(strongest)))) as ax:
        draw_strongest(ax, strongest, level)
        (name,), how = legible([axis])
        title = f"Component {component} ({percent(share)} of the rate): strongest on {name}"
        title = wrapped(title, strongest["label"])
        finish(ax, title, ax.get_xlabel(), name, how)
    return ax


def strongest_labels(
    model: CountModel, component: int, axis: str, top: int, level: float
) -> pd.DataFrame:
    """Return a component's rows of `components`."""
    check_level(level)
    number = checked_component(model, component)
    strongest = model.posterior_.components(axis, top, level)
    return strongest[strongest["component"] == number]


def draw_strongest(
    ax: Axes, strongest: pd.DataFrame, level: float, ticks: int = 7, longest: int = LONGEST
) -> None:
    """Draw bars of weights, and say what the whiskers are if there are any."""
    value_N, low_N, high_N = (strongest[name].to_numpy() for name in ("weight", "low", "high"))
    horizontal_bars(ax, strongest["label"], value_N, low_N, high_N, longest)
    whiskers = f" (whiskers: {percent(level)} interval)" if (high_N > low_N).any() else ""
    ax.set_xlabel(f"share of the component{whiskers}")
    in_percent(ax.xaxis, ticks)
