"""Factors of every axis: what all kinds of posterior share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tallyfold.errors import LabelError, ParameterError
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import OverRows, all_here
from tallyfold.posterior.component_names import AxisWeights, automatic_names
from tallyfold.posterior.label_order import ORDERS, By, Weights, checked_order

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

SWITCHED_OFF = 0.05
"""Components with less than this part of an even share of the rate are switched off."""


DRAWN = 1000
"""Draws that are made if nobody says how many, of a posterior that is no chain."""


class Factors(ABC):
    """Factors of every axis, with labels.

    Attributes
    ----------
    names
        The names of the axes.
    labels
        Their labels, as Arrow arrays.
    over_rows
        By axis, what makes sums over all labels of those over the labels whose factors are here:
        during a fit that processes share they may be some.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: Sequence[Any],
        over_rows: Sequence[OverRows] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.labels = tuple(labels)
        self.over_rows = tuple(over_rows or [all_here] * len(self.names))

    @abstractmethod
    def mean(self, axis: str) -> Floats:
        """Return the mean factors of an axis (labels x components)."""

    @abstractmethod
    def sd(self, axis: str) -> Floats:
        """Return the standard deviations of an axis's factors."""

    @abstractmethod
    def quantile(self, axis: str, p: float) -> Floats:
        """Return a quantile of an axis's factors."""

    @abstractmethod
    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Draw factors of all axes n times; the last row of each is an entity never seen."""

    @abstractmethod
    def rate_moments(self, indices_NM: npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Return the mean and variance of the rates of cells; position -1 is an unseen entity."""

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is needed to build this again, as named arrays."""

    @abstractmethod
    def combined(self, groups: Sequence[Sequence[int]], gated: bool = False) -> Self:
        """Return factors of new components, each made of a group of the old ones.

        A group of one is that component; see `posterior.merging` for others. `gated` tells whether
        multipliers are those of a gate, with which the margins of components are.
        """

    @property
    def n_components(self) -> int:
        """The number of components."""
        return int(self.mean(self.names[0]).shape[1])

    def axis_number(self, axis: str) -> int:
        """Return the position of an axis."""
        if axis not in self.names:
            raise LabelError(f"there is no axis {axis!r}; there are {', '.join(self.names)}.")
        return self.names.index(axis)

    def shares(self) -> Floats:
        """Return each component's share of the total rate over all cells."""
        totals_MK = np.stack([self._sum(name, lambda mean_DK: mean_DK) for name in self.names])
        # in logarithms, since products over long axes overflow
        log_K = np.log(np.maximum(totals_MK, 1e-300)).sum(axis=0)
        weight_K = np.exp(log_K - log_K.max())
        return np.asarray(weight_K / weight_K.sum())

    def switched_off(self, least: float = SWITCHED_OFF) -> npt.NDArray[np.bool_]:
        """Return which components the prior has switched off, since the data need no more.

        What is left of such a component says the same of all labels, and has next to no rate. So a
        component counts by its share of the rate, and by less if all its labels are alike: times
        the squared coefficient of variation of its weights, on the axis where they vary most, if
        that is below one. With less than `least` of an even share it is off. None that has half an
        even share of the rate is, whatever its labels.
        """
        share_K, variation_K = self.shares(), np.zeros(self.n_components)
        for name in self.names:
            number = self._sum(name, lambda mean_DK: np.ones((len(mean_DK), 1)))
            mean_K = self._sum(name, lambda mean_DK: mean_DK) / number
            variance_K = self._sum(name, partial(_squares_about, mean_K)) / number
            square_K = np.maximum(mean_K**2, 1e-300)
            variation_K = np.maximum(variation_K, variance_K / square_K)
        even = 1 / len(share_K)
        small_K = share_K < max(least, 0.5) * even
        return np.asarray(small_K & (share_K * np.minimum(variation_K, 1.0) < least * even))

    def _sum(self, name: str, of: Callable[[Floats], Floats]) -> Floats:
        """Return the sum over all labels of an axis of what is made of their mean factors."""
        sums = [of(mean_DK).sum(axis=0) for mean_DK in self._mean_blocks(name)]
        total = sums[0] if len(sums) == 1 else np.sum(sums, axis=0)
        return self.over_rows[self.names.index(name)](total)

    def _mean_blocks(self, name: str) -> Iterator[Floats]:
        """Yield the mean factors of an axis: all at once, or some rows at a time from a file."""
        yield self.mean(name)

    def by_size(self) -> Ints:
        """Return the components by their share of the rate; those switched off come last.

        Shares that are the same but for rounding leave components in the order they have.
        """
        share_K = np.array([float(f"{share:.9g}") for share in self.shares()])
        return np.lexsort([-share_K, self.switched_off()])

    @cached_property
    def automatic_names(self) -> list[str]:
        """A name for each component, of labels that set it apart; see `component_names`."""
        axes = [
            AxisWeights(self.mean(name), self.sd(name), labels)
            for name, labels in zip(self.names, self.labels, strict=True)
        ]
        return automatic_names(axes, self.shares())

    def components(
        self,
        axis: str,
        top: int = 10,
        level: float = 0.9,
        least: float = SWITCHED_OFF,
        by: By | None = None,
        relevance: float | None = None,
        expected_D: Floats | None = None,
    ) -> pd.DataFrame:
        """Return the first labels of each component on an axis, largest component first.

        Columns: component, its share of the total rate, rank, label, weight (the label's share of
        the component on this axis), and the lower and upper end of the weight's interval. Labels
        are ranked `by` one of `label_order.ORDERS`; as it comes, by relevance at the lower end of
        the interval: those that are surely strong and set a component apart. `expected_D` is what
        is expected of labels in all, if not what factors say. Components that are `switched_off`
        are left out; with a `least` of 0 none is.
        """
        import pandas as pd

        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
            raise ParameterError(f"`top` must be a positive integer; got {top!r}.")
        order_by, part = checked_order(by, relevance)
        number = self.axis_number(axis)
        mean_DK, shares_K = self.mean(axis), self.shares()
        low_DK = self.quantile(axis, (1 - level) / 2)
        high_DK = self.quantile(axis, (1 + level) / 2)
        off_K = self.switched_off(least)
        if by is None and relevance is None and (~off_K).sum() < 2:
            part = 1.0  # there is nothing to stand apart from
        value_DK = ORDERS[order_by](Weights(mean_DK, low_DK, shares_K, expected_D), part)
        parts = []
        by_size = self.by_size()
        for component in by_size[~off_K[by_size]]:
            column, total = mean_DK[:, component], max(mean_DK[:, component].sum(), 1e-300)
            order = np.argsort(-value_DK[:, component], kind="stable")[:top]
            parts.append(
                pd.DataFrame(
                    {
                        "component": int(component),
                        "share": shares_K[component],
                        "rank": np.arange(1, len(order) + 1),
                        "label": self.labels[number].take(order).to_pandas(),
                        "weight": column[order] / total,
                        "low": low_DK[order, component] / total,
                        "high": high_DK[order, component] / total,
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)

    def to_xarray(self) -> xr.Dataset:
        """Return means and standard deviations with labels: one pair of variables per axis."""
        import xarray as xr

        variables: dict[str, Any] = {}
        for name in self.names:
            dims = (name, "component")
            variables[f"{name}_mean"] = (dims, self.mean(name))
            variables[f"{name}_sd"] = (dims, self.sd(name))
        return xr.Dataset(variables, coords=self._coordinates())

    def to_datatree(self, n_draws: int | None = None, random_state: int | None = 0) -> xr.DataTree:
        """Return draws in ArviZ's schema: group ``posterior``, dimensions chain and draw first.

        Parameters
        ----------
        n_draws
            Of each chain. None: all that a chain has, or 1,000 where they are drawn anew. Draws of
            a Markov chain stay in their order, and there are never more than it made.
        random_state
            Seed of draws that are made anew.

        Notes
        -----
        The factors of an axis are called ``axis_factor``, with the dimensions of `to_xarray`.
        """
        import xarray as xr

        stacks = self.chains(n_draws, random_state)
        dims = ("chain", "draw")
        variables = {
            f"{name}_factor": ((*dims, name, "component"), stack_CSDK[:, :, :-1])
            for name, stack_CSDK in zip(self.names, stacks, strict=True)
        }
        counted = dict(zip(dims, map(np.arange, stacks[0].shape[:2]), strict=True))
        dataset = xr.Dataset(variables, coords=counted | self._coordinates())
        return xr.DataTree.from_dict({"posterior": dataset})

    def chains(self, n_draws: int | None = None, random_state: int | None = 0) -> list[Floats]:
        """Return draws of every axis (chains x draws x rows x components), last an unseen row."""
        rng = np.random.default_rng(random_state)
        drawn = list(self.draws(checked_draws(n_draws or DRAWN), rng))
        return [np.stack(stack)[None] for stack in zip(*drawn, strict=True)]

    def _label_values(self) -> dict[str, Any]:
        return {
            name: np.asarray(labels.to_pandas())
            for name, labels in zip(self.names, self.labels, strict=True)
        }

    def _coordinates(self) -> dict[str, Any]:
        return self._label_values() | {"component": np.arange(self.n_components)}


def _squares_about(mean_K: Floats, value_DK: Floats) -> Floats:
    return np.asarray((value_DK - mean_K) ** 2)


def checked_draws(n_draws: Any, most: int | None = None) -> int:
    """Refuse a number of draws that is none, or more than there are."""
    if type(n_draws) is not int or n_draws < 1 or n_draws > (most or n_draws):
        least = "a positive integer" if most is None else f"from 1 to {most:,}, which a chain has"
        raise ParameterError(f"`n_draws` must be {least}; got {n_draws!r}.")
    return n_draws


def rates_at(factors: Sequence[Floats], indices_NM: npt.NDArray[np.integer]) -> Floats:
    """Return the rates of cells; position -1 means the last row, the entity never seen."""
    last_M = np.array([len(factor) - 1 for factor in factors], dtype=np.int32)
    placed_NM = np.where(indices_NM < 0, last_M, indices_NM).astype(np.int32)
    return kernels.cell_rates(factors, np.asfortranarray(placed_NM))
