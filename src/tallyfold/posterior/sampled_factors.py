"""Posterior draws of all factors, as a sampler leaves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.errors import ShapeError
from tallyfold.kernels.arrays import Array, Floats, Whole
from tallyfold.posterior.factors import Factors, checked_draws, rates_at
from tallyfold.posterior.merging import combined_values

AGREE = 1.05
"""Up to this R-hat chains say nearly the same."""


class SampledFactors(Factors):
    """S draws per axis (S x rows x components); the last row is an entity never seen.

    Draws of different axes belong together: the s-th of one axis goes with the s-th of the others.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: Sequence[Any],
        draws: Sequence[Floats],
        n_chains: int = 1,
    ) -> None:
        super().__init__(names, labels)
        self.samples = tuple(draws)
        self.n_chains = n_chains
        if n_chains < 1 or self.n_draws % n_chains:
            raise ShapeError(f"{self.n_draws} draws are not those of {n_chains} chains.")

    @property
    def n_draws(self) -> int:
        """The number of draws kept, of all chains together."""
        return len(self.samples[0])

    def mean(self, axis: str) -> Floats:
        """Return the mean over draws of an axis's factors."""
        return np.asarray(self._rows(axis).mean(axis=0))

    def sd(self, axis: str) -> Floats:
        """Return the standard deviation over draws."""
        return np.asarray(self._rows(axis).std(axis=0))

    def quantile(self, axis: str, p: float) -> Floats:
        """Return a quantile over draws."""
        return np.asarray(np.quantile(self._rows(axis), p, axis=0))

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Return n of the draws: all of them in turn if n is their number, else at random."""
        order = np.arange(n) if n == self.n_draws else rng.integers(self.n_draws, size=n)
        for number in order:
            yield [sample[number] for sample in self.samples]

    def chains(self, n_draws: int | None = None, random_state: int | None = 0) -> list[Floats]:
        """Return draws of every axis, by chain and in their order; with fewer, evenly spaced."""
        most = self.n_draws // self.n_chains
        wanted = checked_draws(most if n_draws is None else n_draws, most)
        order = np.linspace(0, most - 1, wanted).round().astype(int)
        return [s.reshape(self.n_chains, most, *s.shape[1:])[:, order] for s in self.samples]

    def r_hat(self) -> Floats:
        """Return of each component's share of the rate how much chains differ: 1 for not at all.

        Each chain is cut into two halves, so that a single one that is still on its way shows.
        NaN for fewer than four draws a chain.
        """
        total_SK = np.exp(sum(np.log(s[:, :-1].sum(axis=1)) for s in self.samples))
        share_SK = total_SK / total_SK.sum(axis=1, keepdims=True)
        n_half = self.n_draws // self.n_chains // 2
        if n_half < 2:
            return np.full(share_SK.shape[1], np.nan)
        chains = share_SK.reshape(self.n_chains, -1, share_SK.shape[1])
        halves = np.concatenate([chains[:, :n_half], chains[:, -n_half:]])
        within_K = np.maximum(halves.var(axis=1, ddof=1).mean(axis=0), 1e-300)
        between_K = halves.mean(axis=1).var(axis=0, ddof=1)
        return np.asarray(np.sqrt((n_half - 1) / n_half + between_K / within_K))

    def rate_moments(self, indices_NM: Whole) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates over draws."""
        rate_SN = self.rates(indices_NM)
        return np.asarray(rate_SN.mean(axis=0)), np.asarray(rate_SN.var(axis=0))

    def rates(self, indices_NM: Whole) -> Floats:
        """Return the rates of cells in every draw."""
        return np.stack(
            [
                rates_at([sample[s] for sample in self.samples], indices_NM)
                for s in range(self.n_draws)
            ]
        )

    def arrays(self) -> dict[str, Array]:
        """Return the draws by name."""
        arrays = {f"draws_{axis}": sample for axis, sample in enumerate(self.samples)}
        return arrays | ({"chains": np.array([self.n_chains])} if self.n_chains > 1 else {})

    def combined(self, groups: Sequence[Sequence[int]], gated: bool = False) -> SampledFactors:
        """Return draws of new components, each made of a group of the old ones, draw by draw."""
        draws = combined_values(self.samples, groups)
        return SampledFactors(self.names, self.labels, draws, self.n_chains)

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], labels: Sequence[Any], arrays: dict[str, Array]
    ) -> SampledFactors:
        """Build from what `arrays` returned."""
        n_chains = int(arrays["chains"].item()) if "chains" in arrays else 1
        draws = [arrays[f"draws_{axis}"] for axis in range(len(names))]
        return cls(names, labels, draws, n_chains)

    def _rows(self, axis: str) -> Floats:
        return self.samples[self.axis_number(axis)][:, :-1]


def matching_components(first: Sequence[Floats], other: Sequence[Floats]) -> npt.NDArray[np.intp]:
    """Return which component of another chain is most like each of the first one's.

    Components have no order, and each chain finds its own. Mean factors (draws x rows x components
    of every axis) are compared by the product of their cosines over axes.
    """
    from scipy.optimize import linear_sum_assignment

    alike_KK = np.ones((first[0].shape[-1], other[0].shape[-1]))
    for one, two in zip(first, other, strict=True):
        left_DK, right_DK = (_unit_columns(each.mean(axis=0)) for each in (one, two))
        alike_KK *= left_DK.T @ right_DK
    return np.asarray(linear_sum_assignment(alike_KK, maximize=True)[1])


def _unit_columns(mean_DK: Floats) -> Floats:
    return np.asarray(mean_DK / np.maximum(np.linalg.norm(mean_DK, axis=0), 1e-300))
