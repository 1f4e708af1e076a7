"""How often intervals hold what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.report.plots.pit_histogram import mean_pit
from tallyfold.report.plots.style import COLOURS, PALE_INK, drawing, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

LEVELS = np.linspace(0, 1, 21)


def calibration(model: CountModel, test: CountTensor, *, ax: Axes | None = None) -> Axes:
    """Draw the coverage of predictive intervals on held-out cells against what they promise.

    On the diagonal an interval of 80 % holds 80 % of the counts; below it intervals are too
    narrow, above it too wide. Since counts are discrete, a count on the edge of an interval is
    taken in by the part of its probability that lies inside, so that a right model is on the
    diagonal at every level and nothing is drawn at random.

    Parameters
    ----------
    model
        A fitted model with a distribution of counts.
    test
        Cells it has not seen.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> calibration(tf.Constant().fit(train), test).get_ylabel()
    'share of counts inside'
    """
    ends_2B = np.concatenate([(1 - LEVELS) / 2, (1 + LEVELS) / 2])
    below_B, up_to_B = mean_pit(model, test, ends_2B).reshape(2, -1)
    observed_B = up_to_B - below_B
    # two standard errors of a share among independent cells
    error_B = 2 * np.sqrt(LEVELS * (1 - LEVELS) / test.nnz)
    with drawing(ax, (4.6, 4.2)) as ax:
        band: Any = {"color": PALE_INK, "alpha": 0.2, "linewidth": 0}
        ax.fill_between(LEVELS, LEVELS - error_B, LEVELS + error_B, **band)
        ax.plot([0, 1], [0, 1], "--", color=PALE_INK, linewidth=1)
        ax.plot(LEVELS, observed_B, "o-", color=COLOURS[0], markersize=4, clip_on=False)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        x = "promised: mass of the central predictive interval"
        title = f"Do intervals hold what they promise?\n{test.nnz:,} held-out cells"
        finish(ax, title, x, "share of counts inside", {}, "both")
        ax.text(0.96, 0.06, "too narrow", ha="right", color=PALE_INK)
        ax.text(0.04, 0.9, "too wide", color=PALE_INK)
    return ax
