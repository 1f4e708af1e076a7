"""MainEffects: one multiplicative effect per entity, which every factorization must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.models.gamma_model import SweptModel
from tallyfold.models.parameters import NonNegative, PositiveInt


@dataclass(kw_only=True, eq=False, repr=False)
class MainEffects(SweptModel):
    """Rates that are a product of one effect per entity: BPTF with a single component.

    Parameters are those of `BPTF` without ``n_components``.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> tf.MainEffects(max_iter=20).fit(tensor).posterior_.n_components
    1
    """

    name: ClassVar[str] = "main-effects"
    likelihood: Literal["poisson", "negative-binomial"] = "poisson"
    max_iter: PositiveInt = 200
    tol: NonNegative = 1e-5

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        step = self._sweeps(cells, held_out, 1, self.likelihood)
        rules = StoppingRules(self.max_iter, self.tol, self.patience, warns=True)
        return [Phase("sweeps", step, step.start, rules)]
