"""What draws of the factors say of counts, in the groups that ArviZ knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.models.cells import cell_positions
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.factors import rates_at

if TYPE_CHECKING:
    import xarray as xr

MOST_NUMBERS = 10**8
"""Draws times cells: a gigabyte in each group."""


def with_count_groups(
    tree: xr.DataTree, fitted: Fitted, tensor: CountTensor, n_draws: int | None, seed: int
) -> xr.DataTree:
    """Add the groups observed_data, log_likelihood and posterior_predictive to draws."""
    import xarray as xr

    likelihood, factors = fitted.likelihood, fitted.factors
    by_rates = fitted.head is None and fitted.occurrence is None and not fitted.others
    if likelihood is None or factors is None or not by_rates:
        raise ParameterError(
            "`tensor` needs a model whose counts follow the rates of its factors, with a "
            "likelihood: such as GibbsBPTF or BPTF, and amount='negative-binomial'. Leave it out."
        )
    stacks = factors.chains(n_draws, seed)
    shape = stacks[0].shape[:2]
    if shape[0] * shape[1] * tensor.nnz > MOST_NUMBERS:
        raise ParameterError(
            f"{shape[0] * shape[1]:,} draws of {tensor.nnz:,} cells are more than "
            f"{MOST_NUMBERS:,} numbers. Choose fewer n_draws=, or cells: tf.subsample(tensor, 0.1)."
        )
    positions_NM = cell_positions(fitted.axes, tensor)
    log_CSN = np.empty((*shape, tensor.nnz))
    drawn_CSN = np.empty((*shape, tensor.nnz), np.int64)
    rng = np.random.default_rng([seed, 1])
    for draw in np.ndindex(shape):
        rate_N = rates_at([stack[draw] for stack in stacks], positions_NM)
        log_CSN[draw] = likelihood.log_pmf(tensor.counts, rate_N, fitted.dispersion)
        drawn_CSN[draw] = likelihood.sample(rng, rate_N, fitted.dispersion)
    labels: dict[str, Any] = {
        axis.name: ("cell", np.asarray(axis.labels.to_pandas())[tensor.indices[:, number]])
        for number, axis in enumerate(tensor.axes)
    }
    dims = ("chain", "draw", "cell")
    coords = {name: np.arange(length) for name, length in zip(dims, log_CSN.shape, strict=True)}
    groups: dict[str, dict[str, Any]] = {
        "observed_data": {"count": ("cell", tensor.counts)},
        "log_likelihood": {"count": (dims, log_CSN)},
        "posterior_predictive": {"count": (dims, drawn_CSN)},
    }
    for name, variables in groups.items():
        own = coords if name != "observed_data" else {"cell": coords["cell"]}
        tree[name] = xr.DataTree(xr.Dataset(variables, coords=own | labels))
    return tree
