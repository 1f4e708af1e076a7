"""VAE-BPTF as in its paper: encoders trained on the evidence bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.paper_encoders.state import PaperState
from tallyfold.inference.paper_encoders.step import PaperStep
from tallyfold.kernels.encoder import Network
from tallyfold.models.fitted import Fitted
from tallyfold.models.gamma_model import GammaModel, with_fisher_widths
from tallyfold.models.parameters import (
    Count,
    NonNegative,
    Positive,
    PositiveInt,
    Variance,
    choose_likelihood,
)
from tallyfold.models.vae_presets import PAPER_PRESETS

WINDOW = 10
"""Iterations whose objectives are compared: the bound is estimated at draws, and noisy."""


@dataclass(kw_only=True, eq=False, repr=False)
class PaperVAEBPTF(GammaModel):
    """The model of the paper on VAE-BPTF: networks give Gamma posteriors, trained on the bound.

    `VAEBPTF` is the form that predicts best; this one is for comparison with the paper.

    Parameters
    ----------
    n_components
        The number of components.
    zeros
        Whether cells without an entry are ``"missing"`` (the paper) or ``"observed"`` zeros.
    truncated
        Whether the Poisson is of counts of at least one (None: if zeros are missing). The paper's
        is not.
    hidden_layers, hidden_units, hidden_activation, output_activation
        Of the networks: layers of how many ``"softplus"``, ``"relu"`` or ``"sigmoid"`` units, and
        a ``"softplus"`` or ``"sigmoid"`` output.
    encoders
        ``"per-component"`` networks, or one that all components have ``"shared"``.
    reweight, theta, eta
        Cells whose count is far from the most frequent one weigh more (``"paper"``, by `theta` and
        `eta`), those predicted badly so far do (``"error"``), or all weigh the same (``"none"``).
    prior_shape, prior_rate
        Of the factors' Gamma prior. A rate of None has the scale of the counts.
    weight_variance
        Of the Gaussian prior of the networks' weights.
    max_iter, tol
        At most `max_iter` iterations; fewer if the bound changes by less than `tol`, relative.
    validation
        A share of the training cells to hold out: to stop when they have not been predicted better
        for ten iterations, and to calibrate on.
    random_state
        Seed of the start, of draws and of the validation part. None draws
        one, which `random_state_` has.
    backend, device
        As in `VAEBPTF`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> tf.VAEBPTF.paper(n_components=2, max_iter=3).fit(tensor).n_iter_ <= 3
    True
    """

    name: ClassVar[str] = "vae-bptf-paper"

    n_components: PositiveInt = 10
    truncated: bool | None = False
    hidden_layers: Count = 1
    hidden_units: PositiveInt = 20
    hidden_activation: Literal["softplus", "relu", "sigmoid"] = "softplus"
    output_activation: Literal["softplus", "sigmoid"] = "softplus"
    encoders: Literal["per-component", "shared"] = "per-component"
    reweight: Literal["paper", "error", "none"] = "paper"
    theta: Positive = 5.0
    eta: NonNegative = 10.0
    weight_variance: Variance = 1.0
    max_iter: PositiveInt = 300
    tol: NonNegative = 1e-3

    @classmethod
    def for_dataset(cls, dataset: str | None = None, **overrides: Any) -> PaperVAEBPTF:
        """Make the model with the paper's parameters for one of its data sets.

        Parameters
        ----------
        dataset
            ``"dblp"``, ``"nips"``, ``"game"``, ``"review"``, ``"rating"``, each also with
            ``"-subsampled"`` for parts of 1 to 30 %; None for the paper's most common values.
        **overrides
            Parameters to change.
        """
        if dataset is not None and dataset not in PAPER_PRESETS:
            raise ParameterError(
                f"`dataset` must be one of {', '.join(PAPER_PRESETS)} or None; got {dataset!r}."
            )
        preset: dict[str, Any] = dict(PAPER_PRESETS[dataset]) if dataset else {}
        return cls(**(preset | overrides))

    def _check(self, tensor: CountTensor, *rest: Any) -> None:
        if str(self.output_activation) == "relu":
            raise ParameterError(
                "`output_activation` must be 'softplus' or 'sigmoid'; got 'relu', whose zeros "
                "would be shapes and rates of zero, which no Gamma distribution has."
            )
        super()._check(tensor, *rest)
        choose_likelihood("poisson", self.truncated, self.zeros)

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        step = PaperStep(
            cells=cells,
            likelihood=choose_likelihood("poisson", self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            network=Network(
                self.hidden_layers,
                self.hidden_units,
                self.hidden_activation,
                self.output_activation,
            ),
            shared=self.encoders == "shared",
            reweight=self.reweight,
            theta=self.theta,
            eta=self.eta,
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            weight_variance=self.weight_variance,
            seed=self._seed,
            backend=self.backend,
            validation=self._validation_cells(held_out, cells),
        )
        rules = StoppingRules(self.max_iter, self.tol, window=WINDOW, warns=True)
        return [Phase("encoders", step, step.start, rules)]

    def _make_fitted(self, state: PaperState, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        likelihood = choose_likelihood("poisson", self.truncated, self.zeros)
        fitted = self._gamma_fitted(state.posterior, axes, cells, likelihood)
        if self.zeros == "observed":
            return fitted
        return with_fisher_widths(fitted, cells, None, self.prior_shape, self.backend)
