"""OnlineGibbsBPTF: the beta-negative-binomial CP model, by batch or online Gibbs sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import State, StoppingRules
from tallyfold.inference.schemes.gibbs import Schedule, factors_of, state_of
from tallyfold.inference.schemes.online_gibbs import Averaging, OnlineGibbsStep, Prior, folded
from tallyfold.models.base import CountModel, choose_likelihood
from tallyfold.models.fitted import Fitted
from tallyfold.models.gibbs_bptf import CHAIN_RULES, left_by_chain
from tallyfold.models.parameters import NONE, Rule, integer, number, one_of


class OnlineGibbsBPTF(CountModel):
    """Poisson CP factorization with component weights that shrink where they are not needed.

    Columns of factors are Dirichlet, their weights have a Gamma prior whose scale p / (1 - p)
    has p from a Beta: the beta-negative-binomial CP model. Draws are made from all cells
    (``"batch"``) or from mini-batches and running averages (``"online"``).

    Parameters
    ----------
    n_components
        The most components there may be.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros; the literature
        has them observed.
    truncated
        Whether the likelihood is of counts of at least one, as in `BPTF`.
    dirichlet
        Concentration of the columns' Dirichlet prior.
    c, g, eps
        Weights are Gamma(g, scale p / (1 - p)), p is Beta(c * eps, c * (1 - eps)). An `eps` of
        None is ``1 / n_components`` (one half for a single component).
    method
        ``"batch"`` or ``"online"``.
    batch_size, t0, kappa
        Online: cells in a mini-batch (a number, or a share below one); the t-th batch counts
        ``(t + t0) ** -kappa`` in the averages. One iteration is one mini-batch.
    burn_in, n_draws, thin
        Iterations to forget the start by; then every `thin`-th is kept until there are `n_draws`.
    validation
        A share of the training cells to hold out (None: none). The predictive distribution is
        calibrated on them; they stop nothing. Not used with ``zeros="observed"``.
    random_state
        Seed of the chain and of the validation part.
    backend
        ``"numba"``, ``"numpy"``, or ``"auto"`` to choose by size.

    Notes
    -----
    With zeros missing the columns are not Dirichlet any more given the counts. They are still
    drawn exactly, by one more Gamma variable per component (docs/models/online-gibbs.md). The
    online form is an approximation: its draws are given averages, not given all counts.

    References
    ----------
    Hu, Rai, Chen, Harding and Carin, "Scalable Bayesian Non-Negative Tensor Factorization for
    Massive Count Data", ECML PKDD 2015.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> model = tf.OnlineGibbsBPTF(n_components=5, burn_in=30, n_draws=20, thin=1)
    >>> model.fit(truth.tensor).component_weights_.shape
    (5,)
    """

    name: ClassVar[str] = "online-gibbs"
    rules: ClassVar[Mapping[str, Rule]] = CHAIN_RULES | {
        "dirichlet": number(0),
        "c": number(0),
        "g": number(0),
        "eps": number(0, 1) | NONE,
        "method": one_of("batch", "online"),
        "batch_size": integer(1) | number(0, 1),
        "t0": number(0, low_included=True),
        "kappa": number(0.5, 1, high_included=True),
    }

    def __init__(
        self,
        *,
        n_components: int = 10,
        zeros: Literal["missing", "observed"] = "missing",
        truncated: bool | None = None,
        dirichlet: float = 1.0,
        c: float = 1.0,
        g: float = 1.0,
        eps: float | None = None,
        method: Literal["batch", "online"] = "batch",
        batch_size: float = 10_000,
        t0: float = 1.0,
        kappa: float = 0.6,
        burn_in: int = 100,
        n_draws: int = 50,
        thin: int = 2,
        validation: float | None = 0.1,
        random_state: int = 0,
        backend: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.zeros = zeros
        self.truncated = truncated
        self.dirichlet = dirichlet
        self.c = c
        self.g = g
        self.eps = eps
        self.method = method
        self.batch_size = batch_size
        self.t0 = t0
        self.kappa = kappa
        self.burn_in = burn_in
        self.n_draws = n_draws
        self.thin = thin
        self.validation = validation
        self.random_state = random_state
        self.backend = backend

    @property
    def component_weights_(self) -> npt.NDArray[np.float64]:
        """Posterior means of the weights: a component's expected total over all cells."""
        return self.fitted_.extra["component_weights"]

    def _stopping(self) -> StoppingRules:
        return StoppingRules(self._schedule.n_iterations)

    def _step(self, cells: TrainingCells, held_out: CountTensor | None) -> OnlineGibbsStep:
        return OnlineGibbsStep(
            cells=cells,
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            prior=self._prior,
            schedule=self._schedule,
            averaging=self._averaging(len(cells.counts_N)) if self.method == "online" else None,
            seed=self.random_state,
            backend=self.backend,
        )

    def _make_fitted(self, state: State, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        likelihood = choose_likelihood("poisson", self.truncated, self.zeros)
        weight_K = np.asarray(state["weight"], dtype=float)
        kept_SK = np.asarray(state["draws_weight"], dtype=float)
        mean_K = kept_SK.mean(axis=0) if len(kept_SK) else weight_K
        last = state_of(folded(factors_of(state), weight_K, 0))
        extra = {"component_weights": mean_K}
        return left_by_chain(state | last, axes, cells, self.zeros, likelihood, extra=extra)

    def _averaging(self, n_cells: int) -> Averaging:
        share = self.batch_size < 1
        size = max(1, round(self.batch_size * n_cells)) if share else int(self.batch_size)
        return Averaging(size, self.t0, self.kappa)

    @property
    def _prior(self) -> Prior:
        eps = 1 / max(self.n_components, 2) if self.eps is None else self.eps
        return Prior(self.dirichlet, self.c, self.g, eps)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.burn_in, self.n_draws, self.thin)
