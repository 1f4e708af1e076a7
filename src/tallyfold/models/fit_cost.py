"""What a fit will cost, roughly, before it is begun."""

from __future__ import annotations

from typing import NamedTuple

from tallyfold.data.store import Store
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.head.cells import MOST_CELLS
from tallyfold.models.parameters import check_parameters, integer

LEAST_SECONDS, MOST_SECONDS = 1.0, 4.0
LEAST_SECONDS_PER_CELL, MOST_SECONDS_PER_CELL = 80e-6, 260e-6
"""Of VAE-BPTF with 10 components on one core; ``benchmarks/bench_fit_cost.py`` checks them."""
SLOWER_PER_COMPONENT = 0.01
"""Sweeps take longer with more components, the training of the encoders hardly."""

BYTES_PER_CELL, BYTES_PER_CELL_AND_COMPONENT = 190, 8
BYTES_PER_FACTOR = 160
"""Resident memory at its peak beside the tensor's own, measured with 10 and 40 components."""
BYTES_PER_OTHER_CELL = 150
"""Of cells that no network is trained on, where there are very many (``docs/scale.md``)."""


class FitCost(NamedTuple):
    """The cost of a fit of VAE-BPTF on one core, compiling left out.

    Attributes
    ----------
    least_seconds, most_seconds
        Between which the time most likely is.
    bytes
        Memory beside the tensor's own.
    """

    least_seconds: float
    most_seconds: float
    bytes: int


def fit_cost(tensor: CountTensor | Store, n_components: int = 10) -> FitCost:
    """Estimate what a fit of VAE-BPTF with its defaults will take.

    An order of magnitude: how many iterations a fit needs depends on the data, and machines
    differ.

    Parameters
    ----------
    tensor
        What is to be fitted.
    n_components
        How many components.

    Examples
    --------
    >>> import tallyfold as tf
    >>> cost = fit_cost(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> cost.least_seconds < cost.most_seconds
    True
    """
    check_parameters({"n_components": n_components}, {"n_components": integer(1)})
    slower = 1 + SLOWER_PER_COMPONENT * (n_components - 10)
    trained = min(tensor.nnz, MOST_CELLS)
    per_cell = BYTES_PER_CELL + BYTES_PER_CELL_AND_COMPONENT * n_components
    return FitCost(
        LEAST_SECONDS + tensor.nnz * LEAST_SECONDS_PER_CELL * slower,
        MOST_SECONDS + tensor.nnz * MOST_SECONDS_PER_CELL * slower,
        trained * per_cell
        + (tensor.nnz - trained) * min(per_cell, BYTES_PER_OTHER_CELL)
        + sum(tensor.shape) * n_components * BYTES_PER_FACTOR,
    )
