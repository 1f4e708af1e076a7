"""The kernels as the rest of the library calls them, by any back-end.

``backend="numba"`` is compiled, ``"numpy"`` the reference, ``"torch"`` runs on the device in use
(:mod:`tallyfold.kernels.device`). ``"auto"`` takes the reference for small problems, where it
finishes before compiled kernels are loaded, and the compiled form elsewhere; on a device other than
the CPU it takes torch. Neither numba nor torch is imported before a kernel of theirs is called.
"""

from typing import Any

from tallyfold.errors import BackendError, ParameterError
from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.backends import kernels_of
from tallyfold.kernels.layout import AxisLayout

SMALL_WORK = 50_000
"""Cells times components times axes below which ``"auto"`` means NumPy."""


def cell_rates(factors: Factors, indices_NM: Positions, *, backend: str = "auto") -> Floats:
    """Return the rate at each cell: the sum over components of the product over axes.

    Parameters
    ----------
    factors
        One (D, K) array per axis.
    indices_NM
        A cell's position on each axis; int32 in Fortran order is taken without a copy.

    Examples
    --------
    >>> import numpy as np
    >>> cell_rates([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])], np.array([[0, 0]]))
    array([11.])
    """
    run = _kernel("cell_rates", factors, len(indices_NM), backend)
    return run(factors, indices_NM)  # type: ignore[no-any-return]


def axis_sums(
    factors: Factors, layout: AxisLayout, weight_N: Floats, *, backend: str = "auto"
) -> Floats:
    """Return, per entity of the layout's axis, the sum of weight times the others' product.

    `weight_N` (any sign) is in the cells' original order, not the layout's.
    """
    run = _kernel("axis_sums", factors, len(layout.counts_N), backend)
    return run(factors, layout, weight_N)  # type: ignore[no-any-return]


def share_sums(
    factors: Factors, layout: AxisLayout, *, floor: float = 0.0, backend: str = "auto"
) -> Floats:
    """Return, per entity, the sum of count / rate times the others' product.

    This is CP-APR's Phi; own factor times it is the expected count allocated to a component.
    Rates below `floor` are taken as `floor`. A cell whose rate is exactly zero adds nothing
    unless there is a floor. Rates that would leave float64's range are handled in logarithms.
    """
    run = _kernel("share_sums", factors, len(layout.counts_N), backend)
    return run(factors, layout, floor)  # type: ignore[no-any-return]


def bptf_axis_sums(
    geo: Factors,
    mean: Factors,
    layout: AxisLayout,
    *,
    likelihood: str = "poisson",
    dispersion: float | None = None,
    backend: str = "auto",
) -> tuple[Floats, Floats]:
    """Return BPTF's two sums per entity of the layout's axis, from one pass over its cells.

    Parameters
    ----------
    geo, mean
        Geometric and arithmetic means of the factors, one (D, K) array per axis.
    layout
        The cells in the order of the axis to update.
    likelihood
        One of ``LIKELIHOODS``.
    dispersion
        The negative binomial's r.

    Returns
    -------
    tuple of arrays
        ``phi_DK``, the shares by `geo` as in :func:`share_sums` (prior shape + geo * phi is the
        new shape), and ``exposure_DK``, the sum of expected exposure times the product of the
        others' `mean` (prior rate + exposure is the new rate). Rates are kept within 1e-290 to
        1e290: a truncated likelihood's exposure grows as 1 / rate, its product with the rate
        tends to 1.
    """
    run = _kernel("bptf_axis_sums", geo, len(layout.counts_N), backend)
    return run(geo, mean, layout, likelihood, dispersion)  # type: ignore[no-any-return]


def cell_bound(
    geo: Factors,
    mean: Factors,
    indices_NM: Positions,
    counts_N: Ints,
    *,
    likelihood: str = "poisson",
    dispersion: float | None = None,
    backend: str = "auto",
) -> float:
    """Return the cells' part of the variational bound, including all constants.

    A cell's term is the log pmf of its count, with y ln(rate) taken at the geometric means'
    rate and all else at the arithmetic means'. For a negative binomial (`dispersion` is r) the
    cells' Gamma multipliers are integrated out.
    """
    run = _kernel("cell_bound", geo, len(counts_N), backend)
    return run(geo, mean, indices_NM, counts_N, likelihood, dispersion)  # type: ignore[no-any-return]


def allocate_axis(
    factors: Factors, layout: AxisLayout, seed: int, iteration: int, *, backend: str = "auto"
) -> Ints:
    """Split every count over components at random; return the sums per entity.

    A cell's allocation is multinomial with shares proportional to the product over axes. It
    depends on (seed, iteration, cell, factors) and the back-end alone: visiting another axis's
    layout, or using more threads, sums the very same draws.
    """
    if not (0 <= seed < 2**64 and 0 <= iteration < 2**32):
        raise ParameterError(
            "`seed` must be from 0 to 2**64 - 1 and `iteration` from 0 to 2**32 - 1; got "
            f"{seed} and {iteration}."
        )
    run = _kernel("allocate_axis", factors, len(layout.counts_N), backend)
    return run(factors, layout, seed, iteration)  # type: ignore[no-any-return]


def _kernel(name: str, factors: Factors, n_cells: int, backend: str) -> Any:
    """Return the implementation that the back-end asks for."""
    work = n_cells * len(factors) * factors[0].shape[1]
    module = kernels_of(backend, small=work < SMALL_WORK)
    if not hasattr(module, name):
        raise BackendError(
            f"{name!r} has no torch form, on any device: its random draws need numba or NumPy. Use "
            "device='cpu' and backend='auto', 'numba' or 'numpy'."
        )
    return getattr(module, name)
