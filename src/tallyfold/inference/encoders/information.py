"""How much cells really tell of a factor: the Fisher information behind its interval.

A mean-field posterior is too sure of itself. It counts an allocated count as seen although the
allocation is a guess, and a truncated count as if the zeros it never saw had been seen. The
information matrix of an entity's log factors, the other axes given, is

    J_kl = prior shape * (k = l) + sum_n share_nk share_nl var(score of n in its log rate)

and 1 / (J^-1)_kk is the shape of a Gamma with the spread of z_dk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tallyfold.inference.cells.parts import LARGEST_PART
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.derived_axis import DerivedAxis
from tallyfold.posterior.gamma_posterior import NO_LIMIT, GammaPosterior
from tallyfold.probability.counts import CountLikelihood

LEAST_RATE = 1e-12
MOST_NUMBERS, MOST_WORK = 2 * 10**7, 1e9
"""With more entries in all matrices, or more cells times squared components, components are taken
as known of one another."""
Information = Callable[[Floats], Floats]
"""What a cell tells of the logarithm of its rate, by the rate."""


def count_information(rate_N: Floats, truncated: bool, dispersion: float | None) -> Floats:
    """Return the information that a count holds of the logarithm of its rate.

    The score is linear in the count with slope r / (r + rate), so this is that slope squared times
    the variance of the count.
    """
    rate_N = np.maximum(rate_N, LEAST_RATE)
    excess = 0.0 if dispersion is None else 1 / dispersion
    variance_N = rate_N * (1 + rate_N * excess)
    slope_N = 1 / (1 + rate_N * excess)
    if truncated:
        log_zero_N = -rate_N if dispersion is None else -dispersion * np.log1p(rate_N * excess)
        seen_N = -np.expm1(log_zero_N)
        # E y^2 - (E y)^2 given y >= 1, without cancellation where almost nothing is seen
        variance_N = (variance_N - rate_N**2 * np.exp(log_zero_N) / seen_N) / seen_N
    return np.asarray(slope_N**2 * np.maximum(variance_N, 0.0))


def information_of(likelihood: CountLikelihood, dispersion: float | None) -> Information:
    """Return what counts of a likelihood tell; `dispersion` is the r that they are seen to have."""
    return partial(count_information, truncated=likelihood.truncated, dispersion=dispersion)


def occurrence_information(rate_N: Floats) -> Floats:
    """Return what cells that have a count tell, and with them the empty ones, of log rates.

    Whether there is a count, with the probability p = 1 - exp(-rate), holds the information
    rate^2 (1 - p) / p. That of all cells is a sum over those with a count, each divided by p.
    """
    rate_N = np.maximum(rate_N, LEAST_RATE)
    return np.asarray((rate_N / -np.expm1(-rate_N)) ** 2 * np.exp(-rate_N))


def axis_information(
    mean: Sequence[Floats],
    cells: TrainingCells,
    axis: int,
    weight_N: Floats,
    prior_shape: float,
    backend: str,
) -> Floats:
    """Return what an entity's cells tell of each of its log factors, the others unknown too.

    `weight_N` is the information of a cell over its squared rate. The matrix of an entity is the
    sum over its cells, the prior's on the diagonal; one over the diagonal of its inverse is what
    is known of one log factor while those of the other components vary with it.
    """
    own_DK = mean[axis]
    n_rows, n_components = own_DK.shape
    work = float(cells.n_cells) * n_components**2
    if n_rows * n_components**2 > MOST_NUMBERS or work > MOST_WORK:
        squares = [factor**2 for factor in mean]
        return squares[axis] * cells.axis_sums(squares, axis, weight_N, backend)
    matrix_DKK = np.empty((n_rows, n_components, n_components))
    others = [np.ones_like(f) if m == axis else f for m, f in enumerate(mean)]
    for k in range(n_components):
        column = [np.ascontiguousarray(factor[:, [k]]) for factor in others]
        product_N = kernels.cell_rates(column, cells.indices_NM, backend=backend)
        matrix_DKK[:, k] = cells.axis_sums(mean, axis, weight_N * product_N, backend)
    matrix_DKK *= own_DK[:, :, None] * own_DK[:, None, :]
    diagonal = np.arange(n_components)
    matrix_DKK[:, diagonal, diagonal] += prior_shape
    known_DK = 1 / np.diagonal(np.linalg.inv(matrix_DKK), axis1=1, axis2=2)
    return np.maximum(known_DK - prior_shape, 0.0)


def cells_information(
    means: Sequence[Floats],
    cells: TrainingCells,
    multiplier_N: Floats,
    information: Information,
    prior_shape: float,
    axes: Iterable[int],
    backend: str = "auto",
) -> tuple[Floats, dict[int, Floats]]:
    """Return what each cell tells of its log rate, and for some axes what cells tell of factors.

    `multiplier_N` are the cells' rates over those of the factors.
    """
    work = float(cells.n_cells) * means[0].shape[1] ** 2
    if cells.n_cells > LARGEST_PART and work > MOST_WORK:
        return _information_by_parts(means, cells, multiplier_N, information, axes, backend)
    rate_N = kernels.cell_rates(means, cells.indices_NM, backend=backend)
    fisher_N = information(rate_N * multiplier_N)
    weight_N = fisher_N / np.maximum(rate_N, LEAST_RATE) ** 2
    return fisher_N, {
        axis: axis_information(means, cells, axis, weight_N, prior_shape, backend) for axis in axes
    }


def _information_by_parts(
    means: Sequence[Floats],
    cells: TrainingCells,
    multiplier_N: Floats,
    information: Information,
    axes: Iterable[int],
    backend: str,
) -> tuple[Floats, dict[int, Floats]]:
    """Do the same for very many cells, some at a time; components are taken as known."""
    squares, fisher_N = [factor**2 for factor in means], np.empty(len(cells))
    found = {axis: np.zeros_like(squares[axis]) for axis in axes}
    for start in range(0, len(cells), LARGEST_PART):
        part = slice(start, start + LARGEST_PART)
        own = TrainingCells.of(
            cells.shape, np.asfortranarray(cells.indices_NM[part]), cells.counts_N[part]
        )
        rate_C = kernels.cell_rates(means, own.indices_NM, backend=backend)
        fisher_N[part] = information(rate_C * multiplier_N[part])
        weight_C = fisher_N[part] / np.maximum(rate_C, LEAST_RATE) ** 2
        for axis, sums_DK in found.items():
            sums_DK += own.axis_sums(squares, axis, weight_C, backend)
            own.forget_layouts()
    return fisher_N, {
        axis: squares[axis] * cells.total(axis, sums_DK) for axis, sums_DK in found.items()
    }


def with_widths(
    posterior: GammaPosterior,
    cells: TrainingCells,
    information: Information,
    prior_shape: float,
    backend: str = "auto",
) -> GammaPosterior:
    """Return a completed posterior whose intervals are as wide as the information demands."""
    multiplier_N = np.broadcast_to(1.0, len(cells))  # no array of all cells for nothing
    if posterior.derived:
        multiplier_N = posterior.multipliers(cells.indices_NM)
    means = [table.rows(slice(-1)).mean_DK for table in posterior.axes]
    fisher_N, by_axis = cells_information(
        means, cells, multiplier_N, information, prior_shape, range(len(means)), backend
    )
    tables = []
    for axis, table in enumerate(posterior.axes):
        widest_DK = np.where(cells.seen[axis][:, None], prior_shape + by_axis[axis], NO_LIMIT)
        unseen_1K = np.full((1, widest_DK.shape[1]), NO_LIMIT)
        tables.append(replace(table, widest_DK=np.vstack([widest_DK, unseen_1K])))
    derived = tuple(_derived_widths(each, cells, fisher_N) for each in posterior.derived)
    return GammaPosterior(tuple(tables), derived)


def _derived_widths(derived: DerivedAxis, cells: TrainingCells, fisher_N: Floats) -> DerivedAxis:
    row_N, n_rows = derived.rows_of(cells.indices_NM), len(derived.keys_P) + 1
    fisher_P1 = cells.group.all_reduce(np.bincount(row_N, fisher_N, minlength=n_rows))
    times_P1 = cells.group.all_reduce(np.bincount(row_N, minlength=n_rows) * 1.0)
    prior = derived.table.shape_DK[-1]
    table = replace(derived.table, widest_DK=prior + fisher_P1[:, None])
    return replace(derived, table=table).with_typical(times_P1)
