"""Whether what a folder holds can be a memory of earlier periods; see `load_checks`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.models.head_checks import check_head, check_keys, require
from tallyfold.posterior.forecaster import Forecaster
from tallyfold.posterior.past_network import DECAYS, N_UNITS, PastNetwork
from tallyfold.posterior.past_rates import Memory

MOST_NUMBER = 1e3
MOST_WEIGHT = 1e6
MOST_PERIODS = 10**9


def check_forecaster(forecaster: Forecaster, axes: Sequence[Axis]) -> None:
    """Refuse a memory of other axes, out of order, or with numbers beyond all bounds."""
    history, rates, amounts = forecaster.history, forecaster.rates, forecaster.amounts
    sizes = tuple(len(axis) for number, axis in enumerate(axes) if number != history.axis)
    require(0 <= history.axis < len(axes) and history.sizes == sizes, "a memory of other axes")
    steps = history.step_D
    fits = steps.shape == (len(axes[history.axis]),) and steps.dtype == np.int64
    require(fits and bool(np.all(np.abs(steps) < MOST_PERIODS)), "periods of another axis")
    require(0 < history.n_periods < MOST_PERIODS, "no periods")
    table = history.whole
    check_keys(table.place_E, (*table.sizes, table.span))
    require(bool(np.all(table.step_E < history.n_periods)), "periods that are not there")
    require(len(table.place_E) > 0, "no memory at all")
    logs = table.sums_E2[:, 1]
    require(bool(np.all((logs >= 0) & (logs < MOST_NUMBER))), "counts that cannot be")
    check_head(amounts.histogram, axes)
    require(not amounts.histogram.tables and not amounts.histogram.stages, "no plain histogram")
    _check_memory(amounts.memory)
    if amounts.numbers is not None:
        _check_numbers(amounts.numbers)
    sound = all(0 <= each < MOST_NUMBER for each in forecaster.spread)
    require(sound and forecaster.spread.freedom >= 1, "a spread of totals that cannot be")
    require(0 < forecaster.share <= 1, "a share of cells that cannot be")
    if rates is not None:
        _check_memory(rates.memory)
        _check_numbers(rates.numbers)
        require(0 <= rates.numbers.fade <= 1, "a memory that grows")
        if rates.margins is not None:
            _check_memory(rates.margins)
        if rates.season is not None:
            whole = 1 < rates.season.length < MOST_PERIODS and rates.margins is not None
            sizes_fit = rates.season.power_K.shape == (len(history.sizes),)
            require(whole and sizes_fit, "a season that is none")
            _check_numbers(rates.season.power_K.tolist())
    if forecaster.network is not None:
        require(rates is not None, "a network of nothing")
        _check_network(forecaster.network, len(history.tables) - 1)


def _check_network(network: PastNetwork, n_sets: int) -> None:
    """Refuse a network whose layers are of another size, or beyond all bounds."""
    n_inputs = 2 + n_sets * (len(DECAYS) + 2)
    shapes = [(n_inputs, N_UNITS), (N_UNITS,), (N_UNITS,), (n_inputs,), (2,)]
    require([part.shape for part in network.params] == shapes, "layers of another size")
    inputs = (network.centre_D, network.spread_D)
    require(all(part.shape == (n_inputs,) for part in inputs), "inputs of another size")
    every = (*network.params, *inputs)
    sound = all(part.dtype == np.float64 and np.all(np.abs(part) <= MOST_WEIGHT) for part in every)
    require(bool(sound and np.all(network.spread_D >= 1e-6)), "a network that cannot be")


def _check_memory(memory: Memory) -> None:
    if memory.kind == "decayed":
        require(0 < memory.length <= 1, "a decay that is none")
    else:
        whole = memory.length == int(memory.length)
        require(whole and 1 <= memory.length < MOST_PERIODS, "a window that is none")


def _check_numbers(numbers: Sequence[float]) -> None:
    require(all(abs(each) <= MOST_NUMBER for each in numbers), "numbers beyond all bounds")
    log_pulls = [numbers[0]]
    require(all(abs(each) <= 50 for each in log_pulls), "numbers beyond all bounds")
