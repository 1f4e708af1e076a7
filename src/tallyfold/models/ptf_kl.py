"""PTF-KL: Poisson tensor factorization by maximum likelihood (CP-APR)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cp_apr import CPAPRState, CPAPRStep
from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.models.base import CountModel
from tallyfold.models.fitted import Fitted, names_and_labels
from tallyfold.models.parameters import (
    Backend,
    NonNegative,
    Positive,
    PositiveInt,
    Seed,
    Share,
    Zeros,
    choose_likelihood,
)
from tallyfold.posterior.point_factors import PointFactors

NO_CHANGE = 1e-300
"""A sweep that finds the conditions to hold changes nothing, so the loss is the same number."""


@dataclass(kw_only=True, eq=False, repr=False)
class PTFKL(CountModel):
    """Poisson tensor factorization by maximum likelihood: CP-APR's multiplicative updates.

    Parameters
    ----------
    n_components
        How many components.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros; the latter is
        the algorithm of the literature.
    truncated
        Whether the likelihood is of counts of at least one; None: if zeros are missing.
    max_iter, max_inner
        At most `max_iter` sweeps over the axes, and `max_inner` updates of an axis per visit.
    tol
        Stop when the Karush-Kuhn-Tucker conditions hold up to this on every axis.
    kappa, kappa_tol
        Entries below `kappa_tol` whose gradient says they should grow are raised by `kappa` times
        their component's weight, or by less where that would raise the loss.
    floor
        Rates below it are taken as it, in the fit and in predictions.
    validation, patience
        As in `BPTF`: a share of the cells to stop early and calibrate on.
    random_state
        Seed of the random start and of the validation part. None draws
        one, which `random_state_` has.
    backend
        ``"numba"``, ``"numpy"``, or ``"auto"`` to choose by size.

    References
    ----------
    Chi and Kolda, "On Tensors, Sparsity, and Nonnegative Factorizations", SIAM Journal on Matrix
    Analysis and Applications 33(4), 2012.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> model = tf.PTFKL(n_components=2, zeros="observed", max_iter=30).fit(truth.tensor)
    >>> bool((model.history_["objective"].diff()[1:] <= 1e-12).all())
    True
    """

    name: ClassVar[str] = "ptf-kl"

    n_components: PositiveInt = 10
    zeros: Zeros = "missing"
    truncated: bool | None = None
    max_iter: PositiveInt = 200
    max_inner: PositiveInt = 10
    tol: NonNegative = 1e-4
    kappa: NonNegative = 1e-2
    kappa_tol: NonNegative = 1e-10
    floor: Positive = 1e-10
    validation: Share | None = 0.1
    patience: PositiveInt = 10
    random_state: Seed = 0
    backend: Backend = "auto"

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        step = CPAPRStep(
            cells=cells,
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            max_inner=self.max_inner,
            tol=self.tol,
            kappa=self.kappa,
            kappa_tol=self.kappa_tol,
            floor=self.floor,
            seed=self._seed,
            backend=self.backend,
            validation=None if held_out is None else ValidationCells(held_out, self.backend),
        )
        rules = StoppingRules(self.max_iter, NO_CHANGE, self.patience, warns=True)
        return [Phase("sweeps", step, step.start, rules)]

    def _make_fitted(self, state: CPAPRState, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        shared = [factor * state.weight_K ** (1 / len(axes)) for factor in state.factors]
        seen = self._informed(cells)
        return Fitted(
            axes=tuple(axes),
            factors=PointFactors.with_unseen(*names_and_labels(axes), shared, seen),
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            dispersion=None,
        )

    def _moments(self, positions: Positions) -> tuple[Floats, Floats]:
        mean_N, variance_N = super()._moments(positions)
        return np.maximum(mean_N, self.floor), variance_N  # a rate of zero would forbid any count
