"""A Gamma posterior with the labels of its axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.kernels.arrays import Array, Floats, OverRows, Whole, in_file, row_blocks
from tallyfold.posterior.closed_sums import ClosedSums, gate_pairs
from tallyfold.posterior.derived_axis import DerivedAxis
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.merging import combined_gammas
from tallyfold.probability import gamma

if TYPE_CHECKING:
    import xarray as xr


class GammaFactors(Factors):
    """Independent Gamma posteriors of all factors, with labels.

    Attributes
    ----------
    gammas
        The posterior, every axis completed by a last row: entities never seen, whose mean is the
        mean over the entities that were, and whose spread is theirs.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: Sequence[Any],
        gammas: GammaPosterior,
        over_rows: Sequence[OverRows] | None = None,
    ) -> None:
        super().__init__(names, labels, over_rows)
        self.gammas = gammas

    def with_gammas(self, gammas: GammaPosterior) -> GammaFactors:
        """Return other factors of the same labels."""
        return GammaFactors(self.names, self.labels, gammas, self.over_rows)

    def shape(self, axis: str) -> Floats:
        """Return the Gamma shapes of an axis."""
        return self._table(axis).shape_DK[:-1]

    def rate(self, axis: str) -> Floats:
        """Return the Gamma rates of an axis."""
        return self._table(axis).rate_DK[:-1]

    def mean(self, axis: str) -> Floats:
        """Return the mean factors of an axis."""
        return self.shape(axis) / self.rate(axis)

    def _mean_blocks(self, name: str) -> Iterator[Floats]:
        table = self.gammas.axes[self.axis_number(name)]
        if not in_file(table.shape_DK):
            yield self.mean(name)
            return
        arrays = (table.shape_DK[:-1], table.rate_DK[:-1])
        for shape_DK, rate_DK in row_blocks(*arrays):
            yield shape_DK / rate_DK

    @property
    def n_components(self) -> int:
        """The number of components."""
        return int(self.gammas.axes[0].shape_DK.shape[1])

    def sd(self, axis: str) -> Floats:
        """Return the standard deviations of an axis's factors."""
        return np.asarray(np.sqrt(self.shape(axis)) / self.rate(axis))

    def quantile(self, axis: str, p: float) -> Floats:
        """Return a quantile of an axis's factors."""
        return gamma.quantile(p, self.shape(axis), self.rate(axis))

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Draw all factors independently, n times."""
        return self.gammas.draws(n, rng)

    def rate_moments(self, indices_NM: Whole) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates, the multipliers of combinations in them."""
        return self.gammas.rate_moments(indices_NM)

    def arrays(self) -> dict[str, Array]:
        """Return all tables by name."""
        found: dict[str, Array] = {}
        for axis, table in enumerate(self.gammas.axes):
            found |= {f"shape_{axis}": table.shape_DK, f"rate_{axis}": table.rate_DK}
            if table.widest_DK is not None:
                found[f"widest_{axis}"] = table.widest_DK
        for number, derived in enumerate(self.gammas.derived):
            found |= {f"derived_{number}/{name}": a for name, a in derived.arrays().items()}
        return found

    def combined(self, groups: Sequence[Sequence[int]], gated: bool = False) -> GammaFactors:
        """Return factors of new components, each made of a group of the old ones."""
        gammas = combined_gammas(self.gammas, groups, self._sums_of(gated))
        return self.with_gammas(gammas)

    def expected(self, gated: bool, components: slice) -> list[Floats]:
        """Return what components expect of every label, on every axis.

        `gated` tells whether the first multipliers are those of a gate, which has its part in it.
        """
        means = [mean_DK[:, components] for mean_DK in self.gammas.means]
        sums = self._sums_of(gated)(means)
        return [(mean_DK * sums.exposure(axis))[:-1] for axis, mean_DK in enumerate(means)]

    def _sums_of(self, gated: bool) -> Callable[[Sequence[Floats]], ClosedSums]:
        sizes = [len(table.shape_DK) - 1 for table in self.gammas.axes]
        seen = [np.arange(size + 1) < size for size in sizes]
        gate = gate_pairs(self.gammas.derived[0]) if gated else ()
        return lambda means: ClosedSums(means, seen, 1.0, *gate)

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], labels: Sequence[Any], arrays: dict[str, Array]
    ) -> GammaFactors:
        """Build from what `arrays` returned."""
        tables = [
            GammaTable(
                arrays[f"shape_{axis}"], arrays[f"rate_{axis}"], arrays.get(f"widest_{axis}")
            )
            for axis in range(len(names))
        ]
        derived: dict[int, dict[str, Array]] = {}
        for name, array in arrays.items():
            head, _, key = name.partition("/")
            if key:
                derived.setdefault(int(head.removeprefix("derived_")), {})[key] = array
        combinations = tuple(DerivedAxis.from_arrays(derived[n]) for n in range(len(derived)))
        return cls(names, labels, GammaPosterior(tuple(tables), combinations))

    def to_xarray(self) -> xr.Dataset:
        """Return means, standard deviations, shapes and rates with labels."""
        dataset = super().to_xarray()
        for name in self.names:
            dataset[f"{name}_shape"] = ((name, "component"), self.shape(name))
            dataset[f"{name}_rate"] = ((name, "component"), self.rate(name))
        return dataset

    def _table(self, axis: str) -> GammaTable:
        return self.gammas.axes[self.axis_number(axis)].widened
