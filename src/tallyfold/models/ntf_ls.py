"""NTF-LS: non-negative tensor factorization by least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import State, StoppingRules
from tallyfold.inference.schemes.least_squares import LeastSquaresStep, factors_of
from tallyfold.models.base import CountModel, names_and_labels
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import SEED, VALIDATION, ZEROS, Rule, integer, number, one_of
from tallyfold.posterior.point_factors import PointFactors


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
        At most so many steps; fewer if the loss changes by less than this, relative.
    validation, patience
        A share of the cells to hold out (None: none). The step with the smallest squared error on
        them is kept, and the fit ends when it has not improved for `patience` steps. Not used
        with ``zeros="observed"``.
    random_state
        Seed of the random start and of the validation part.
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
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_components": integer(1),
        "zeros": ZEROS,
        "learning_rate": number(0),
        "l2": number(0, low_included=True),
        "max_iter": integer(1),
        "tol": number(0, low_included=True),
        "validation": VALIDATION,
        "patience": integer(1),
        "random_state": SEED,
        "backend": one_of("auto", "numba", "numpy"),
    }

    def __init__(
        self,
        *,
        n_components: int = 10,
        zeros: Literal["missing", "observed"] = "missing",
        learning_rate: float = 1e-2,
        l2: float = 1e-3,
        max_iter: int = 500,
        tol: float = 1e-6,
        validation: float | None = 0.1,
        patience: int = 20,
        random_state: int = 0,
        backend: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.zeros = zeros
        self.learning_rate = learning_rate
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.validation = validation
        self.patience = patience
        self.random_state = random_state
        self.backend = backend

    def _stopping(self) -> StoppingRules:
        return StoppingRules(self.max_iter, self.tol, self.patience)

    def _step(self, cells: TrainingCells, held_out: CountTensor | None) -> LeastSquaresStep:
        return LeastSquaresStep(
            cells=cells,
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            learning_rate=self.learning_rate,
            l2=self.l2,
            seed=self.random_state,
            backend=self.backend,
            validation=None if held_out is None else ValidationCells(held_out, self.backend),
        )

    def _make_fitted(self, state: State, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        seen = self._informed(cells)
        names, labels = names_and_labels(axes)
        return Fitted(
            axes=tuple(axes),
            factors=PointFactors.with_unseen(names, labels, factors_of(state), seen),
            likelihood=None,
            dispersion=None,
        )
