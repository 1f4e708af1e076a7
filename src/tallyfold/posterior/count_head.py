"""The count head: from the margins of a cell's labels to the distribution of its count.

The distribution of a count, given that there is one, by a small network on what the cells of every
combination of its labels say (`posterior.margins`). New cells are added to the sums; nothing is
trained again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.kernels.arrays import Floats, Ints, Singles, Whole
from tallyfold.kernels.blas import side_by_side
from tallyfold.kernels.head_network import HeadNetwork, probabilities
from tallyfold.kernels.row_products import row_products
from tallyfold.posterior.derived_axis import combination_keys
from tallyfold.posterior.margins import MarginTable, Statistics
from tallyfold.posterior.named_arrays import Arrays, named, numbered, whole
from tallyfold.posterior.whole_sums import UNIT, WholeSums
from tallyfold.probability.categorical import CategoricalCounts, CountBins
from tallyfold.probability.lomax import LomaxTail

Cells = Whole
Flags = npt.NDArray[np.bool_]

N_SHAPES = 12
SHAPE_SCALE = 0.3
BASE_WEIGHT = 1e-4
"""The weight of the histogram of all counts in each prediction: no bin is impossible."""
INPUT_LIMIT = 6.0
CELLS_AT_ONCE = 1 << 14
N_RESIDUALS = 2
"""Residuals that a second stage sums: of ln y, and of whether y exceeds the median."""


@dataclass(frozen=True)
class HeadStage:
    """Networks on the same inputs, whose predictions are averaged.

    Attributes
    ----------
    centre_D, spread_D
        What inputs are standardised by.
    params_MP
        The parameters of each member's network.
    n_hidden
        The number of hidden units.
    """

    centre_D: Floats
    spread_D: Floats
    params_MP: Singles
    n_hidden: int

    def standardised(self, x_ND: Singles) -> Singles:
        """Return inputs as the networks want them."""
        z_ND = x_ND - self.centre_D.astype(np.float32)
        z_ND /= self.spread_D.astype(np.float32)
        return np.clip(z_ND, -INPUT_LIMIT, INPUT_LIMIT, out=z_ND)

    def probabilities(self, shapes_QB: Singles, z_ND: Singles) -> Singles:
        """Return the members' mean probabilities of bins at standardised inputs."""
        network = HeadNetwork(z_ND.shape[1], self.n_hidden, shapes_QB)
        members = [probabilities(network, params_P, z_ND) for params_P in self.params_MP]
        return np.asarray(sum(members[1:], start=members[0]) / np.float32(len(members)))


