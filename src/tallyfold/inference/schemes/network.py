"""A feed-forward network on one embedding per axis, trained by Adam: one epoch is one step.

A cell's input is the embeddings of its entities side by side; hidden layers of ReLU units follow,
then one number. That number is the prediction (squared loss), or a softplus makes a rate of it
(Poisson loss). Where zeros are observed, each epoch draws fresh empty cells among the others.

Torch is imported by the functions that train. Predicting needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.adam import Adam
from tallyfold.kernels.arrays import Array, Floats, Ints, Mask, Whole
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability.counts import CountLikelihood

if TYPE_CHECKING:
    import torch

Arrays = Mapping[str, Array]
Cells = Whole

EMBEDDING_SD = 0.1
LEAST_RATE = 1e-6
PREDICT_AT_A_TIME = 1 << 16
ROUNDS = 50
"""How often draws that hit a non-zero are drawn again before they are given up."""


@dataclass
class NetworkStep:
    """One epoch over the cells, in mini-batches; see the module's text.

    Parameters
    ----------
    cells, held_out
        What is fitted to, and what to score after each epoch.
    likelihood
        The distribution of a count given its rate; None for a squared loss.
    negatives
        How many empty cells to draw per non-zero, each epoch anew.
    embedding_size, hidden_layers, hidden_units
        The network's shape.
    learning_rate, l2, batch_size
        The length of Adam's steps, the weight of the sum of squared parameters beside the sum of
        all cells' losses, and the cells per step.
    seed
        Of the start, the order of the cells and the empty cells drawn.
    """

    cells: TrainingCells
    held_out: CountTensor | None
    likelihood: CountLikelihood | None
    negatives: int
    embedding_size: int = 20
    hidden_layers: int = 2
    hidden_units: int = 50
    learning_rate: float = 1e-3
    l2: float = 1e-3
    batch_size: int = 4096
    seed: int = 0

    def start(self, previous: object = None) -> Adam:
        """Draw small parameters; the first prediction is about the mean count."""
        rng = np.random.default_rng([self.seed, 0])
        drawn: dict[str, Floats] = {}
        for axis, size in enumerate(self.cells.shape):
            drawn[f"embedding_{axis}"] = rng.normal(0, EMBEDDING_SD, (size, self.embedding_size))
        inputs = self.embedding_size * self.cells.n_axes
        widths = [inputs, *[self.hidden_units] * self.hidden_layers, 1]
        for layer, (wide, narrow) in enumerate(pairwise(widths)):
            drawn[f"weight_{layer}"] = rng.normal(0, np.sqrt(2 / wide), (wide, narrow))
            drawn[f"bias_{layer}"] = np.zeros(narrow)
        mean = float(self.cells.counts_N.mean()) / (1 + self.negatives)
        if self.likelihood is not None:
            mean = float(mean + np.log(-np.expm1(-mean)))  # the softplus of this is the mean
        drawn[f"bias_{self.hidden_layers}"] += mean
        return Adam.fresh({name: value.astype(np.float32) for name, value in drawn.items()})

    def advance(self, state: Adam, iteration: int) -> tuple[Adam, float]:
        """Go through all cells once, in random order; return their mean loss on the way.

        Torch works on one thread meanwhile. Batches are small, the result does not depend on the
        number of threads, and on a busy machine threads wait ten times longer than they work.
        """
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        with threadpool_limits(1, user_api="openmp"):  # of this thread alone
            return self._epoch(state, iteration)

    def _epoch(self, state: Adam, iteration: int) -> tuple[Adam, float]:
        import torch

        rng = np.random.default_rng([self.seed, 2, iteration])
        cells_NM, counts_N = self._with_zeros(self.cells.indices_NM, self.cells.counts_N, rng)
        values = {n: torch.tensor(array, requires_grad=True) for n, array in state.values.items()}
        optimiser = self._optimiser(values, state, len(counts_N))
        order_N, total = rng.permutation(len(counts_N)), 0.0
        for begin in range(0, len(order_N), self.batch_size):
            rows = order_N[begin : begin + self.batch_size]
            optimiser.zero_grad()
            loss = self.batch_loss(values, cells_NM[rows], counts_N[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        return _state_of(values, optimiser), total / len(order_N)

    def batch_loss(
        self, values: Mapping[str, torch.Tensor], cells_NM: Cells, counts_N: Ints
    ) -> torch.Tensor:
        """Return the mean loss of cells: squared errors, or minus the log pmf."""
        import torch
        from torch.nn import functional

        columns = torch.as_tensor(cells_NM.astype(np.int64))
        embedded = [
            functional.embedding(columns[:, axis], values[f"embedding_{axis}"])
            for axis in range(self.cells.n_axes)
        ]
        output = forward(torch.cat(embedded, dim=1), values)
        counts = torch.tensor(counts_N, dtype=output.dtype)
        if self.likelihood is None:
            return torch.mean((output - counts) ** 2)
        rate = functional.softplus(output) + LEAST_RATE
        loss = rate - counts * torch.log(rate) + torch.lgamma(counts + 1)
        if self.likelihood.truncated:
            loss = loss + torch.log(-torch.expm1(-rate))
        return loss.mean()

    def validation_score(self, state: Adam) -> float | None:
        """Return minus the mean squared error, or the mean log pmf, of the validation cells."""
        if self._validation_cells is None:
            return None
        cells_NM, counts_N = self._validation_cells
        network = network_of(state, self.cells.seen, self.negatives)
        rate_N = rates(network, cells_NM, self.likelihood)
        if self.likelihood is None:
            return -float(np.mean((rate_N - counts_N) ** 2))
        return float(np.mean(self.likelihood.log_pmf(counts_N, rate_N)))

    def _optimiser(
        self, values: dict[str, torch.Tensor], state: Adam, n_cells: int
    ) -> torch.optim.Adam:
        """Return Adam as the last epoch left it."""
        import torch

        decay = 2 * self.l2 / n_cells  # a batch's loss is a mean, the penalty is beside a sum
        optimiser = torch.optim.Adam(
            values.values(), self.learning_rate, weight_decay=decay, fused=True
        )
        for name, value in values.items():
            optimiser.state[value] = {
                "exp_avg": torch.tensor(state.first[name]),
                "exp_avg_sq": torch.tensor(state.second[name]),
                "step": torch.tensor(float(state.steps)),
            }
        return optimiser

    def _with_zeros(
        self, cells_NM: Cells, counts_N: Ints, rng: np.random.Generator
    ) -> tuple[Cells, Ints]:
        """Add `negatives` empty cells per cell given."""
        if not self.negatives:
            return cells_NM, counts_N
        wanted = self.negatives * len(counts_N)
        empty_NM = draw_empty(self.cells.shape, self._known_keys, wanted, rng)
        zeros_N = np.zeros(len(empty_NM), np.int64)
        return np.concatenate([cells_NM, empty_NM]), np.concatenate([counts_N, zeros_N])

    @cached_property
    def _known_keys(self) -> npt.NDArray[np.uint64]:
        """The non-zero cells, those held out among them: none of these may be taken for a zero."""
        known = [self.cells.indices_NM]
        if self.held_out is not None:
            known.append(self.held_out.indices)
        return np.sort(cell_keys(np.concatenate(known)))

    @cached_property
    def _validation_cells(self) -> tuple[Cells, Ints] | None:
        if self.held_out is None:
            return None
        rng = np.random.default_rng([self.seed, 3])
        return self._with_zeros(self.held_out.indices, self.held_out.counts, rng)


def forward(signal: Any, parameters: Mapping[str, Any]) -> Any:
    """Send embeddings through the layers; NumPy arrays and torch tensors alike."""
    last = sum(name.startswith("weight_") for name in parameters) - 1
    for layer in range(last + 1):
        signal = signal @ parameters[f"weight_{layer}"] + parameters[f"bias_{layer}"]
        if layer < last:
            signal = signal * (signal > 0)
    return signal[:, 0]


def rates(network: Arrays, cells_NM: Cells, likelihood: CountLikelihood | None) -> Floats:
    """Return the predictions for cells; position -1 is the last row, an average entity.

    Computed in double and rounded to single precision: the order in which a matrix product adds
    up depends on how many cells there are, and this hides it.
    """
    double = {name: array.astype(np.float64) for name, array in network.items()}
    tables = [double[f"embedding_{axis}"] for axis in range(cells_NM.shape[1])]
    output_N = np.empty(len(cells_NM), np.float32)
    for begin in range(0, len(cells_NM), PREDICT_AT_A_TIME):
        part = slice(begin, begin + PREDICT_AT_A_TIME)
        rows = [table[column] for table, column in zip(tables, cells_NM[part].T, strict=True)]
        output_N[part] = forward(np.concatenate(rows, axis=1), double)
    if likelihood is None:
        return np.maximum(output_N.astype(np.float64), 0.0)
    return np.asarray(np.logaddexp(0.0, output_N.astype(np.float64)) + LEAST_RATE)


def network_of(state: Adam, seen: Sequence[Mask], negatives: int) -> dict[str, Array]:
    """Return the parameters; embeddings never trained, and one more, are the mean of the others."""
    network: dict[str, Array] = dict(state.values)
    for axis, seen_D in enumerate(seen):
        trained_D = seen_D | (negatives > 0)  # empty cells are drawn among all entities
        table = mean_over_seen(network[f"embedding_{axis}"].astype(np.float64), trained_D)
        network[f"embedding_{axis}"] = table.astype(np.float32)
    return network


def cell_keys(cells_NM: Cells) -> npt.NDArray[np.uint64]:
    """Return one number per cell, the same for the same cell.

    Sums wrap around at 2 ** 64. Should two cells share a number, an empty cell is taken for a
    non-zero one and not drawn; never the other way round.
    """
    keys_N, odd = np.zeros(len(cells_NM), np.uint64), 1
    for column_N in cells_NM.T:
        odd = odd * 0x9E3779B97F4A7C15 % 2**64
        keys_N += column_N.astype(np.uint64) * np.uint64(odd)
    return keys_N


def draw_empty(
    shape: Sequence[int],
    known_keys: npt.NDArray[np.uint64],
    n: int,
    rng: np.random.Generator,
) -> Cells:
    """Draw cells that are not known, with replacement; fewer than n if hardly any are empty."""
    found = [np.empty((0, len(shape)), np.int32)]
    for _ in range(ROUNDS):
        wanted = n - sum(len(cells_NM) for cells_NM in found)
        if wanted == 0:
            break
        drawn_NM = np.stack([rng.integers(0, size, wanted, np.int32) for size in shape], axis=1)
        keys_N = cell_keys(drawn_NM)
        place_N = np.minimum(np.searchsorted(known_keys, keys_N), len(known_keys) - 1)
        found.append(drawn_NM[known_keys[place_N] != keys_N])
    return np.concatenate(found)


def _state_of(values: dict[str, torch.Tensor], optimiser: torch.optim.Adam) -> Adam:
    """Return parameters and Adam's running means as arrays."""
    kept = {name: optimiser.state[value] for name, value in values.items()}
    return Adam(
        {name: value.detach().numpy() for name, value in values.items()},
        {name: each["exp_avg"].numpy() for name, each in kept.items()},
        {name: each["exp_avg_sq"].numpy() for name, each in kept.items()},
        int(next(iter(kept.values()))["step"]),
    )
