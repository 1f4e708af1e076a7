"""GibbsBPTF: Bayesian Poisson tensor factorization by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import State, StoppingRules
from tallyfold.inference.schemes.gibbs import GibbsStep, Schedule, draws_of
from tallyfold.models.base import CountModel, choose_likelihood
from tallyfold.models.fitted import Arrays, Fitted
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
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.posterior.predictive import Calibration
from tallyfold.posterior.sampled_factors import SampledFactors
from tallyfold.probability.counts import CountLikelihood

CHAIN_RULES: dict[str, Rule] = {
    "n_components": integer(1),
    "zeros": ZEROS,
    "truncated": BOOLEAN | NONE,
    "burn_in": integer(0),
    "n_draws": integer(1),
    "thin": integer(1),
    "validation": VALIDATION,
    "random_state": SEED,
    "backend": one_of("auto", "numba", "numpy"),
}


class GibbsBPTF(CountModel):
    """Bayesian Poisson tensor factorization: Gamma factors, drawn by Gibbs sampling.

    The model of `BPTF`. Its posterior is not taken for independent Gammas: what is left are
    draws of all factors together, so that predictions carry the full uncertainty.

    Parameters
    ----------
    n_components
        How many components.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    likelihood, truncated
        The distribution of a count, as in `BPTF`.
    dispersion
        The negative binomial's r, a fixed number; not used by a Poisson.
    prior_shape, prior_rate
        Of the factors' Gamma prior. A rate of None is learnt during burn-in, one per axis.
    burn_in, n_draws, thin
        Sweeps to forget the start by; then every `thin`-th is kept until there are `n_draws`.
    validation
        A share of the training cells to hold out (None: none). The predictive distribution is
        calibrated on them; they stop nothing. Not used with ``zeros="observed"``.
    random_state
        Seed of the chain and of the validation part.
    backend
        ``"numba"``, ``"numpy"``, or ``"auto"`` to choose by size.

    Notes
    -----
    The chain starts at the means of a few variational sweeps. Components may change places along
    a long chain: rates and predictions do not mind, averages of factors do.

    References
    ----------
    Schein, Paisley, Blei and Wallach, "Bayesian Poisson Tensor Factorization for Inferring
    Multilateral Relations from Sparse Dyadic Event Counts", KDD 2015.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> train, test = tf.split(truth.tensor)
    >>> model = tf.GibbsBPTF(n_components=2, burn_in=30, n_draws=20, thin=1).fit(train)
    >>> bool(model.score(test) > tf.Constant().fit(train).score(test))
    True
    >>> model.posterior_.n_draws
    20
    """

    name: ClassVar[str] = "bptf-gibbs"
    rules: ClassVar[Mapping[str, Rule]] = CHAIN_RULES | {
        "likelihood": one_of("poisson", "negative-binomial"),
        "dispersion": number(0),
        "prior_shape": number(0),
        "prior_rate": number(0) | NONE,
    }

    def __init__(
        self,
        *,
        n_components: int = 10,
        zeros: Literal["missing", "observed"] = "missing",
        likelihood: Literal["poisson", "negative-binomial"] = "poisson",
        truncated: bool | None = None,
        dispersion: float = 1.0,
        prior_shape: float = 1.0,
        prior_rate: float | None = None,
        burn_in: int = 100,
        n_draws: int = 50,
        thin: int = 2,
        validation: float | None = 0.1,
        random_state: int = 0,
        backend: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.zeros = zeros
        self.likelihood = likelihood
        self.truncated = truncated
        self.dispersion = dispersion
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.burn_in = burn_in
        self.n_draws = n_draws
        self.thin = thin
        self.validation = validation
        self.random_state = random_state
        self.backend = backend

    def _stopping(self) -> StoppingRules:
        return StoppingRules(self._schedule.n_iterations)

    def _step(self, cells: TrainingCells, held_out: CountTensor | None) -> GibbsStep:
        return GibbsStep(
            cells=cells,
            likelihood=choose_likelihood(self.likelihood, self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            prior_shape=self.prior_shape,
            schedule=self._schedule,
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=self.random_state,
            backend=self.backend,
        )

    def _make_fitted(self, state: State, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        likelihood = choose_likelihood(self.likelihood, self.truncated, self.zeros)
        dispersion = self.dispersion if likelihood.dispersed else None
        return left_by_chain(state, axes, cells, self.zeros, likelihood, dispersion)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.burn_in, self.n_draws, self.thin)


def left_by_chain(
    state: State,
    axes: Sequence[Axis],
    cells: TrainingCells,
    zeros: str,
    likelihood: CountLikelihood,
    dispersion: float | None = None,
    extra: Arrays | None = None,
) -> Fitted:
    """Return what a chain leaves; entities not seen get, draw by draw, the mean of those seen."""
    seen = [seen_D | (zeros == "observed") for seen_D in cells.seen]
    draws = [
        np.stack([mean_over_seen(draw_DK, seen_D) for draw_DK in draws_SDK])
        for draws_SDK, seen_D in zip(draws_of(state), seen, strict=True)
    ]
    names, labels = [axis.name for axis in axes], [axis.labels for axis in axes]
    return Fitted(
        axes=tuple(axes),
        factors=SampledFactors(names, labels, draws),
        likelihood=likelihood,
        dispersion=dispersion,
        calibration=Calibration(),
        history=(),
        n_iter=0,
        reason="",
        extra=extra or {},
    )