@dataclass(frozen=True)
class CountHead:
    """The distribution of a count given that it is at least one.

    Attributes
    ----------
    bins, tail, base_B
        Ranges of counts, the tail beyond them, and the share of all counts in each.
    statistics
        The functions of counts that are summed.
    tables
        The sums, for every set of axes.
    stages
        None: the histogram of all counts is the prediction. One: networks on margins of counts.
        Two: the second has margins of the first's residuals as further inputs, and predicts.
    averaged
        The axes whose unknown labels are taken to be average ones. Networks have seen labels of
        the others that had no cells.
    """

    bins: CountBins
    tail: LomaxTail | None
    base_B: Floats
    statistics: Statistics
    tables: tuple[MarginTable, ...]
    stages: tuple[HeadStage, ...] = ()
    averaged: tuple[int, ...] = ()

    @cached_property
    def shapes_QB(self) -> Singles:
        """The functions of bins that networks combine."""
        return bin_shapes(self.bins)

    @property
    def n_functions(self) -> int:
        """How many functions of a count are summed."""
        return len(self.statistics.mean_F) + 1

    def distribution(self, indices_NM: Cells) -> CategoricalCounts:
        """Return the distributions of cells' counts; position -1 is an unknown label."""
        starts = range(0, len(indices_NM), CELLS_AT_ONCE)
        prob_NB = np.empty((len(indices_NM), len(self.base_B)))

        def write(start: int) -> None:
            part = slice(start, start + CELLS_AT_ONCE)
            prob_NB[part] = self._probabilities(indices_NM[part], len(self.stages))

        side_by_side(write, starts)
        return CategoricalCounts(self.bins, with_base(prob_NB, self.base_B), self.tail)

    def _probabilities(self, indices_NM: Cells, n_stages: int) -> Singles | Floats:
        if n_stages == 0:
            return np.tile(self.base_B, (len(indices_NM), 1))
        n_functions = self.n_functions + N_RESIDUALS * (n_stages - 1)
        sums = [table.sums_at(table.rows_of(indices_NM))[:, :n_functions] for table in self.tables]
        stage = self.stages[n_stages - 1]
        z_ND = stage.standardised(np.hstack(list(self.inputs_by_table(sums))))
        self.put_average(z_ND, self._unknown(sums))
        return stage.probabilities(self.shapes_QB, z_ND)

    def _unknown(self, sums: Sequence[Ints]) -> Flags:
        """Return which labels of cells have no cells themselves."""
        pairs = zip(self.tables, sums, strict=True)
        by_axis = [sums_NF[:, 0] == 0 for table, sums_NF in pairs if len(table.axes) == 1]
        return np.stack(by_axis, axis=1)

    def put_average(self, z_ND: Singles, unknown_NM: Flags) -> None:
        """Put the average, zero, where standardised inputs come from unknown labels."""
        z_NTF = z_ND.reshape(len(z_ND), len(self.tables), -1)
        for number, table in enumerate(self.tables):
            axes = [axis for axis in table.axes if axis in self.averaged]
            z_NTF[unknown_NM[:, axes].any(axis=1), number] = 0

    def inputs_by_table(self, sums: Iterable[Ints]) -> Iterator[Singles]:
        """Yield the networks' inputs that come from each table, for sums at cells."""
        mean_F = np.append(self.statistics.mean_F, np.zeros(N_RESIDUALS))
        for table, sums_NF in zip(self.tables, sums, strict=True):
            n_means = sums_NF.shape[1] - 1
            some = replace(table, strength_F=table.strength_F[:n_means])
            yield some.inputs(sums_NF, mean_F[:n_means])

    # -- new cells --------------------------------------------------------------------------------

    def added(self, indices_NM: Cells, counts_N: Ints, sizes: Sequence[int]) -> CountHead:
        """Return the head with further cells in its sums, on axes of these sizes."""
        self.bins.bin_of(counts_N)  # refuses counts outside of the scale
        value_NF = self.statistics.values(counts_N)
        if len(self.stages) == 2:
            prob_NB = self._probabilities(indices_NM, 1)
            function_B2 = residual_functions(self.bins, self.base_B)
            expected_N2 = row_products(prob_NB.astype(np.float64), function_B2)
            differences = residuals(function_B2, self.bins.bin_of(counts_N), expected_N2)
            value_NF = np.hstack([value_NF, differences])
        tables = []
        for table in self.tables:
            resized = table.resized(sizes)
            key_N = combination_keys(indices_NM, resized.axes, resized.sizes)
            tables.append(resized.added(key_N, value_NF))
        return replace(self, tables=tuple(tables))

    # -- as arrays --------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return all that is needed to build this again, as named arrays."""
        found: Arrays = {
            "lower": self.bins.lower_B,
            "base": self.base_B,
            "thresholds": self.statistics.thresholds_T,
            "means": self.statistics.mean_F,
            "averaged": np.array(self.averaged, dtype=np.int64),
        }
        if self.bins.upper is not None:
            found["upper"] = np.array([self.bins.upper])
        if self.tail is not None:
            found["tail"] = np.array([self.tail.level, self.tail.slope, self.tail.offset])
        for number, table in enumerate(self.tables):
            own = {
                "axes": np.array(table.axes, dtype=np.int64),
                "sizes": np.array(table.sizes, dtype=np.int64),
                "keys": table.keys_P,
                "sums": table.sums_PF,
                "strength": table.strength_F,
            }
            found |= named(f"table_{number}/", own)
        for number, stage in enumerate(self.stages):
            own = {
                "centre": stage.centre_D,
                "spread": stage.spread_D,
                "params": stage.params_MP,
                "hidden": np.array([stage.n_hidden]),
            }
            found |= named(f"stage_{number}/", own)
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> CountHead | None:
        """Build from what `arrays` returned; None from nothing."""
        if not arrays:
            return None
        upper = int(arrays["upper"][0]) if "upper" in arrays else None
        bins = CountBins(arrays["lower"], upper)
        tail = None
        if "tail" in arrays:
            tail = LomaxTail(int(bins.lower_B[-1]), *arrays["tail"].tolist())
        tables = [
            MarginTable(
                whole(own["axes"]),
                whole(own["sizes"]),
                own["keys"],
                WholeSums.of([own["sums"]]),
                own["strength"],
            )
            for own in numbered(arrays, "table")
        ]
        stages = [
            HeadStage(own["centre"], own["spread"], own["params"], int(own["hidden"][0]))
            for own in numbered(arrays, "stage")
        ]
        statistics = Statistics(arrays["thresholds"], arrays["means"])
        averaged = (
            whole(arrays["averaged"]) if "averaged" in arrays else ()
        )  # older heads have none
        return cls(bins, tail, arrays["base"], statistics, tuple(tables), tuple(stages), averaged)


