"""Margins: the count head alone, without factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.models.complete_logs import same_chance
from tallyfold.models.fitted import Fitted
from tallyfold.models.new_cells import TakesNewCells
from tallyfold.models.parameters import Scale, Seed, Zeros, choose_likelihood


@dataclass(kw_only=True, eq=False, repr=False)
class Margins(TakesNewCells):
    """Counts of at least one, from the margins of all combinations of axes; no factors.

    A small network turns what the cells of each of a cell's labels, and of their combinations, say
    of counts into the distribution of the cell's count. It finds no components: whoever claims that
    factors help to predict counts must beat it.

    Parameters
    ----------
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros. If observed, a
        zero is as probable in one cell as in another.
    scale
        The smallest and the largest value that counts can have, such as (1, 5) for stars;
        ``"auto"`` recognises a bounded scale, None never has one.
    random_state
        Seed of the folds, of held-out cells and of the networks. None draws
        one, which `random_state_` has.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.load_demo())
    >>> model = tf.Margins().fit(train)
    >>> bool(model.score(test) > tf.Constant().fit(train).score(test))
    True
    """

    name: ClassVar[str] = "margins"
    takes_hidden_for_zeros: ClassVar[bool] = False
    many_processes: ClassVar[bool] = True

    zeros: Zeros = "missing"
    scale: Scale = "auto"
    random_state: Seed = 0

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        return []

    @property
    def _has_head(self) -> bool:
        return True

    def _make_fitted(self, state: None, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        n_all = float(np.prod(cells.shape, dtype=float)) * cells.share
        likelihood = choose_likelihood("poisson", None, self.zeros)
        return Fitted(tuple(axes), None, likelihood, None, extra=same_chance(cells.n_cells, n_all))

    def _rates(self, positions: Positions) -> Floats:
        return self._predictive(positions).mean()
