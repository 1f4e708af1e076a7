"""Two axes with the same labels: what B did to A speaks for what A does to B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyfold.kernels.arrays import Array, Floats, Ints, Mask, Positions
from tallyfold.posterior.derived_axis import (
    combination_keys,
    missing_keys,
    resized_keys,
    rows_of_keys,
)
from tallyfold.posterior.named_arrays import whole

PRIOR_HITS, PRIOR_CELLS = 0.3, 1.5
"""Added to the cells whose mirror has a count, before shares are taken."""
MOST_SHARE = 0.97


@dataclass(frozen=True)
class Mirror:
    """Cells whose labels on two axes are exchanged.

    Attributes
    ----------
    axes
        The two axes.
    to_second_D, to_first_D
        Where the labels of each stand on the other; -1 if they do not.
    sizes, keys_P
        The cells with a count, as the combinations of all axes.
    echo_D, by
        How strongly a count of the mirrored cell speaks for one, per label of the axis `by`; one
        number for all if that is -1.
    """

    axes: tuple[int, int]
    to_second_D: Positions
    to_first_D: Positions
    sizes: tuple[int, ...]
    keys_P: Ints
    echo_D: Floats
    by: int

    @classmethod
    def of(
        cls,
        axes: tuple[int, int],
        to_second_D: Positions,
        to_first_D: Positions,
        sizes: Sequence[int],
        keys_P: Ints,
        indices_NM: Positions,
        share: float,
    ) -> Mirror:
        """Learn echoes from cells with a count, `share` of all cells being among them.

        The share of cells whose mirror has a count, too, by label of the axis that tells most.
        """
        one = np.ones(1)
        plain = cls(axes, to_second_D, to_first_D, tuple(sizes), keys_P, one, -1)
        mirrored_NM = plain.positions(indices_NM)
        has_N = (mirrored_NM >= 0).all(axis=1)
        hit_N = plain.filled(mirrored_NM)[has_N]
        best, found = -np.inf, (one, -1)
        for by in [-1, *(m for m in range(len(sizes)) if m not in axes)]:
            label_N = np.zeros(len(hit_N), int) if by < 0 else indices_NM[has_N, by]
            n_rows = 1 if by < 0 else sizes[by]
            hits_D = np.bincount(label_N, hit_N, minlength=n_rows)
            cells_D = np.bincount(label_N, minlength=n_rows) * share
            share_D = np.minimum((hits_D + PRIOR_HITS) / (cells_D + PRIOR_CELLS), MOST_SHARE)
            rest_D = np.maximum(cells_D - hits_D, 0)
            score = float(hits_D @ np.log(share_D) + rest_D @ np.log1p(-share_D)) - 2.0 * n_rows
            if score > best:
                best, found = score, (-np.log1p(-share_D), by)
        return replace(plain, echo_D=found[0], by=found[1])

    def positions(self, positions_NM: Positions) -> Positions:
        """Return the mirrored cells; -1 for labels that the other axis does not have."""
        first, second = self.axes
        mirrored_NM = positions_NM.copy(order="F")
        own = np.append(self.to_second_D, -1)[positions_NM[:, first]]
        other = np.append(self.to_first_D, -1)[positions_NM[:, second]]
        mirrored_NM[:, first], mirrored_NM[:, second] = other, own
        return mirrored_NM

    def filled(self, positions_NM: Positions) -> Mask:
        """Return whether cells are known to have a count."""
        key_N = combination_keys(positions_NM, range(len(self.sizes)), self.sizes)
        return np.asarray(rows_of_keys(key_N, self.keys_P) < len(self.keys_P))

    def echoes(self, positions_NM: Positions, mirrored_NM: Positions) -> Floats:
        """Return the strength of each cell's echo; zero if its mirror has no count."""
        echo_N = np.full(len(positions_NM), self.echo_D[0])
        if self.by >= 0:
            typical = float(np.median(self.echo_D))
            echo_N = np.append(self.echo_D, typical)[positions_NM[:, self.by]]
        return np.asarray(echo_N * self.filled(mirrored_NM))

    def added(
        self,
        indices_NM: Positions,
        shape: Sequence[int],
        places: tuple[Positions, Positions] | None = None,
    ) -> Mirror:
        """Return the mirror with further cells.

        If axes have become longer, `places` are where the labels of each now stand on the other.
        """
        sizes, (to_second_D, to_first_D) = (
            tuple(shape),
            places
            or (
                self.to_second_D,
                self.to_first_D,
            ),
        )
        keys_U = np.unique(combination_keys(indices_NM, range(len(sizes)), sizes))
        old_P = resized_keys(self.keys_P, self.sizes, sizes)
        new_U, before_U = missing_keys(keys_U, old_P)
        keys_P = np.insert(old_P, before_U, new_U)
        longer = 0 if self.by < 0 else sizes[self.by] - len(self.echo_D)
        echo_D = np.append(self.echo_D, np.full(longer, np.median(self.echo_D)))
        return replace(
            self, sizes=sizes, keys_P=keys_P, echo_D=echo_D,
            to_second_D=to_second_D, to_first_D=to_first_D,
        )  # fmt: skip

    def arrays(self) -> dict[str, Array]:
        """Return all that is needed to build this again, as named arrays."""
        return {
            "axes": np.array([*self.axes, self.by], dtype=np.int64),
            "to_second": self.to_second_D,
            "to_first": self.to_first_D,
            "sizes": np.array(self.sizes, dtype=np.int64),
            "keys": self.keys_P,
            "echo": self.echo_D,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Mirror | None:
        """Build from what `arrays` returned; None from nothing."""
        if not arrays:
            return None
        first, second, by = arrays["axes"].tolist()
        return cls(
            (first, second),
            arrays["to_second"],
            arrays["to_first"],
            whole(arrays["sizes"]),
            arrays["keys"],
            arrays["echo"],
            by,
        )
