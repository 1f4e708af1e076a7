"""Counts from factors: exact Poisson draws that never visit an empty tensor cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.cells import Cells, merge_cells
from tallyfold.errors import ParameterError

FloatArray = npt.NDArray[np.float64]
Factors = tuple[FloatArray, ...]
Positions = Sequence[npt.NDArray[Any]] | npt.NDArray[Any]
RateSample = list[tuple[FloatArray, FloatArray | float]]

MAX_DRAWS = 2 * 10**8
"""The most events, or cells where these are fewer, that one simulation may draw."""
EXACT_CELLS = 2 * 10**7
"""Up to so many cells the expected density is exact; beyond, it is estimated from a sample."""
SAMPLED_CELLS = 10**6
EVENT_COST = 4
"""Drawing one event takes about as long as drawing the counts of so many cells."""
_BLOCK = 2**20
_EVENTS_AT_ONCE = 2**22
_MOST_STEPS = 60


def draw_cells(factors: Factors, rng: np.random.Generator) -> Cells:
    """Draw the counts cell by cell or event by event, whichever is less work."""
    events, cells = float(_component_totals(factors).sum()), math.prod(map(len, factors))
    if not min(events, cells) <= MAX_DRAWS or events > 2**53:
        raise ParameterError(
            f"the simulation expects {events:.3g} events in {cells:.3g} cells; it draws at most "
            f"{MAX_DRAWS:.0e}. Ask for a lower density (`density=`), or a smaller shape."
        )
    return _by_cells(factors, rng) if events * EVENT_COST > cells else _by_events(factors, rng)


def _by_cells(factors: Factors, rng: np.random.Generator) -> Cells:
    """Draw the count of every cell, block by block, and keep those above zero."""
    shape = tuple(map(len, factors))
    indices, counts = [], []
    start = 0
    for rates in _rate_blocks(factors):
        drawn = rng.poisson(rates)
        filled = np.flatnonzero(drawn)
        indices.append(np.array(np.unravel_index(start + filled, shape), np.int32))
        counts.append(drawn[filled])
        start += len(rates)
    return Cells(np.concatenate(indices, axis=1).T, np.concatenate(counts), 0)


def _by_events(factors: Factors, rng: np.random.Generator) -> Cells:
    """Draw the events of each component and put each in a cell.

    A sum of independent Poisson counts is Poisson, so the tensor is the sum of its components. In
    each the total is Poisson and, since its rates are a product, an event's position on one axis
    is independent of that on the others. The result is exact, and no empty cell is ever visited.
    """
    shape = tuple(map(len, factors))
    totals = rng.poisson(_component_totals(factors))
    parts = [
        merge_cells(
            _event_positions(factors, k, min(total - done, _EVENTS_AT_ONCE), rng), None, shape
        )
        for k, total in enumerate(totals.tolist())
        for done in range(0, max(total, 1), _EVENTS_AT_ONCE)
    ]
    positions = np.concatenate([part.indices_NM for part in parts])
    counts = np.concatenate([part.counts_N for part in parts])
    return merge_cells(list(positions.T), counts, shape)


def _event_positions(
    factors: Factors, component: int, number: int, rng: np.random.Generator
) -> list[npt.NDArray[np.int32]]:
    """Draw the positions, axis by axis, of a number of events of one component."""
    columns = [factor[:, component] for factor in factors]
    return [
        rng.choice(len(column), number, p=column / column.sum()).astype(np.int32)
        for column in columns
    ]


def _component_totals(factors: Factors) -> FloatArray:
    """Return for each component the sum of its rates over all cells."""
    with np.errstate(over="ignore"):  # an infinite total is refused later, with an explanation
        totals_K: FloatArray = np.prod([factor.sum(axis=0) for factor in factors], axis=0)
    return totals_K


def _products_at(factors: Sequence[FloatArray], positions: Positions) -> FloatArray:
    """Return cells x components: the product over the axes of the factors at the positions."""
    products_NK: FloatArray = factors[0][positions[0]]
    for factor, position_N in zip(factors[1:], positions[1:], strict=True):
        products_NK *= factor[position_N]
    return products_NK


def rates_at(factors: Factors, positions: Positions) -> FloatArray:
    """Return the rates at cells given by their positions on each axis."""
    rates_N: FloatArray = _products_at(factors, positions).sum(axis=1)
    return rates_N


def _rate_blocks(factors: Factors) -> Iterator[FloatArray]:
    """Yield the rates of all cells in order, last axis fastest, about a million at a time."""
    *leading, last = factors
    shape = tuple(map(len, leading))
    rows = math.prod(shape)
    step = max(1, _BLOCK // len(last))
    for start in range(0, rows, step):
        positions = np.unravel_index(np.arange(start, min(start + step, rows)), shape)
        yield (_products_at(leading, positions) @ last.T).ravel()


def thinning_constant(factors: Factors, density: float, rng: np.random.Generator) -> float:
    """Find the constant that, put on all rates, makes the expected density the one wanted."""
    from scipy.optimize import brentq

    sample = _rate_sample(factors, rng)

    def gap(log_constant: float) -> float:
        return _expected_density(sample, math.exp(log_constant)) - density

    mean_rate = float(_component_totals(factors).sum()) / math.prod(map(len, factors))
    low = math.log(density / mean_rate) - 1e-6  # 1 - exp(-rate) <= rate: the density is too low
    high, highest = low + 1, min(low + _MOST_STEPS, 700.0)
    while high < highest and gap(high) < 0:
        high += 1
    if high >= highest:
        raise ParameterError(
            f"`density` {density} cannot be reached: too many rates are so close to zero that no "
            "constant brings them up. Ask for a lower density, or a larger `prior_shape`."
        )
    return math.exp(brentq(gap, low, high, xtol=1e-8))


def _rate_sample(factors: Factors, rng: np.random.Generator) -> RateSample:
    """Return rates with weights such that a weighted sum is the mean over all cells.

    Among many cells those with a high rate are sampled more often and weigh less: next to uniform
    sampling that is far more exact, as most of a sparse tensor's cells have next to no rate.
    """
    n_cells = math.prod(map(len, factors))
    if n_cells <= EXACT_CELLS:
        return [(rates, 1 / n_cells) for rates in _rate_blocks(factors)]
    totals = _component_totals(factors)
    numbers = rng.multinomial(SAMPLED_CELLS, totals / totals.sum()).tolist()
    drawn = [_event_positions(factors, k, number, rng) for k, number in enumerate(numbers)]
    rates = rates_at(factors, np.concatenate(drawn, axis=1))
    return [(rates, float(totals.sum()) / n_cells / len(rates) / rates)]


def _expected_density(sample: RateSample, constant: float) -> float:
    """Return the expected share of cells with a count when all rates are multiplied."""
    return sum(float(np.sum(-np.expm1(-constant * rates) * weight)) for rates, weight in sample)
