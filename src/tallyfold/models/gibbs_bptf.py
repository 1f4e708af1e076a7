"""GibbsBPTF: Bayesian Poisson tensor factorization by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tallyfold.data.axis import Axis
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.inference.schemes.gibbs import (
    START_SWEEPS,
    GibbsState,
    GibbsStep,
    Part,
    draws_or_present,
)
from tallyfold.models.chain_model import ChainModel
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import (
    Amount,
    Positive,
    PositiveInt,
    Scale,
    choose_likelihood,
)


@dataclass(kw_only=True, eq=False, repr=False)
class GibbsBPTF(ChainModel):
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
    n_chains
        How many chains, each with a start of its own, and `n_draws` of each. Predictions are made
        of all; that they agree (R-hat) says that they have forgotten their starts.
    validation
        A share of the training cells to hold out (None: none). The predictive distribution is
        calibrated on them; they stop nothing. Not used with ``zeros="observed"``.
    amount, scale
        As in `BPTF`.
    random_state
        Seed of the chain and of the validation part. None draws
        one, which `random_state_` has.
    backend
        ``"numba"``, ``"numpy"``, or ``"auto"`` to choose by size.

    Notes
    -----
    The chain starts at the means of a few variational sweeps. Components may change places along
    a long chain: rates and predictions do not mind, averages of factors do. Those of further
    chains are put in the order of the first one's.

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

    n_components: PositiveInt = 10
    likelihood: Literal["poisson", "negative-binomial"] = "poisson"
    dispersion: Positive = 1.0
    prior_shape: Positive = 1.0
    prior_rate: Positive | None = None
    amount: Amount = "negative-binomial"
    scale: Scale = "auto"

    def _chain(self, cells: TrainingCells, seed: int) -> Sequence[Phase]:
        observed = self.zeros == "observed"
        likelihood = choose_likelihood(self.likelihood, self.truncated, self.zeros)
        start = CAVIStep(
            cells=cells,
            likelihood=likelihood,
            zeros_observed=observed,
            n_components=self.n_components,
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=seed,
            backend=self.backend,
        )
        chain = GibbsStep(
            cells=cells,
            likelihood=likelihood,
            zeros_observed=observed,
            prior_shape=self.prior_shape,
            part=Part(),
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=seed,
            backend=self.backend,
        )
        return [
            Phase("start", start, start.start, StoppingRules(START_SWEEPS)),
            *self._draws(chain, GibbsState.from_sweeps),
        ]

    def _make_fitted(self, state: GibbsState, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        likelihood = choose_likelihood(self.likelihood, self.truncated, self.zeros)
        chains = [draws_or_present(each.draws, each.factors) for each in [state, *self._others]]
        factors = self._sampled(chains, axes, cells)
        return Fitted(
            tuple(axes), factors, likelihood, self.dispersion if likelihood.dispersed else None
        )
