"""Calibration: whether held-out counts fall where predictive distributions say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model, counts_like
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.report.plots.style import COLOURS, PALE_INK, drawing, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.linspace(0, 1, 21)


def calibration(model: CountModel, test: CountTensor, *, ax: Axes | None = None) -> Axes:
    """Draw the coverage of predictive intervals on held-out cells against what they promise.

    On the diagonal an interval of 80 % holds 80 % of the counts; below it intervals are too
    narrow, above it too wide. Since counts are discrete, a count on the edge of an interval is
    taken in by the part of its probability that lies inside, so that a right model is on the
    diagonal at every level and nothing is drawn at random. Where zeros are observed, intervals are
    those of how many, given that there is a count.

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


def pit_histogram(
    model: CountModel, test: CountTensor, bins: int = 10, *, ax: Axes | None = None
) -> Axes:
    """Draw how often held-out counts fall in each part of their predictive distributions.

    Bars of equal height mean that the predictive distributions are right; high ends mean that
    they are too narrow, a hump that they are too wide, a slope that they are too low or too high.
    A count's probability is spread over the bins that it covers, so nothing is drawn at random.

    Parameters
    ----------
    model
        A fitted model with a distribution of counts.
    test
        Cells it has not seen.
    bins
        How many bars.
    ax
        Axes to draw on; None makes a figure.

    References
    ----------
    Czado, Gneiting and Held, "Predictive Model Assessment for Count Data", Biometrics 2009.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> len(pit_histogram(tf.Constant().fit(train), test).patches)
    10
    """
    check_parameters({"bins": bins}, {"bins": integer(2)})
    edge_B = np.linspace(0, 1, bins + 1)
    height_B = np.diff(mean_pit(model, test, edge_B)) * bins
    with drawing(ax) as ax:
        ax.bar(edge_B[:-1], height_B, 1 / bins, align="edge", color=COLOURS[0], alpha=0.55, ec="w")
        ax.axhline(1, color=PALE_INK, linestyle="--", linewidth=1)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, max(1.5, 1.08 * float(height_B.max())))
        title = f"Where {test.nnz:,} held-out counts fall in their predictive distributions"
        finish(ax, title, "predictive probability of a smaller count", "density", {}, "y")
        ax.annotate("well calibrated", (1, 1), (-4, 4), textcoords="offset points", ha="right")
    return ax


def mean_pit(model: CountModel, test: CountTensor, level_B: Floats) -> Floats:
    """Return the mean non-randomised probability integral transform at some levels.

    It equals the levels themselves where the predictive distributions are right, though counts are
    discrete: each count's probability is spread evenly between its cdf and that of the count below.
    All is given that there is a count, as the cells that a tensor stores have one.
    """
    checked_model(model)
    test = counts_like(model.axes_, test, "test")
    if not test.nnz:
        raise DataError("the tensor has no non-zero cell; there is nothing to compare with.")
    predictive = model.predictive(test).given_positive()
    below_N, up_to_N = predictive.cdf(test.counts - 1), predictive.cdf(test.counts)
    width_N = np.maximum(up_to_N - below_N, 1e-12)
    return np.array([np.clip((u - below_N) / width_N, 0, 1).mean() for u in level_B])
