"""What models with Gamma factors share: parameters, sweeps of BPTF, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.encoders.information import information_of, with_widths
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.inference.schemes.gate import Axes
from tallyfold.inference.schemes.guide import Guide
from tallyfold.models.base import CountModel
from tallyfold.models.fitted import Fitted, names_and_labels
from tallyfold.models.parameters import (
    Amount,
    Device,
    PositiveInt,
    Scale,
    Seed,
    Share,
    TorchBackend,
    Variance,
    Zeros,
    choose_likelihood,
    number,
)
from tallyfold.models.smoothing import smoothness_of
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.probability.counts import CountLikelihood


@dataclass(kw_only=True, eq=False, repr=False)
class GammaModel(CountModel):
    """Base of models whose factors have Gamma posteriors."""

    many_processes: ClassVar[bool] = True
    zeros: Zeros = "missing"
    truncated: bool | None = None
    prior_shape: Annotated[float, number(0, 1e6)] = 1.0
    prior_rate: Annotated[float, number(0, 1e12)] | None = None
    validation: Share | None = 0.1
    random_state: Seed = 0
    backend: TorchBackend = "auto"
    device: Device = "cpu"

    def _gamma_fitted(
        self,
        posterior: GammaPosterior,
        axes: Sequence[Axis],
        cells: TrainingCells,
        likelihood: CountLikelihood,
        dispersion: float | None = None,
    ) -> Fitted:
        """Return the result of a fit: the posterior, completed, with its labels."""
        completed = posterior.completed(self._informed(cells), cells.over_all_rows)
        factors = GammaFactors(*names_and_labels(axes), completed, cells.over_all_rows)
        return Fitted(tuple(axes), factors, likelihood, dispersion)

    def _validation_cells(
        self, held_out: CountTensor | None, cells: TrainingCells
    ) -> ValidationCells | None:
        if held_out is None:
            return None
        return ValidationCells(held_out, self.backend, cells.own_rows)


@dataclass(kw_only=True, eq=False, repr=False)
class SweptModel(GammaModel):
    """Base of models that are fitted by sweeps of BPTF, at least at first."""

    takes_hidden_for_zeros: ClassVar[bool] = False
    holds_out_zeros: ClassVar[bool] = True
    likelihood: Literal["poisson", "negative-binomial", "auto"] = "poisson"
    dispersion: Variance | None = None
    patience: PositiveInt = 10
    amount: Amount = "negative-binomial"
    scale: Scale = "auto"

    def _check(self, tensor: CountTensor, *rest: Any) -> None:
        super()._check(tensor, *rest)
        if isinstance(self.scale, list | tuple) and self.amount != "head":
            raise ParameterError(
                f"`scale` has no effect with amount={self.amount!r}; got {self.scale!r}. Leave it "
                "out, or use amount='head'."
            )
        if self.dispersion is not None and self.likelihood == "poisson":
            raise ParameterError(
                f"`dispersion` has no effect with likelihood='poisson'; got {self.dispersion!r}. "
                "Leave it out, or use likelihood='negative-binomial'."
            )
        if self.patience != SweptModel.patience and self.validation is None:
            raise ParameterError(
                "`patience` has no effect without held-out cells, by which a fit is stopped; got "
                f"{self.patience!r} with validation=None. Leave it out, or give a share."
            )

    @property
    def gate_(self) -> tuple[str, ...] | None:
        """The two axes whose pairs are active or not, by name, as given or as the fit chose them.

        None: there is no gate. Only a model with observed zeros has one.
        """
        return self.fitted_.gate

    def _sweeps(
        self,
        cells: TrainingCells,
        held_out: CountTensor | None,
        n_components: int,
        family: str,
        gates: Sequence[Axes | None] = (),
        guide: Guide | None = None,
    ) -> CAVIStep:
        looked_at = None
        if self._observed and held_out is not None:
            looked_at = OccurrenceCells.of(held_out, cells.group, self._seed).fewer
            if cells.own_rows is not None:
                looked_at = looked_at.of_rows(cells.own_rows, cells.group)
        return CAVIStep(
            cells=cells,
            likelihood=choose_likelihood(family, self.truncated, self.zeros),
            zeros_observed=self._observed,
            n_components=n_components,
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=self._seed,
            backend=self.backend,
            validation=None if self._observed else self._validation_cells(held_out, cells),
            held_out=looked_at,
            gates=gates,
            guide=guide,
        )

    def _informed(self, cells: TrainingCells) -> list[npt.NDArray[np.bool_]]:
        return list(cells.covered) if self._observed else super()._informed(cells)

    def _make_fitted(self, state: CAVIState, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        family = "poisson" if state.dispersion is None else "negative-binomial"
        likelihood = choose_likelihood(family, self.truncated, self.zeros)
        fitted = self._gamma_fitted(state.posterior, axes, cells, likelihood, state.dispersion)
        return replace(fitted, smoothness=smoothness_of(axes, state.correlation_M))


def with_fisher_widths(
    fitted: Fitted,
    cells: TrainingCells,
    dispersion: float | None,
    prior_shape: float,
    backend: str,
) -> Fitted:
    """Return the result with intervals as wide as the Fisher information of the cells demands."""
    assert isinstance(fitted.factors, GammaFactors)
    assert fitted.likelihood is not None
    information = information_of(fitted.likelihood, dispersion)
    gammas = with_widths(fitted.factors.gammas, cells, information, prior_shape, backend)
    return replace(fitted, factors=fitted.factors.with_gammas(gammas))
