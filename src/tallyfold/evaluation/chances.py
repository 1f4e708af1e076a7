"""How many cells of a part a model expects to be as unlikely as one: with a count, or empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.models.base import CountModel
from tallyfold.models.cells import Unknown, unknown_by_axis
from tallyfold.models.scoring import log_zeros

Cells = Positions

TINY = 1e-300
LEAST_DRAWS = 100
"""Shares of fewer draws than this are not counted, but continued from larger ones."""


@dataclass(frozen=True)
class Occurrences:
    """Whether cells of a tensor have a count, to a model: x, where P(Y = 0) = exp(-x).

    Attributes
    ----------
    model
        A fitted model whose zeros are observed.
    tensor
        The tensor.
    unknown
        Labels that the model does not know: ``"prior"`` takes them as an average entity,
        ``"error"`` gives their cells no chance of a count, so that they are never missed. By
        axis, too.
    """

    model: CountModel
    tensor: CountTensor
    unknown: Unknown

    def at(self, cells_DM: Cells) -> Floats:
        """Return x for cells, by their positions on the tensor's axes."""
        x_D = -log_zeros(self.model, self.tensor, cells_DM, "prior")
        choices = unknown_by_axis(self.model.axes_, self.unknown)
        for axis, column_D in zip(self.tensor.axes, cells_DM.T, strict=True):
            if choices[axis.name] == "error":
                x_D = np.where((self.places(axis.name) >= 0)[column_D], x_D, 0.0)
        return np.asarray(x_D)

    def places(self, name: str) -> Positions:
        """Return where the tensor's labels of an axis stand on the model's; -1: nowhere."""
        own = next(axis for axis in self.model.axes_ if axis.name == name)
        return np.asarray(own.find(self.tensor.axis(name).labels)[0])


@dataclass(frozen=True)
class Chances:
    """What a model expects of all cells of a part, the least probable counts first.

    Attributes
    ----------
    x_C
        The distinct values of x, where P(Y = 0) = exp(-x), ascending.
    counted_C
        The expected number of cells with a count whose x is at most that.
    empty_C
        The expected number of empty cells whose x is at least that.

    Examples
    --------
    >>> x = -np.log1p(-np.array([0.1, 0.5, 0.5]))  # probabilities of a count
    >>> chances = Chances.of(x, np.array([10.0, 1.0, 1.0]))
    >>> chances.counted(x[:2]).round(3), chances.empty(x[1:2]).round(3)
    (array([0.5, 1. ]), array([1.]))
    """

    x_C: Floats
    counted_C: Floats
    empty_C: Floats

    @classmethod
    def of(cls, x_D: Floats, weight_D: Floats) -> Chances:
        """Sum over cells, given how many cells each stands for."""
        order = np.argsort(x_D, kind="stable")
        x_D, weight_D = x_D[order], weight_D[order]
        counted_D = np.cumsum(-np.expm1(-x_D) * weight_D)
        empty_D = np.cumsum((np.exp(-x_D) * weight_D)[::-1])[::-1]
        first_D = np.diff(x_D, prepend=-1.0) > 0
        last_D = np.append(first_D[1:], True)
        return cls(x_D[first_D], counted_D[last_D], empty_D[first_D])

    def counted(self, x_N: Floats) -> Floats:
        """Return the share of all counts that come where a count is no more probable."""
        place_N = np.searchsorted(self.x_C, x_N, "right") - 1
        share_N = self.counted_C[np.maximum(place_N, 0)] / max(self.counted_C[-1], TINY)
        return np.asarray(np.maximum(share_N, TINY))

    def empty(self, x_N: Floats) -> Floats:
        """Return how many cells are empty although a count is no less probable in them."""
        place_N = np.searchsorted(self.x_C, x_N, "left")
        return np.asarray(np.maximum(np.append(self.empty_C, 0.0)[place_N], TINY))

    def either(self, log_p_N: Floats) -> Floats:
        """Return the log p-values of the smaller of two p-values, one of which is `counted`.

        p + F(p), the sum of both chances, where F is the distribution of `counted` over cells with
        a count: that is p where all probabilities are the same, and else about 2 p.
        """
        share_C = self.counted_C / max(self.counted_C[-1], TINY)
        p_N = np.exp(log_p_N)
        reached_N = np.append(0.0, share_C)[np.searchsorted(share_C, p_N, "right")]
        both_N = np.log(np.maximum(p_N + reached_N, TINY))
        return np.where(reached_N > 0, np.minimum(both_N, 0.0), log_p_N)


@dataclass(frozen=True)
class DrawnShares:
    """How many counts are as unlikely, by draws: p-values of counts are steps, not uniform.

    Attributes
    ----------
    log_p_S
        The log p-values of counts drawn from the model, in ascending order.

    Examples
    --------
    >>> drawn = DrawnShares.of(np.log(np.repeat([0.04, 0.9], [3_000, 97_000])))
    >>> np.exp(drawn.at(np.log([0.04, 0.9, 0.004]))).round(4)
    array([0.03 , 1.   , 0.003])
    """

    log_p_S: Floats

    @classmethod
    def of(cls, log_p_S: Floats) -> DrawnShares:
        """Sort the draws; equal p-values may differ by rounding."""
        return cls(np.sort(log_p_S) - 1e-9)

    def at(self, log_p_N: Floats) -> Floats:
        """Return the logarithms of the shares of draws with p-values no larger.

        Below the p-values that enough draws reach, shares are in proportion to p.
        """
        n_draws = len(self.log_p_S)
        least = self.log_p_S[min(LEAST_DRAWS, n_draws) - 1] + 1e-9
        inside_N = np.maximum(log_p_N, least)
        reached_N = np.searchsorted(self.log_p_S, inside_N, "right")
        return np.asarray(np.minimum(log_p_N - inside_N + np.log(reached_N / n_draws), 0.0))
