"""PTF-KL: Poisson tensor factorization by maximum likelihood (CP-APR)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import State, StoppingRules
from tallyfold.inference.schemes.cp_apr import CPAPRStep, factors_of
from tallyfold.models.base import CountModel, choose_likelihood, names_and_labels
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import (
    BOOLEAN,
    NONE,
    SEED,
    VALIDATION,
    ZEROS,
    Rule,
    integer,
    number,
    one_of,
)
from tallyfold.posterior.point_factors import PointFactors

Floats = npt.NDArray[np.float64]

NO_CHANGE = 1e-300
"""A sweep that finds the conditions to hold changes nothing, so the loss is the same number."""


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
        At most so many sweeps over the axes, and updates of an axis per visit.
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
        Seed of the random start and of the validation part.
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
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_components": integer(1),
        "zeros": ZEROS,
        "truncated": BOOLEAN | NONE,
        "max_iter": integer(1),
        "max_inner": integer(1),
        "tol": number(0, low_included=True),
        "kappa": number(0, low_included=True),
        "kappa_tol": number(0, low_included=True),
        "floor": number(0),
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
        truncated: bool | None = None,
        max_iter: int = 200,
        max_inner: int = 10,
        tol: float = 1e-4,
        kappa: float = 1e-2,
        kappa_tol: float = 1e-10,
        floor: float = 1e-10,
        validation: float | None = 0.1,
        patience: int = 10,
        random_state: int = 0,
        backend: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.zeros = zeros
        self.truncated = truncated
        self.max_iter = max_iter
        self.max_inner = max_inner
        self.tol = tol
        self.kappa = kappa
        self.kappa_tol = kappa_tol
        self.floor = floor
        self.validation = validation
        self.patience = patience
        self.random_state = random_state
        self.backend = backend

    def _stopping(self) -> StoppingRules:
        return StoppingRules(self.max_iter, NO_CHANGE, self.patience)

    def _step(self, cells: TrainingCells, held_out: CountTensor | None) -> CPAPRStep:
        return CPAPRStep(
            cells=cells,
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            max_inner=self.max_inner,
            tol=self.tol,
            kappa=self.kappa,
            kappa_tol=self.kappa_tol,
            floor=self.floor,
            seed=self.random_state,
            backend=self.backend,
            validation=None if held_out is None else ValidationCells(held_out, self.backend),
        )

    def _make_fitted(self, state: State, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        factors, weight_K = factors_of(state)
        shared = [factor * weight_K ** (1 / len(axes)) for factor in factors]
        seen = self._informed(cells)
        names, labels = names_and_labels(axes)
        return Fitted(
            axes=tuple(axes),
            factors=PointFactors.with_unseen(names, labels, shared, seen),
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            dispersion=None,
        )

    def _moments(self, positions: npt.NDArray[np.int32]) -> tuple[Floats, Floats]:
        mean_N, variance_N = super()._moments(positions)
        return np.maximum(mean_N, self.floor), variance_N  # a rate of zero would forbid any count
