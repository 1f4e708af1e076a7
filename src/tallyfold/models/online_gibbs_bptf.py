"""OnlineGibbsBPTF: the beta-negative-binomial CP model, by batch or online Gibbs sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tallyfold.data.axis import Axis
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.schemes.gibbs import Part, draws_or_present
from tallyfold.inference.schemes.online_gibbs import (
    Averaging,
    OnlineGibbsState,
    OnlineGibbsStep,
    Prior,
    folded,
)
from tallyfold.kernels.arrays import Floats
from tallyfold.models.chain_model import ChainModel
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import (
    NonNegative,
    Positive,
    PositiveInt,
    choose_likelihood,
    integer,
    number,
)


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineGibbsBPTF(ChainModel):
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
    n_chains
        How many chains, as in `GibbsBPTF`; `component_weights_` are those of the first.
    validation
        A share of the training cells to hold out (None: none). The predictive distribution is
        calibrated on them; they stop nothing. Not used with ``zeros="observed"``.
    random_state
        Seed of the chain and of the validation part. None draws
        one, which `random_state_` has.
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

    n_components: PositiveInt = 10
    dirichlet: Positive = 1.0
    c: Positive = 1.0
    g: Positive = 1.0
    eps: Annotated[float, number(0, 1)] | None = None
    method: Literal["batch", "online"] = "batch"
    batch_size: Annotated[float, integer(1) | number(0, 1)] = 10_000
    t0: NonNegative = 1.0
    kappa: Annotated[float, number(0.5, 1, high_included=True)] = 0.6

    @property
    def component_weights_(self) -> Floats:
        """Posterior means of the weights: a component's expected total over all cells."""
        return self.fitted_.extra["component_weights"]

    def _chain(self, cells: TrainingCells, seed: int) -> Sequence[Phase]:
        step = OnlineGibbsStep(
            cells=cells,
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            prior=self._prior,
            part=Part(),
            averaging=self._averaging(len(cells.counts_N)) if self.method == "online" else None,
            seed=seed,
            backend=self.backend,
        )
        return self._draws(step, step.start)

    def _make_fitted(
        self, state: OnlineGibbsState, axes: Sequence[Axis], cells: TrainingCells
    ) -> Fitted:
        (weights_SK,) = draws_or_present([state.weight_draws_SK], [state.weight_K])
        chains = [
            draws_or_present(each.draws, folded(each.columns, each.weight_K, 0))
            for each in [state, *self._others]
        ]
        return Fitted(
            tuple(axes),
            self._sampled(chains, axes, cells),
            choose_likelihood("poisson", self.truncated, self.zeros),
            None,
            extra={"component_weights": weights_SK.mean(axis=0)},
        )

    def _averaging(self, n_cells: int) -> Averaging:
        share = self.batch_size < 1
        size = max(1, round(self.batch_size * n_cells)) if share else int(self.batch_size)
        return Averaging(size, self.t0, self.kappa)

    @property
    def _prior(self) -> Prior:
        eps = 1 / max(self.n_components, 2) if self.eps is None else self.eps
        return Prior(self.dirichlet, self.c, self.g, eps)