def with_base(prob_NB: Floats, base_B: Floats) -> Floats:
    """Mix the histogram of all counts in, so that no bin is impossible."""
    mixed_NB = prob_NB + BASE_WEIGHT * base_B
    return np.asarray(mixed_NB / mixed_NB.sum(axis=1, keepdims=True))


def histogram_head(
    value_V: Ints, times_V: Ints, scale: tuple[int, int] | str | None = "auto"
) -> CountHead:
    """Return a head that predicts the histogram of counts for every cell, with a fitted tail.

    The arguments are those of `CountBins.of`.
    """
    bins = CountBins.of(value_V, times_V, scale)
    bin_V, n_bins = bins.bin_of(value_V, times_V), len(bins.lower_B)
    times_B = np.bincount(bin_V, times_V, minlength=n_bins) + 0.5
    base_B = np.asarray(times_B / times_B.sum(), dtype=np.float64)
    tail = None
    if bins.upper is None:
        far_V = bin_V == n_bins - 1
        counts_N = np.repeat(value_V[far_V], times_V[far_V])
        start = int(bins.lower_B[-1])
        tail = LomaxTail.fitted(start, counts_N, np.full(len(counts_N), np.log(base_B[-1])))
    return CountHead(bins, tail, base_B, Statistics.of(value_V, times_V), ())


def bin_shapes(bins: CountBins) -> Singles:
    """Return smooth functions of the bin, cosines in the log of its counts, and an identity."""
    log_B, n_bins = np.log(bins.lower_B), len(bins.lower_B)
    at_B = (log_B - log_B[0]) / max(log_B[-1] - log_B[0], 1e-9)
    shapes = [1.0 * (np.arange(n_bins) == 0)]
    shapes += [np.cos(np.pi * j * at_B) for j in range(1, min(N_SHAPES, n_bins))]
    smooth_QB = np.array(shapes)
    smooth_QB -= smooth_QB.mean(axis=1, keepdims=True)
    smooth_QB *= SHAPE_SCALE / np.maximum(smooth_QB.std(axis=1, keepdims=True), 1e-6)
    return np.vstack([smooth_QB, SHAPE_SCALE * np.eye(n_bins)]).astype(np.float32)


def residual_functions(bins: CountBins, base_B: Floats) -> Floats:
    """Return the functions of the bin whose residuals are summed.

    They are ln y, and whether y is above the median of all counts.
    """
    log_B = np.log(bins.lower_B)
    middle = int(np.searchsorted(np.cumsum(base_B), 0.5))
    above_B = (np.arange(len(log_B)) > min(middle, len(log_B) - 2)) * 1.0
    return np.stack([log_B, above_B], axis=1)


def residuals(function_B2: Floats, bin_N: Ints, expected_N2: Floats) -> Ints:
    """Return how functions of counts differ from their expectations, in units of 1 / UNIT."""
    return np.asarray(np.round((function_B2[bin_N] - expected_N2) * UNIT), dtype=np.int64)
