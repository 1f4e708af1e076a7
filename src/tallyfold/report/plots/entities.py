"""Entities: what goes with them, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.evaluation import profiles
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.posterior.component_names import in_words
from tallyfold.report.plots import style
from tallyfold.report.plots.legible import legible, percent, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def top_entities_bars(
    source: Any,
    axis: str | None = None,
    given: Mapping[str, Any] | None = None,
    top: int = 10,
    *,
    xlabel: str = "predicted count",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the entities of which most is predicted beside given ones, with standard deviations.

    Parameters
    ----------
    source
        A fitted model, or a frame as `top` returns it: columns ``label``, ``mean``, and
        ``sd`` or ``low`` and ``high``, in the order to draw.
    axis, given
        With a model, the axis to rank and the entities of other axes, such as
        ``{"author": "..."}``. With a frame, `axis` is what to call its labels.
    top
        How many entities.
    xlabel, title
        What to write in the place of what is written by itself.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": ["kernel", "margin"], "mean": [3, 2], "sd": [0.2, 0.4]})
    >>> top_entities_bars(frame, "word").get_xlabel()
    'predicted count (whiskers: ± one standard deviation)'
    """
    check_parameters({"top": top}, {"top": integer(1)})
    frame = source
    if hasattr(source, "posterior_"):
        if axis is None:
            raise ParameterError("`axis` must name the axis to rank when a model is given.")
        frame = profiles.top(source, axis, given, top=top)
    table, whiskers = _whiskered(frame, top)
    beside = ", ".join(f"{name} {in_words(label)}" for name, label in (given or {}).items())
    title = title or f"Highest predictions on {axis or 'the axis'}{beside and f' for {beside}'}"
    texts, how = legible([xlabel + whiskers, axis or "", title], 80)
    with style.drawing(ax, (6.4, max(2.2, 1.3 + 0.27 * len(table)))) as ax:
        style.horizontal_bars(ax, table["label"], *table[["mean", "low", "high"]].to_numpy().T)
        style.finish(ax, wrapped(texts[2], table["label"]), texts[0], texts[1], how)
    return ax


def _whiskered(frame: Any, top: int) -> tuple[Any, str]:
    """Return the rows to draw, with the ends of their whiskers, and what the whiskers are."""
    if not style.has_column(frame, "sd"):
        return style.read_numbers(frame, ["mean", "low", "high"], ["label"])[
            :top
        ], " (with intervals)"
    table = style.read_numbers(frame, ["mean", "sd"], ["label"])[:top]
    table = table.assign(low=table["mean"] - table["sd"], high=table["mean"] + table["sd"])
    whiskers = " (whiskers: ± one standard deviation)" if (table["sd"] > 0).any() else ""
    return table, whiskers


def factor_profile(
    model: CountModel, axis: str, labels: Any, level: float = 0.9, *, ax: Any = None
) -> style.Panels:
    """Draw how much of an entity's rate each component has, for one entity or a few.

    The shares are those of `profile`: an entity's factors, weighted by the other axes so that they
    can be compared between components; those that are switched off are left out. Whiskers show the
    uncertainty of the entity's factor.

    Parameters
    ----------
    model
        A fitted model with factors.
    axis
        The entities' axis.
    labels
        A label, or a list of at most eight.
    level
        The mass of the intervals.
    ax
        As many axes to draw on; None makes a figure.

    Returns
    -------
    numpy.ndarray
        A panel per entity, all with the same scale.

    Examples
    --------
    >>> import tallyfold as tf
    >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tf.simulate((9, 8, 7), 2).tensor)
    >>> factor_profile(model, "axis_0", ["axis_0-3", "axis_0-4"]).shape
    (2,)
    """
    from matplotlib.ticker import MaxNLocator

    asked = labels if isinstance(labels, list | tuple) else [labels]
    if not len(asked):
        raise ParameterError("`labels` must be a label or a list of some; got an empty list.")
    style.refuse_many(len(asked), "entities")
    profiles = [_shares(model, axis, label, level) for label in asked]
    on = np.flatnonzero(~model.posterior_.switched_off())
    shown = {place: str(number) for place, number in enumerate(on)}
    names, how = legible(asked, 34 if len(asked) > 1 else 60)
    (axis_name,), axis_how = legible([axis])
    limit = max(style.value_limit(value_K, high_K) for value_K, _, high_K in profiles)
    spread = any(bool((high_K > low_K).any()) for _, low_K, high_K in profiles)
    size = (max(6.4, 3.1 * min(3, len(asked))), 3.4 * -(-len(asked) // 3))
    with style.drawing_panels(ax, len(asked), min(3, len(asked)), size, sharey=True) as panels:
        for number, (panel, parts) in enumerate(zip(panels, profiles, strict=True)):
            style.bars(panel, *parts, limit, style.look(number)[0])
            panel.xaxis.set_major_locator(MaxNLocator(16, integer=True))
            panel.xaxis.set_major_formatter(lambda at, _: shown.get(int(at), ""))
            style.in_percent(panel.yaxis)
            style.finish(panel, names[number], "component", "", how, "y")
        words = f"\n(whiskers: {percent(level)} interval)" if spread else ""
        panels[0].set_ylabel(f"share of the {axis_name}'s rate{words}", **axis_how)
        if len(asked) == 1:
            panels[0].set_title(f"What the rate of {names[0]} is made of", loc="left", **how)
        elif ax is None:
            title = f"What the rate of each {axis_name} is made of"
            panels[0].figure.suptitle(title, fontsize=11, **axis_how)
    return panels


def _shares(
    model: CountModel, axis: str, label: Any, level: float
) -> tuple[Floats, Floats, Floats]:
    """Return mean, low and high of the share of an entity's rate that each component has."""
    frame = profiles.profile(model, axis, label, level=level).sort_values("component")
    share_K, mean_K, low_K, high_K = frame[["share", "mean", "low", "high"]].to_numpy().T
    scale_K = share_K / np.maximum(mean_K, 1e-300)
    return share_K, scale_K * low_K, scale_K * high_K
