"""Whether a cell has a count: the factors' rate, and what combinations of its labels add.

A cell has a count with probability 1 - exp(-x). The rate x begins with that of the factors and of
the gate. Each set S of axes then multiplies it by ((a + Y) / (a + L)) ** e: Y is the number of
cells with a count that agree with the cell on these axes, L the closed sum of the rates of all
cells that do, counts or not. So a combination that was never seen says something, too. A small
network on the logarithms of all these, and on how much the other labels of the cell's basket speak
for it (`posterior.neighbours`), adds what products cannot say. Where two axes have the same
labels, the mirrored cell (the answer from B to A) adds an echo of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.kernels.arrays import Floats, Ints, Mask, Positions
from tallyfold.kernels.margins import key_counts, short_counts
from tallyfold.posterior.closed_sums import ClosedSums, gate_pairs
from tallyfold.posterior.derived_axis import (
    combination_keys,
    missing_keys,
    resized_keys,
    rows_of_keys,
)
from tallyfold.posterior.factors import rates_at
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.posterior.mirror import Mirror
from tallyfold.posterior.named_arrays import Arrays, named, numbered, part_of, whole
from tallyfold.posterior.neighbours import Neighbours
from tallyfold.posterior.occurrence_weights import Features, OccurrenceWeights

CELLS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class CombinationCounts:
    """How many cells with a count each combination of some axes has.

    Attributes
    ----------
    axes, sizes, keys_P
        As in `DerivedAxis`.
    counts_P
        The numbers of cells, in few bytes; not whole if cells came that stand for more or fewer
        than one.
    mirrored
        Whether cells look up the combination of their mirror.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    counts_P: npt.NDArray[np.integer] | Floats
    mirrored: bool = False

    @classmethod
    def of(
        cls,
        axes: Sequence[int],
        shape: Sequence[int],
        indices_NM: Positions,
        mirrored: bool = False,
    ) -> CombinationCounts:
        """Count the cells of every combination."""
        sizes = tuple(shape[axis] for axis in axes)
        keys_P, counts_P = key_counts(combination_keys(indices_NM, axes, sizes))
        return cls(tuple(axes), sizes, keys_P, counts_P, mirrored)

    def at(self, positions_NM: Positions) -> Floats:
        """Return the counts of cells' combinations; zero where one was never seen."""
        row_N = rows_of_keys(combination_keys(positions_NM, self.axes, self.sizes), self.keys_P)
        if not len(self.keys_P):
            return np.zeros(len(row_N))
        counts_N = self.counts_P[np.minimum(row_N, len(self.keys_P) - 1)].astype(np.float64)
        counts_N[row_N == len(self.keys_P)] = 0.0
        return counts_N

    def added(
        self, indices_NM: Positions, shape: Sequence[int], weight_N: Floats
    ) -> CombinationCounts:
        """Return the counts with further cells, on axes that may have become longer."""
        sizes = tuple(shape[axis] for axis in self.axes)
        key_N = combination_keys(indices_NM, self.axes, sizes)
        keys_U, row_N = np.unique(key_N, return_inverse=True)
        weight_U = np.bincount(row_N, weight_N)
        whole = self.counts_P.dtype.kind == "i" and not np.any(weight_U % 1)
        old_P = resized_keys(self.keys_P, self.sizes, sizes)
        new_U, before_U = missing_keys(keys_U, old_P)
        keys_P = np.insert(old_P, before_U, new_U)
        row_U = rows_of_keys(keys_U, keys_P)
        if not whole:
            counts_P = np.insert(self.counts_P.astype(np.float64), before_U, 0.0)
            counts_P[row_U] += weight_U
            return replace(self, sizes=sizes, keys_P=keys_P, counts_P=counts_P)
        longer_P = np.insert(self.counts_P, before_U, 0)
        sums_U = short_counts(longer_P[row_U] + weight_U.astype(np.int64))
        longer_P = longer_P.astype(np.promote_types(longer_P.dtype, sums_U.dtype), copy=False)
        longer_P[row_U] = sums_U
        return replace(self, sizes=sizes, keys_P=keys_P, counts_P=longer_P)


