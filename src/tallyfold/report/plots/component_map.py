"""Components on a map: near each other if they are strong at the same labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.evaluation.scaling import component_places
from tallyfold.report.plots.inputs import names_of
from tallyfold.report.plots.legible import legible, percent
from tallyfold.report.plots.room import write_where_there_is_room
from tallyfold.report.plots.style import COLOURS, INK, drawing, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tallyfold.models.base import CountModel

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
    means = [posterior.mean(name) for name in (posterior.names if axes is None else axes)]
    weights = [mean_DK / np.maximum(mean_DK.sum(axis=0), 1e-300) for mean_DK in means]
    place_K2, seen = component_places(weights)
    share_K = posterior.shares()
    names, how = legible(names_of(model, named_by))
    with drawing(ax, (6.4, 4.8)) as ax:
        x_K, y_K = place_K2.T
        area_K = LARGEST * share_K
        ax.scatter(x_K, y_K, area_K, color=COLOURS[0], alpha=0.4, edgecolor=COLOURS[0])
        ax.set_aspect("equal", "datalim")
        ax.margins(0.16)
        title = "Map of components: near if alike, area is the share of the rate\n"
        title += f"({percent(seen)} of the squared distances is seen in the plane)"
        finish(ax, title, f"first {DIMENSION}", f"second {DIMENSION}", {}, "both")
        ax.scatter(x_K, y_K, 6, color=INK)
        order = np.argsort(-share_K, kind="stable")
        texts = [names[number] if named_by else str(number) for number in order]
        radius_K = np.sqrt(area_K[order] / np.pi)
        write_where_there_is_room(ax, place_K2[order], texts, how, radius_K, size=9)
    return ax


DIMENSION = "dimension (Hellinger distance)"
