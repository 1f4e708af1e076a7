"""NTF-LS: non-negative tensor factorization by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.adam import Adam
from tallyfold.inference.schemes.least_squares import LeastSquaresStep, factors_of
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
)
from tallyfold.posterior.point_factors import PointFactors


@dataclass(kw_only=True, eq=False, repr=False)
class NTFLS(CountModel):
    """Non-negative tensor factorization: squared error, L2, Adam.

    It predicts means only. There is no distribution of counts behind a squared error, so there is
    no score, median, interval or sample.

    Parameters
    ----------
    n_components
        How many components.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    learning_rate
        The length of Adam's steps, from 1e-4 to 1e-2 as a rule. A factor moves by at most about
        this much in an iteration, so small ones want a larger `max_iter`.
    l2
        The weight of the sum of squared factors beside the sum of squared errors.
    max_iter, tol
        At most `max_iter` steps; fewer if the loss changes by less than `tol`, relative.
    validation, patience
        A share of the cells to hold out (None: none). The step with the smallest squared error on
        them is kept, and the fit ends when it has not improved for `patience` steps. Not used
        with ``zeros="observed"``.
    random_state
        Seed of the random start and of the validation part. None draws
        one, which `random_state_` has.
    backend
        ``"numba"``, ``"numpy"``, or ``"auto"`` to choose by size.

    References
    ----------
    Shashua and Hazan, "Non-Negative Tensor Factorization with Applications to Statistics and
    Computer Vision", ICML 2005. Kingma and Ba, "Adam: A Method for Stochastic Optimization",
    ICLR 2015.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> model = tf.NTFLS(n_components=2).fit(truth.tensor)
    >>> model.predict(truth.tensor).shape == truth.tensor.counts.shape
    True
    """

    name: ClassVar[str] = "ntf-ls"

    n_components: PositiveInt = 10
    zeros: Zeros = "missing"
    learning_rate: Positive = 1e-2
    l2: NonNegative = 1e-3
    max_iter: PositiveInt = 500
    tol: NonNegative = 1e-6
    validation: Share | None = 0.1
    patience: PositiveInt = 20
    random_state: Seed = 0
    backend: Backend = "auto"

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        step = LeastSquaresStep(
            cells=cells,
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            learning_rate=self.learning_rate,
            l2=self.l2,
            seed=self._seed,
            backend=self.backend,
            validation=None if held_out is None else ValidationCells(held_out, self.backend),
        )
        rules = StoppingRules(self.max_iter, self.tol, self.patience, warns=True)
        return [Phase("descent", step, step.start, rules)]

    def _make_fitted(self, state: Adam, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        seen = self._informed(cells)
        return Fitted(
            axes=tuple(axes),
            factors=PointFactors.with_unseen(*names_and_labels(axes), factors_of(state), seen),
            likelihood=None,
            dispersion=None,
        )