@dataclass(frozen=True)
class NewCells:
    """Cells with a count that a model takes in after its fit.

    Attributes
    ----------
    indices_NM, shape
        The cells, and the sizes of the axes, which may have become longer.
    share
        The share of the cells of known labels that the model knows once it has these, too.
    new_share
        The share of the cells of new labels that these are.
    places
        Where the labels of two axes that mirror each other stand on the other; None if the axes
        have not become longer.
    """

    indices_NM: Positions
    shape: tuple[int, ...]
    share: float = 1.0
    new_share: float = 1.0
    places: tuple[Positions, Positions] | None = None


@dataclass(frozen=True)
class Occurrence:
    """Whether there is a count: everything but the factors themselves.

    Attributes
    ----------
    share
        The share of all cells that the model was fitted on.
    seen
        For each axis, which labels have a cell; of the others nothing is known.
    sets
        The counts of combinations, by set of axes.
    weights
        How they make up a rate.
    mirror
        Two axes with the same labels; None if there are none.
    prior_rate_M
        The rates of the axes' Gamma priors, for new labels. None in models of earlier versions:
        they take in no new cells.
    neighbours
        What else is in a cell's basket; None if nothing is learnt from it.
    """

    share: float
    seen: tuple[Mask, ...]
    sets: tuple[CombinationCounts, ...]
    weights: OccurrenceWeights
    mirror: Mirror | None = None
    prior_rate_M: Floats | None = None
    neighbours: Neighbours | None = None

    def known(self, positions_NM: Positions) -> Positions:
        """Return positions in which labels without any cell are unknown, -1."""
        if all(seen_D.all() for seen_D in self.seen):
            return positions_NM
        known_NM = positions_NM.copy(order="F")
        for axis, seen_D in enumerate(self.seen):
            column_N = known_NM[:, axis]
            column_N[~np.append(seen_D, False)[column_N]] = -1
        return known_NM

    def log_rates(self, gammas: GammaPosterior, positions_NM: Positions) -> Floats:
        """Return the log rates of cells; -1 is an unknown label."""
        sums = self.closed_sums(gammas)
        parts = [
            self.weights.log_rates(
                self.features(gammas, sums, positions_NM[at : at + CELLS_AT_ONCE])
            )
            for at in range(0, len(positions_NM), CELLS_AT_ONCE)
        ]
        return np.concatenate([np.empty(0), *parts])

    def features(
        self, gammas: GammaPosterior, sums: ClosedSums, positions_NM: Positions
    ) -> Features:
        """Return what the rates of cells are made of."""
        known_NM = self.known(positions_NM)
        found = features_at(gammas, sums, self.sets, self.mirror, known_NM)
        if self.neighbours is None:
            return found
        return found._replace(near_NA=self.neighbours.at(known_NM)[:, None])

    def closed_sums(self, gammas: GammaPosterior) -> ClosedSums:
        """Return the sums of rates over all cells; kept with the posterior they are of."""
        kept = self._kept
        if not kept or kept[0] is not gammas:
            kept[:] = [gammas, closed_sums_of(gammas, self.seen, self.share)]
        return kept[1]  # type: ignore[no-any-return]

    @cached_property
    def _kept(self) -> list[Any]:
        return []

    def added(self, cells: NewCells) -> Occurrence:
        """Return the occurrence with further cells in its counts.

        Where other shares of the cells of new labels and of known ones are known, a cell of a new
        label stands for as many as make up for it: sums over all cells have one share.
        """
        seen, weight_N = [], np.ones(len(cells.indices_NM))
        for axis, (seen_D, size) in enumerate(zip(self.seen, cells.shape, strict=True)):
            column_N = cells.indices_NM[:, axis]
            longer_D = np.append(seen_D, np.zeros(size - len(seen_D), dtype=bool))
            weight_N[~longer_D[column_N]] = cells.share / cells.new_share
            longer_D[column_N] = True
            seen.append(longer_D)
        sets = tuple(each.added(cells.indices_NM, cells.shape, weight_N) for each in self.sets)
        mirror = self.mirror and self.mirror.added(cells.indices_NM, cells.shape, cells.places)
        near = self.neighbours and self.neighbours.added(cells.indices_NM, cells.shape, cells.share)
        return replace(
            self, share=cells.share, seen=tuple(seen), sets=sets, mirror=mirror, neighbours=near
        )

    # -- as arrays --------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return all that is needed to build this again, as named arrays."""
        found: Arrays = {"share": np.array([self.share])}
        found |= {f"seen_{m}": seen_D.astype(np.uint8) for m, seen_D in enumerate(self.seen)}
        found |= named("weights/", vars(self.weights))
        for number, each in enumerate(self.sets):
            own = {
                "axes": np.array(each.axes, dtype=np.int64),
                "sizes": np.array(each.sizes, dtype=np.int64),
                "keys": each.keys_P,
                "counts": each.counts_P.astype(
                    float if each.counts_P.dtype.kind == "f" else np.int64
                ),
                "mirrored": np.array([each.mirrored], dtype=np.uint8),
            }
            found |= named(f"set_{number}/", own)
        if self.prior_rate_M is not None:
            found["prior_rates"] = self.prior_rate_M
        if self.neighbours is not None:
            found |= named("near/", self.neighbours.arrays())
        if self.mirror is not None:
            found |= named("mirror/", self.mirror.arrays())
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Occurrence | None:
        """Build from what `arrays` returned; None from nothing."""
        if not arrays:
            return None
        n_axes = sum(name.startswith("seen_") for name in arrays)
        sets = [
            CombinationCounts(
                whole(own["axes"]),
                whole(own["sizes"]),
                own["keys"],
                own["counts"],
                bool(own["mirrored"][0]),
            )
            for own in numbered(arrays, "set")
        ]
        return cls(
            float(arrays["share"][0]),
            tuple(arrays[f"seen_{axis}"].astype(bool) for axis in range(n_axes)),
            tuple(sets),
            OccurrenceWeights(**part_of(arrays, "weights/")),
            Mirror.from_arrays(part_of(arrays, "mirror/")),
            arrays.get("prior_rates"),
            Neighbours.from_arrays(part_of(arrays, "near/")),
        )


