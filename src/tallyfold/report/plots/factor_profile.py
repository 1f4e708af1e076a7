"""What entities are made of: their factors over components, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.errors import ParameterError
from tallyfold.evaluation.profiles import profile
from tallyfold.report.plots.inputs import check_level
from tallyfold.report.plots.legible import legible, percent
from tallyfold.report.plots.style import (
    Panels,
    drawing_panels,
    finish,
    in_percent,
    look,
    refuse_many,
)
from tallyfold.report.plots.whiskers import upright_bars, value_limit

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel

Floats = npt.NDArray[np.float64]


def factor_profile(
    model: CountModel, axis: str, labels: Any, level: float = 0.9, *, ax: Any = None
) -> Panels:
    """Draw how much of an entity's rate each component has, for one entity or a few.

    The shares are those of `profile`: an entity's factors, weighted by the other axes so that they
    can be compared between components. Whiskers show the uncertainty of the entity's factor.

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

    check_level(level)
    asked = labels if isinstance(labels, list | tuple) else [labels]
    if not len(asked):
        raise ParameterError("`labels` must be a label or a list of some; got an empty list.")
    refuse_many(len(asked), "entities")
    profiles = [_shares(model, axis, label, level) for label in asked]
    names, how = legible(asked, 34 if len(asked) > 1 else 60)
    (axis_name,), axis_how = legible([axis])
    limit = max(value_limit(value_K, high_K) for value_K, _, high_K in profiles)
    spread = any(bool((high_K > low_K).any()) for _, low_K, high_K in profiles)
    size = (max(6.4, 3.1 * min(3, len(asked))), 3.4 * -(-len(asked) // 3))
    with drawing_panels(ax, len(asked), min(3, len(asked)), size, sharey=True) as panels:
        for number, (panel, profile) in enumerate(zip(panels, profiles, strict=True)):
            upright_bars(panel, *profile, look(number).colour, limit)
            panel.xaxis.set_major_locator(MaxNLocator(16, integer=True))
            in_percent(panel.yaxis)
            finish(panel, names[number], "component", "", how, "y")
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
    frame = profile(model, axis, label, level=level).sort_values("component")
    share_K, mean_K, low_K, high_K = (
        frame[name].to_numpy() for name in ("share", "mean", "low", "high")
    )
    scale_K = share_K / np.maximum(mean_K, 1e-300)
    return share_K, scale_K * low_K, scale_K * high_K
