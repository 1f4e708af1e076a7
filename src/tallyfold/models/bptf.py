"""BPTF: Bayesian Poisson tensor factorization by variational inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import State, StoppingRules
from tallyfold.inference.schemes.cavi import CAVIStep, factors_of
from tallyfold.models.base import CountModel, choose_likelihood, names_and_labels
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import (
    BOOLEAN,
    DEVICE,
    NONE,
    SEED,
    VALIDATION,
    ZEROS,
    Rule,
    integer,
    number,
    one_of,
)
from tallyfold.posterior.gamma_factors import GammaFactors

VARIATIONAL_RULES: dict[str, Rule] = {
    "zeros": ZEROS,
    "likelihood": one_of("poisson", "negative-binomial"),
    "truncated": BOOLEAN | NONE,
    "dispersion": number(0, 1e9) | NONE,
    "prior_shape": number(0, 1e6),
    "prior_rate": number(0, 1e12) | NONE,
    "max_iter": integer(1),
    "tol": number(0, low_included=True),
    "validation": VALIDATION,
    "patience": integer(1),
    "random_state": SEED,
    "backend": one_of("auto", "numba", "numpy", "torch"),
    "device": DEVICE,
}


class BPTF(CountModel):
    """Bayesian Poisson tensor factorization: Gamma factors, found by variational inference.

    Parameters
    ----------
    n_components
        How many components.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    likelihood
        ``"poisson"``, or ``"negative-binomial"`` for counts more dispersed than a Poisson's.
    truncated
        Whether the likelihood is of counts of at least one. None: if zeros are missing, since a
        cell that is seen then has a count of at least one. False is the form of the literature.
    dispersion
        The negative binomial's r; None learns it.
    prior_shape, prior_rate
        Of the factors' Gamma prior. A rate of None is learnt, one per axis.
    max_iter, tol
        At most so many sweeps over the axes; fewer if the bound rises by less than this, relative.
    validation, patience
        A share of the training cells to hold out (None: none). The sweep with the best score on
        them is kept, the fit ends when it has not improved for `patience` sweeps, and the
        predictive distribution is calibrated on them. Not used with ``zeros="observed"``.
    random_state
        Seed of the random start and of the validation part.
    backend, device
        Who computes, and where. ``"numba"`` (compiled) and ``"numpy"`` use the CPU, ``"torch"`` the
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. ``"auto"`` chooses by size on the CPU, and is
        torch elsewhere. The device is that of the fit; predictions are made on the CPU.

    References
    ----------
    Schein, Paisley, Blei and Wallach, "Bayesian Poisson Tensor Factorization for Inferring
    Multilateral Relations from Sparse Dyadic Event Counts", KDD 2015.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> train, test = tf.split(truth.tensor)
    >>> model = tf.BPTF(n_components=2, max_iter=50).fit(train)
    >>> bool(model.score(test) > tf.Constant().fit(train).score(test))
    True
    """

    name: ClassVar[str] = "bptf"
    rules: ClassVar[Mapping[str, Rule]] = {"n_components": integer(1)} | VARIATIONAL_RULES
    many_processes: ClassVar[bool] = True

    def __init__(
        self,
        *,
        n_components: int = 10,
        zeros: Literal["missing", "observed"] = "missing",
        likelihood: Literal["poisson", "negative-binomial"] = "poisson",
        truncated: bool | None = None,
        dispersion: float | None = None,
        prior_shape: float = 1.0,
        prior_rate: float | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        validation: float | None = 0.1,
        patience: int = 10,
        random_state: int = 0,
        backend: str = "auto",
        device: str = "cpu",
    ) -> None:
        self.n_components = n_components
        self.zeros = zeros
        self.likelihood = likelihood
        self.truncated = truncated
        self.dispersion = dispersion
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.max_iter = max_iter
        self.tol = tol
        self.validation = validation
        self.patience = patience
        self.random_state = random_state
        self.backend = backend
        self.device = device

    def _stopping(self) -> StoppingRules:
        return StoppingRules(self.max_iter, self.tol, self.patience)

    def _step(self, cells: TrainingCells, held_out: CountTensor | None) -> CAVIStep:
        return CAVIStep(
            cells=cells,
            likelihood=choose_likelihood(self.likelihood, self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self._rank,
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=self.random_state,
            backend=self.backend,
            validation=None if held_out is None else ValidationCells(held_out, self.backend),
        )

    def _make_fitted(self, state: State, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        shapes, rates = factors_of(state)
        likelihood = choose_likelihood(self.likelihood, self.truncated, self.zeros)
        seen = self._informed(cells)
        names, labels = names_and_labels(axes)
        return Fitted(
            axes=tuple(axes),
            factors=GammaFactors.with_unseen(names, labels, shapes, rates, seen),
            likelihood=likelihood,
            dispersion=float(state["dispersion"]) if likelihood.dispersed else None,
        )

    @property
    def _rank(self) -> int:
        return self.n_components
