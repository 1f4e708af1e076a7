"""Draw a CountTensor from known factors, to see what a model recovers of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import MAX_LABELS, Axis
from tallyfold.data.cells import Cells, checked_indices, merge_cells
from tallyfold.data.seeds import Seed, generator
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError

FloatArray = npt.NDArray[np.float64]
Factors = tuple[FloatArray, ...]
Positions = Sequence[npt.NDArray[Any]] | npt.NDArray[Any]
RateSample = list[tuple[FloatArray, FloatArray | float]]

MAX_DRAWS = 2 * 10**8
"""The most events, or cells where these are fewer, that one simulation may draw."""
EXACT_CELLS = 2 * 10**7
"""Up to this number of cells the expected density is exact; beyond, estimated from a sample."""
SAMPLED_CELLS = 10**6
EVENT_COST = 4
"""Drawing one event takes about as long as drawing the counts of this number of cells."""
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


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated tensor and the truth behind it.

    Parameters
    ----------
    tensor
        The counts: Poisson draws, the cells with a zero left out.
    factors
        For each axis, the true factors (labels x components).
    shapes, rates
        For each axis, the parameters of the Gamma distributions the factors are draws from.
    thinning
        The constant by which all rates were multiplied to reach the density asked for. The
        factors and the Gamma rates already contain it.

    Examples
    --------
    >>> truth = simulate((4, 3), n_components=2, random_state=1)
    >>> truth.rate([[0, 0], [3, 2]]).round(4).tolist() == [
    ...     round(float(truth.factors[0][i] @ truth.factors[1][j]), 4) for i, j in [(0, 0), (3, 2)]
    ... ]
    True
    """

    tensor: CountTensor
    factors: Factors = field(repr=False)
    shapes: Factors = field(repr=False)
    rates: Factors = field(repr=False)
    thinning: float

    def rate(self, indices: npt.ArrayLike) -> FloatArray:
        """Return the true Poisson rate at cells, given as one row of positions per cell."""
        positions = checked_indices(np.asarray(indices), self.tensor.axes)
        return rates_at(self.factors, positions.T)


class Simulator:
    """Draw factors from Gamma distributions, and a tensor of counts from the factors.

    Call it as ``simulate(shape, n_components)``; ``simulate.paper()`` is another recipe. Every
    label is on its axis, also one without any count. Memory goes with the number of events, not
    with the number of cells.

    Examples
    --------
    >>> truth = simulate((300, 200, 12), 5, density=0.01, axes=("user", "word", "month"))
    >>> truth.tensor.names, truth.tensor.shape
    (('user', 'word', 'month'), (300, 200, 12))
    >>> 0.009 < truth.tensor.density < 0.011
    True
    >>> truth.tensor.axes[2].label(7)
    'month-07'
    """

    def __call__(
        self,
        shape: Sequence[int],
        n_components: int,
        *,
        prior_shape: float = 0.3,
        prior_rate: float = 1.0,
        density: float | None = None,
        axes: Sequence[str] | None = None,
        random_state: Seed = 0,
    ) -> Simulation:
        """Simulate with all factors drawn from one Gamma distribution.

        Parameters
        ----------
        shape
            The size of each axis.
        n_components
            How many components the rates are the sum of.
        prior_shape, prior_rate
            Parameters of the Gamma distribution. A small shape gives sparse factors.
        density
            The expected share of cells with a count, reached by multiplying all rates by one
            constant; None leaves the rates as drawn.
        axes
            Names of the axes; ``axis_0``, ``axis_1``, ... if None. Labels are made of them.
        random_state
            A seed, a NumPy generator, or None for a fresh one.
        """
        sizes, rng = _checked_shape(shape, n_components), generator(random_state)
        alpha, beta = _positive("prior_shape", prior_shape), _positive("prior_rate", prior_rate)
        shapes = tuple(np.full((size, n_components), alpha) for size in sizes)
        rates = tuple(np.full((size, n_components), beta) for size in sizes)
        return _simulated(shapes, rates, density, _checked_names(axes, sizes), rng)

    def paper(
        self,
        shape: Sequence[int] = (100, 100, 100),
        n_components: int = 10,
        *,
        density: float | None = 0.10,
        axes: Sequence[str] | None = None,
        random_state: Seed = 0,
    ) -> Simulation:
        """Simulate by the recipe of the paper on VAE-BPTF, thinned to the density it reports.

        Each entity has a Gamma distribution of its own, whose shape and rate are drawn from
        Gamma(shape 2, rate 0.25). The paper reports about 10 % non-zeros, but its recipe taken
        literally (``density=None``) gives 84 to 93 % of them and a mean count of about 80, from
        40 to 200 by seed. One constant on all rates mends that and leaves the factors Gamma draws.

        References
        ----------
        Jin, Liu, Li, Xu, Du, Gao and Xiang, "Variational Auto-encoder Based Bayesian Poisson
        Tensor Factorization for Sparse and Imbalanced Count Data", Synthetic Data Evaluation.

        Examples
        --------
        >>> truth = simulate.paper()
        >>> round(truth.tensor.density, 2)
        0.1
        """
        sizes, rng = _checked_shape(shape, n_components), generator(random_state)
        per_entity = [rng.gamma(2.0, 1 / 0.25, (2, size, 1)) for size in sizes]
        shapes = tuple(np.repeat(alpha, n_components, axis=1) for alpha, _ in per_entity)
        rates = tuple(np.repeat(beta, n_components, axis=1) for _, beta in per_entity)
        return _simulated(shapes, rates, density, _checked_names(axes, sizes), rng)


