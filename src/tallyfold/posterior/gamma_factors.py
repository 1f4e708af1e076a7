"""Independent Gamma posteriors of all factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.posterior.factors import Factors, Floats, rates_at
from tallyfold.probability import gamma

if TYPE_CHECKING:
    import xarray as xr

LEAST_SHAPE, LEAST_RATE, MOST_RATE = 1e-6, 1e-200, 1e200


class GammaFactors(Factors):
    """Gamma(shape, rate) for every factor; `shapes` and `rates` have an extra last row.

    The extra row of an axis is for entities never seen: its mean is the mean over the entities
    that were, its spread theirs.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: Sequence[Any],
        shapes: Sequence[Floats],
        rates: Sequence[Floats],
    ) -> None:
        super().__init__(names, labels)
        self.shapes, self.rates = tuple(shapes), tuple(rates)

    @classmethod
    def with_unseen(
        cls,
        names: Sequence[str],
        labels: Sequence[Any],
        shapes: Sequence[Floats],
        rates: Sequence[Floats],
        seen: Sequence[npt.NDArray[np.bool_]],
    ) -> GammaFactors:
        """Build from rows per label; entities not seen get the distribution of those that were."""
        completed = [completed_gammas(*parts) for parts in zip(shapes, rates, seen, strict=True)]
        return cls(
            names, labels, [shape for shape, _ in completed], [rate for _, rate in completed]
        )

    def shape(self, axis: str) -> Floats:
        """Return the Gamma shapes of an axis."""
        return self.shapes[self.axis_number(axis)][:-1]

    def rate(self, axis: str) -> Floats:
        """Return the Gamma rates of an axis."""
        return self.rates[self.axis_number(axis)][:-1]

    def mean(self, axis: str) -> Floats:
        """Return the mean factors of an axis."""
        return self.shape(axis) / self.rate(axis)

    def sd(self, axis: str) -> Floats:
        """Return the standard deviations of an axis's factors."""
        return np.asarray(np.sqrt(self.shape(axis)) / self.rate(axis))

    def quantile(self, axis: str, p: float) -> Floats:
        """Return a quantile of an axis's factors."""
        return gamma.quantile(p, self.shape(axis), self.rate(axis))

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Draw all factors independently, n times."""
        for _ in range(n):
            yield [
                gamma.sample(rng, shape, rate)
                for shape, rate in zip(self.shapes, self.rates, strict=True)
            ]

    def rate_moments(self, indices_NM: npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates; exact, since all factors are independent."""
        return gamma_rate_moments(self.shapes, self.rates, indices_NM)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the shapes and rates by name."""
        parts = {f"shape_{axis}": shape for axis, shape in enumerate(self.shapes)}
        return parts | {f"rate_{axis}": rate for axis, rate in enumerate(self.rates)}

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], labels: Sequence[Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> GammaFactors:
        """Build from what `arrays` returned."""
        numbers = range(len(names))
        shapes = [arrays[f"shape_{axis}"] for axis in numbers]
        return cls(names, labels, shapes, [arrays[f"rate_{axis}"] for axis in numbers])

    def to_xarray(self) -> xr.Dataset:
        """Return means, standard deviations, shapes and rates with labels."""
        dataset = super().to_xarray()
        for name in self.names:
            dataset[f"{name}_shape"] = ((name, "component"), self.shape(name))
            dataset[f"{name}_rate"] = ((name, "component"), self.rate(name))
        return dataset


def gamma_rate_moments(
    shapes: Sequence[Floats], rates: Sequence[Floats], indices_NM: npt.NDArray[np.integer]
) -> tuple[Floats, Floats]:
    """Return mean and variance of the rates of cells, for independent Gamma factors."""
    means = [shape / rate for shape, rate in zip(shapes, rates, strict=True)]
    squares = [mean**2 for mean in means]
    seconds = [square * (1 + 1 / shape) for square, shape in zip(squares, shapes, strict=True)]
    variance_N = rates_at(seconds, indices_NM) - rates_at(squares, indices_NM)
    return rates_at(means, indices_NM), np.maximum(variance_N, 0.0)


def completed_gammas(
    shape_DK: Floats, rate_DK: Floats, seen_D: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Give rows never seen, and one more row, the mean and the spread of the rows seen."""
    shape_DK, rate_DK = np.maximum(shape_DK, LEAST_SHAPE), np.clip(rate_DK, LEAST_RATE, MOST_RATE)
    rows = seen_D if seen_D.any() else np.ones_like(seen_D)
    mean_DK = shape_DK[rows] / rate_DK[rows]
    mean_K = mean_DK.mean(axis=0)
    variance_K = mean_DK.var(axis=0) + (mean_DK / rate_DK[rows]).mean(axis=0)
    typical_shape_K = np.clip(mean_K**2 / np.maximum(variance_K, 1e-300), LEAST_SHAPE, 1e12)
    typical_rate_K = np.clip(typical_shape_K / np.maximum(mean_K, 1e-300), LEAST_RATE, MOST_RATE)
    shapes = np.vstack([np.where(seen_D[:, None], shape_DK, typical_shape_K), typical_shape_K])
    rates = np.vstack([np.where(seen_D[:, None], rate_DK, typical_rate_K), typical_rate_K])
    return shapes, rates
