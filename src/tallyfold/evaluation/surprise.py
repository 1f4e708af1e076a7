"""Cells that a model did not expect: where to look for what is odd in the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.tensor import CountTensor, label_columns
from tallyfold.errors import ParameterError
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.expected import checked_model, checked_tensor
from tallyfold.models.parameters import NONE, check_parameters, integer, number, one_of
from tallyfold.probability.distribution import CountDistribution

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Tail = Literal["upper", "lower", "both"]

CELLS_AT_ONCE = 50_000
COLUMNS = ("count", "mean", "low", "high", "side", "p", "log10_p", "by_chance")


def surprise(
    model: CountModel,
    tensor: CountTensor,
    *,
    tail: Tail = "both",
    top: int | None = None,
    level: float = 0.9,
) -> pd.DataFrame:
    """Return cells with how unlikely their counts are to the model, the least likely first.

    Parameters
    ----------
    model
        A fitted model with a distribution of counts.
    tensor
        The cells; best those it was not fitted on, for it has made its peace with the others.
    tail
        ``"upper"`` for counts that are too large, by P(Y >= y); ``"lower"`` for those that are too
        small, by P(Y <= y); ``"both"`` by the two-sided mid-p value, twice the smaller of
        P(Y > y) + P(Y = y) / 2 and P(Y < y) + P(Y = y) / 2. All given that y >= 1 where the
        model takes empty cells as missing.
    top
        How many cells to return; None for all.
    level
        Of the interval from `low` to `high` in which the model expects the count.

    Returns
    -------
    pandas.DataFrame
        A row per cell: its labels, count, expected mean and interval, the side it is on
        (``"more"`` or ``"fewer"`` than expected), `p`, its logarithm (`p` is 0 below 1e-308), and
        how many of the tensor's cells would be as unlikely `by_chance`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), 2, density=0.3).tensor
    >>> model = tf.BPTF(n_components=2, max_iter=20).fit(tensor)
    >>> surprise(model, tensor, tail="upper", top=3)["p"].is_monotonic_increasing
    True
    """
    import pandas as pd

    check_parameters(
        {"tail": tail, "top": top, "level": level},
        {"tail": one_of("upper", "lower", "both"), "top": integer(1) | NONE, "level": number(0, 1)},
    )
    checked_model(model)
    if taken := [name for name in checked_tensor(tensor).names if name in COLUMNS]:
        raise ParameterError(
            f"an axis is called {taken[0]!r}, as a column of the result is; rename it."
        )
    positions = cell_positions(model.axes_, tensor)
    log_p_N, more_N = _in_parts(
        model, positions, lambda found, part: _log_p(found, tensor.counts[part], tail)
    )
    order = np.argsort(log_p_N, kind="stable")[:top]
    expected = _in_parts(
        model, positions[order], lambda found, _: (found.mean(), *found.interval(level))
    )
    labels = [
        column.take(pa.array(order)).dictionary_decode().to_pandas()
        for column in label_columns(tensor)
    ]
    log_p_N, sides = log_p_N[order], np.where(more_N[order], "more", "fewer")
    p_N = np.exp(log_p_N)
    chances = (p_N, log_p_N / np.log(10), p_N * tensor.nnz)
    values = [*labels, tensor.counts[order], *expected, sides, *chances]
    return pd.DataFrame(dict(zip([*tensor.names, *COLUMNS], values, strict=True)))


def _in_parts(
    model: CountModel,
    positions: npt.NDArray[np.int32],
    ask: Callable[[CountDistribution, slice], tuple[npt.NDArray[Any], ...]],
) -> list[npt.NDArray[Any]]:
    """Ask for arrays of the cells' predictive distributions, some cells at a time."""
    starts = range(0, max(1, len(positions)), CELLS_AT_ONCE)
    parts = [slice(start, start + CELLS_AT_ONCE) for start in starts]
    found = [ask(model.predictive(positions[part]), part) for part in parts]
    return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]


def _log_p(
    predictive: CountDistribution, counts_N: Ints, tail: Tail
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the log p-values of cells, and whether they have more than expected."""
    if tail == "upper":
        return predictive.log_at_least(counts_N), np.ones(len(counts_N), bool)
    if tail == "lower":
        return predictive.log_at_most(counts_N), np.zeros(len(counts_N), bool)
    log_half_N = predictive.log_pmf(counts_N) - np.log(2)
    upper_N = _without(predictive.log_at_least(counts_N), log_half_N)
    lower_N = _without(predictive.log_at_most(counts_N), log_half_N)
    two_sided_N = np.minimum(np.log(2) + np.minimum(upper_N, lower_N), 0.0)
    return two_sided_N, upper_N <= lower_N


def _without(log_tail_N: Floats, log_half_N: Floats) -> Floats:
    """Take half of the count's own probability out of a tail; at least that half is left."""
    share_N = np.exp(np.minimum(log_half_N - log_tail_N, -np.log(2)))
    return np.asarray(log_tail_N + np.log1p(-share_N))