simulate = Simulator()


def _simulated(
    shapes: Factors,
    rates: Factors,
    density: float | None,
    names: Sequence[str],
    rng: np.random.Generator,
) -> Simulation:
    """Draw the factors, thin them to the density, and draw the counts."""
    if density is not None and not (_is_number(density) and 0 < density < 1):
        raise ParameterError(
            f"`density` must lie between 0 and 1, both excluded, or be None; got {density!r}."
        )
    # A draw of tiny shape can underflow to 0: the floor keeps even products over the axes above 0.
    floor = np.finfo(np.float64).tiny ** (1 / len(shapes))
    factors = tuple(
        np.maximum(rng.standard_gamma(shape) / rate, floor)
        for shape, rate in zip(shapes, rates, strict=True)
    )
    thinning = 1.0 if density is None else thinning_constant(factors, density, rng)
    scale = thinning ** (1 / len(factors))
    factors = tuple(np.maximum(factor * scale, floor) for factor in factors)
    rates = tuple(rate / scale for rate in rates)
    cells = draw_cells(factors, rng)
    axes = [_axis(name, len(factor)) for name, factor in zip(names, factors, strict=True)]
    tensor = CountTensor.of_canonical(axes, cells.indices_NM, cells.counts_N)
    for array in (*factors, *shapes, *rates):
        array.flags.writeable = False
    return Simulation(tensor, factors, shapes, rates, thinning)


def _checked_shape(shape: Sequence[int], n_components: int) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence | np.ndarray) else ()
    if len(sizes) < 2 or not all(_is_size(size) for size in sizes):
        raise ParameterError(
            f"`shape` must be at least two positive integers, one per axis; got {shape!r}."
        )
    if not _is_size(n_components):
        raise ParameterError(f"`n_components` must be a positive integer; got {n_components!r}.")
    return tuple(map(int, sizes))


def _is_size(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 1 <= value <= MAX_LABELS


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _positive(name: str, value: float) -> float:
    if not _is_number(value) or not 1e-30 <= value <= 1e30:
        raise ParameterError(f"`{name}` must be a number from 1e-30 to 1e30; got {value!r}.")
    return float(value)


def _checked_names(axes: Sequence[str] | None, sizes: Sequence[int]) -> list[str]:
    names = [f"axis_{m}" for m in range(len(sizes))] if axes is None else list(axes)
    texts = {name for name in names if isinstance(name, str)}
    if isinstance(axes, str) or not len(texts) == len(names) == len(sizes):
        raise ParameterError(
            f"`axes` must be {len(sizes)} different names, one per axis of `shape`; got {axes!r}."
        )
    return names


def _axis(name: str, size: int) -> Axis:
    """Make an axis of labels such as ``user-007``, whose order is that of the positions."""
    text = pa.large_string()
    numbers = pc.utf8_lpad(pa.array(np.arange(size)).cast(text), len(str(size - 1)), "0")
    dash = pa.scalar("-", text)
    return Axis(name, pc.binary_join_element_wise(pa.scalar(name, text), numbers, dash))
