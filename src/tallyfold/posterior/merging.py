"""Components put together: the one component whose margins are the sums of theirs.

A component is a product of a factor per axis, so the sum of two is none: it has rank two. What
comes nearest is the product that expects of every label of every axis what the components expect
of it together. It is the maximum-likelihood fit of one component to the sum of their rates (the
one of least Kullback-Leibler divergence), as the product of margins is for a table of counts.
Without a gate it has a closed form; with one, axes are fitted to their margins in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.posterior.gamma_posterior import (
    LEAST_RATE,
    MOST_RATE,
    GammaPosterior,
    GammaTable,
)

Groups = Sequence[Sequence[int]]
"""For each new component, the old ones that it is made of."""
SumsOf = Callable[[Sequence[Floats]], ClosedSums]
"""Sums over all cells of rates with these factors; a last row of each is left out of them."""

MOST_ROUNDS, CLOSE = 200, 1e-9


def combined_columns(value_DK: Floats, groups: Groups, merged: Sequence[Floats]) -> Floats:
    """Return the columns of new components: those of single ones as they are, and merged ones."""
    rest = iter(merged)
    columns = [value_DK[..., g[0]] if len(g) == 1 else next(rest) for g in groups]
    return np.ascontiguousarray(np.stack(columns, axis=-1))


def combined_values(values: Sequence[Floats], groups: Groups) -> list[Floats]:
    """Return plain factors of new components; there may be draws of them, each by itself.

    Examples
    --------
    >>> rows = np.array([[1.0, 3.0], [1.0, 1.0], [0.0, 0.0]])  # the last is a label never seen
    >>> first, second = combined_values([rows, rows], [[0, 1]])
    >>> first.ravel() / first[:-1].sum()  # margins 4 and 12 of 2 x 2 and 4 x 4
    array([0.7, 0.3, 0. ])
    >>> float((first[:-1].sum() * second[:-1].sum()).round(9))
    20.0
    """
    merged: list[list[Floats]] = [[] for _ in values]
    for group in groups:
        if len(group) > 1:
            for own, column in zip(merged, _merged(values, group), strict=True):
                own.append(column)
    pairs = zip(values, merged, strict=True)
    return [combined_columns(value_DK, groups, own) for value_DK, own in pairs]


def _merged(values: Sequence[Floats], group: Sequence[int]) -> list[Floats]:
    parts = [value_DK[..., list(group)] for value_DK in values]
    log_MK = np.stack([_log_totals(part_DK) for part_DK in parts])
    log_K = log_MK.sum(axis=0)
    share_K = np.exp(log_K - np.logaddexp.reduce(log_K, axis=-1, keepdims=True))
    size_M = _sizes(log_MK, share_K, np.logaddexp.reduce(log_K, axis=-1))
    return [
        (part_DK * (share_K * np.exp(-log_K_))[..., None, :]).sum(axis=-1) * size[..., None]
        for part_DK, log_K_, size in zip(parts, log_MK, size_M, strict=True)
    ]


def _log_totals(part_DK: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(part_DK[..., :-1, :].sum(axis=-2), 1e-300)))


def _sizes(log_MK: Floats, share_K: Floats, log_total: Floats) -> Floats:
    """Return what each axis's factors sum to: shared out as before, with the right product."""
    typical_M = (share_K * log_MK).sum(axis=-1)
    return np.asarray(np.exp(typical_M + (log_total - typical_M.sum(axis=0)) / len(log_MK)))


def combined_gammas(gammas: GammaPosterior, groups: Groups, sums_of: SumsOf) -> GammaPosterior:
    """Return the posterior of new components.

    The Gammas of a merged component have the means of the product that fits best, and the relative
    spread of the sums that these stand for.
    """
    merged: list[list[GammaTable]] = [[] for _ in gammas.axes]
    for group in groups:
        if len(group) > 1:
            for own, table in zip(merged, _merged_tables(gammas, group, sums_of), strict=True):
                own.append(table)
    tables = []
    for table, new in zip(gammas.axes, merged, strict=True):
        widest = None
        if table.widest_DK is not None:
            widest_new = [each.widest_DK for each in new]
            widest = combined_columns(table.widest_DK, groups, widest_new)  # type: ignore[arg-type]
        tables.append(
            GammaTable(
                combined_columns(table.shape_DK, groups, [each.shape_DK for each in new]),
                combined_columns(table.rate_DK, groups, [each.rate_DK for each in new]),
                widest,
            )
        )
    return GammaPosterior(tuple(tables), gammas.derived)


def _merged_tables(
    gammas: GammaPosterior, group: Sequence[int], sums_of: SumsOf
) -> list[GammaTable]:
    means = [mean_DK[:, list(group)] for mean_DK in gammas.means]
    sums = sums_of(means)
    margins = [mean_DK * sums.exposure(axis) for axis, mean_DK in enumerate(means)]
    columns = _fitted([margin_DK.sum(axis=1) for margin_DK in margins], sums_of)
    log_MK = np.stack([_log_totals(mean_DK) for mean_DK in means])
    total_K = np.maximum(sums.total(), 1e-300)
    log_own_M = np.stack([_log_totals(column_D[:, None])[0] for column_D in columns])
    size_M = _sizes(log_MK, total_K / total_K.sum(), log_own_M.sum())
    tables = []
    for axis, (column_D, margin_DK) in enumerate(zip(columns, margins, strict=True)):
        mean_D = np.maximum(column_D * (size_M[axis] / np.exp(log_own_M[axis])), 1e-200)
        table = gammas.axes[axis]
        shape_D = _summed_shape(margin_DK, table.shape_DK[:, list(group)])
        widest_D = None
        if table.widest_DK is not None:
            widest_D = _summed_shape(margin_DK, table.widened.shape_DK[:, list(group)])
        rate_D = np.clip(shape_D / mean_D, LEAST_RATE, MOST_RATE)
        tables.append(GammaTable(shape_D, rate_D, widest_D))
    return tables


def _summed_shape(part_DK: Floats, shape_DK: Floats) -> Floats:
    """Return the Gamma shapes of sums of independent Gammas with these means and shapes."""
    part_DK = part_DK / np.maximum(part_DK.max(axis=1, keepdims=True), 1e-300)
    spread_D = (part_DK**2 / shape_DK).sum(axis=1)
    sum_D, least_D = part_DK.sum(axis=1) ** 2, shape_DK.min(axis=1)
    return np.asarray(np.where(spread_D > 0, sum_D / np.maximum(spread_D, 1e-300), least_D))


def _fitted(margins: Sequence[Floats], sums_of: SumsOf) -> list[Floats]:
    """Return the product of a factor per axis that has these margins."""
    columns = [margin_D / max(float(margin_D[:-1].sum()), 1e-300) for margin_D in margins]
    for _ in range(MOST_ROUNDS):
        change = 0.0
        for axis, margin_D in enumerate(margins):
            exposure_D = sums_of([column_D[:, None] for column_D in columns]).exposure(axis)[:, 0]
            new_D = margin_D / np.maximum(exposure_D, 1e-300)
            scale = max(float(new_D[:-1].sum()), 1e-300)
            before_D = columns[axis] / max(float(columns[axis][:-1].sum()), 1e-300)
            change = max(change, float(np.abs(new_D / scale - before_D).max()))
            columns[axis] = new_D
        if change < CLOSE:
            break
    return columns