def closed_sums_of(gammas: GammaPosterior, seen: Sequence[Mask], share: float) -> ClosedSums:
    """Return sums over all cells at a complete posterior, whose first derived axis is the gate."""
    padded = [np.append(seen_D, False) for seen_D in seen]
    if not gammas.derived:
        return ClosedSums(gammas.means, padded, share)
    return ClosedSums(gammas.means, padded, share, *gate_pairs(gammas.derived[0]))


def features_at(
    gammas: GammaPosterior,
    sums: ClosedSums,
    sets: Sequence[CombinationCounts],
    mirror: Mirror | None,
    known_NM: Positions,
) -> Features:
    """Return the features of cells; -1 is an unknown label.

    A combination with an unknown label has the count that is expected of it. Sums over the gate's
    own pairs are those of the factors alone: weights can then undo what the gate made of few cells.
    """
    shape = len(known_NM), len(sets)
    counts_NS, sums_NS, echo_N = np.empty(shape), np.empty(shape), np.zeros(len(known_NM))
    gate_N = mirrored_gate_N = gammas.multipliers(known_NM)
    mirrored_NM = known_NM
    if mirror is not None:
        mirrored_NM = mirror.positions(known_NM)
        mirrored_gate_N = gammas.multipliers(mirrored_NM)
        echo_N = mirror.echoes(known_NM, mirrored_NM)
    for number, each in enumerate(sets):
        where_NM, own_N = (mirrored_NM, mirrored_gate_N) if each.mirrored else (known_NM, gate_N)
        if sums.pairs is not None and each.axes == sums.pairs.axes:  # what the gate was made of
            own_N = np.ones(len(own_N))
        sums_NS[:, number] = sums.of_combinations(each.axes, where_NM, own_N)
        unknown_N = (where_NM[:, list(each.axes)] < 0).any(axis=1)
        counts_NS[:, number] = np.where(unknown_N, sums_NS[:, number], each.at(where_NM))
    log_base_N = np.log(np.maximum(rates_at(gammas.means, known_NM) * gate_N, 1e-300))
    return Features(log_base_N, counts_NS, sums_NS, echo_N, np.empty((len(known_NM), 0)))
