"""VAE-BPTF: Gamma posteriors computed by encoders that all entities share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.fit.folder import refuse_foreign
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.occurrence.phases import Settings, occurrence_phases
from tallyfold.models.base import Given
from tallyfold.models.complete_logs import (
    CHOSEN,
    PRIOR_SHAPE,
    Gate,
    gates_of,
    occurrence_result,
    plain_gate,
    refuse_ignored_gate,
    say_zeros,
    zeros_of,
)
from tallyfold.models.encoded_model import EncodedModel
from tallyfold.models.fitted import Fitted
from tallyfold.models.forecasting import Time, remembered
from tallyfold.models.members import fit_members, mixed_predictive
from tallyfold.models.new_cells import TakesNewCells
from tallyfold.models.paper_vae_bptf import PaperVAEBPTF
from tallyfold.models.parameters import (
    Amount,
    PositiveInt,
    check_parameters,
    choose_likelihood,
    integer,
    number,
)
from tallyfold.models.smoothing import Smooth
from tallyfold.models.time_axis import chosen_time
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.margin_effects import margin_effects
from tallyfold.probability.distribution import CountDistribution

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

NOT_REMEMBERED = " What came before was not remembered yet: there is no forecast."
PASSES, PASSES_TOL, LEAST_PASSES = 200, 3e-5, 20
"""Limits and tolerance of the passes over complete logs."""


@dataclass(kw_only=True, eq=False, repr=False)
class VAEBPTF(EncodedModel, TakesNewCells):
    """Bayesian Poisson tensor factorization with encoders: the flagship.

    Factors say what goes together; a count head says how many. What the cells of an entity, and of
    every combination of entities, say of a count is a sum over these cells of functions of their
    counts, and one small network, shared by all, turns the sums of a cell's labels into the
    distribution of its count. With ``amount="negative-binomial"`` the counts are those of the
    factors' rates: Gamma posteriors are computed by encoders that are trained to predict held-out
    cells, and combinations of axes have Gamma multipliers. `VAEBPTF.paper` makes the model of the
    paper, `PaperVAEBPTF`.

    Parameters
    ----------
    n_components
        The number of components.
    zeros
        Whether cells without an entry are ``"observed"`` zeros, as in a complete log, or
        ``"missing"``. ``"auto"`` takes ratings, values on a bounded scale whose most frequent one
        is not the smallest, as missing elsewhere, and everything else as complete; a fit says
        which, and keeps it. With observed zeros the factors say whether there is a count at all,
        together with a gate and with what combinations of labels add.
    amount
        ``"head"``: the distribution of a count of at least one is learned from margins.
        ``"negative-binomial"``: it is that of the factors' rates, with encoders and multipliers.
    scale
        For a head: the smallest and the largest value that counts can have, such as (1, 5) for
        stars; ``"auto"`` recognises a bounded scale, None never has one.
    likelihood, truncated, dispersion
        ``"poisson"``, ``"negative-binomial"``, or ``"auto"`` for the one with which a few sweeps
        of BPTF predict held-out cells better; whether of counts of at least one (None: if zeros
        are missing); the negative binomial's r (None learns it). The predictive distribution is
        calibrated in any case.
    interactions
        Which combinations of axes have multipliers: ``"auto"`` (all pairs, and all axes but one;
        those that do not help stay at one), ``"none"``, or lists of axis names. Not with a head.
    gate
        With observed zeros: the two axes whose pairs are active or not, such as author and year,
        so that components need not say so. ``"auto"`` chooses by held-out cells, ``"none"`` has
        no gate.
    time
        With observed zeros: the axis of time, whose next periods `forecast` tells from a memory of
        the earlier ones; the factors stay what they are. ``"auto"``: the only axis that has an
        order; ``"none"``: nothing is remembered.
    prior_shape, prior_rate
        Of the factors' Gamma prior. A shape of None is 1, and 0.1 with observed zeros, where 1
        would switch components off; a rate of None is learnt, one per axis.
    max_iter, tol
        At most `max_iter` sweeps, or with encoders iterations, of which sweeps take at most half;
        fewer if the score changes by less than `tol`, relative. None: at most 200 sweeps and 100
        visits of encoders. The head's training has a length of its own.
    validation, patience
        A share of the training cells to hold out: to stop when they have not been predicted better
        for `patience` iterations, to train encoders on, and to calibrate on. A head is trained on
        all cells, and draws cells to hold out itself.
    n_members
        Independent fits, each holding out other cells, whose predictive distributions are mixed.
    batch_entities
        For very many cells: the first sweeps, and the training of encoders, look at
        `batch_entities` entities of an axis at a time, drawn at random; `max_iter` counts these
        batches. A first model is there sooner. With observed zeros two passes over all cells
        follow, instead of ten. None: all (encoders: as many as have 20 million cells).
    seeds, seed_strength
        Labels that components should have, by axis and by the component's name, such as
        ``{"networking": {"word": ["socket", "server"]}}``; they pull ``"weak"``, ``"medium"`` or
        ``"strong"``, and lock nothing. ``"auto"`` finds seeds in the cells, for all labels of the
        axis with the largest baskets, such as words; the name of an axis finds them for it.
    background
        Whether one of the components, the last one, is what is common everywhere.
    smooth
        The axes that have an order along which components change little by little: the factors of
        a step are pulled to those of the last one, as strongly as the data say. ``"auto"``: all
        that have an order and go on; ``"none"``: no axis; or the strengths by axis, such as
        ``{"month": "auto"}``, or ``{"month": 0.9}`` for the correlation of one step and the next.
    random_state
        Seed of the start, of draws and of the validation part. None draws
        one, which `random_state_` has.
    backend, device
        What computes, and where. ``"numba"`` (compiled) and ``"numpy"`` use the CPU, ``"torch"``
        the device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. ``"auto"`` chooses by size on the CPU,
        and is torch elsewhere. The device is that of the fit; predictions are made on the CPU.

    References
    ----------
    "VAE-BPTF", Bayesian Poisson tensor factorization with variational auto-encoders; see the
    documentation for what departs from it and why.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> train, test = tf.split(truth.tensor, cells="all")
    >>> model = tf.VAEBPTF(n_components=2).fit(train)
    >>> model.fitted_.parameters["zeros"]
    'observed'
    >>> bool(model.score(test) > tf.Constant(zeros="observed").fit(train).score(test))
    True
    """

    name: ClassVar[str] = "vae-bptf"
    checks_memory: ClassVar[bool] = True
    zeros: Literal["auto", "missing", "observed"] = "auto"  # type: ignore[assignment]
    gate: Gate = "auto"
    amount: Amount = "head"
    time: Time = "auto"
    smooth: Smooth = "none"
    n_members: PositiveInt = 1

    @classmethod
    def paper(cls, dataset: str | None = None, **overrides: Any) -> PaperVAEBPTF:
        """Make the paper's model, with its parameters for one of its data sets.

        Parameters
        ----------
        dataset, **overrides
            As in `PaperVAEBPTF.for_dataset`.

        Examples
        --------
        >>> VAEBPTF.paper("game").n_components
        5
        """
        return PaperVAEBPTF.for_dataset(dataset, **overrides)

    # -- fitting ----------------------------------------------------------------------------------

    def _fit_whole(self, tensor: CountTensor, given: Given) -> str | None:
        """Fit the factors, then what is remembered of earlier periods."""
        caveat = self._fit_factors(tensor, given)
        if self.time == "none" or caveat is not None or self._fitted.reason == "interrupted":
            return caveat
        forecaster = remembered(tensor, self.time, self.scale, given)
        self._fitted = replace(self._fitted, forecaster=forecaster)
        return NOT_REMEMBERED if forecaster is None else None

    def _fit_factors(self, tensor: CountTensor, given: Given) -> str | None:
        """Fit each member of a mixture in turn, checkpointed in a folder of its own."""
        if self.n_members == 1:
            return self._fit(tensor, given)
        if given.checkpoint is not None:
            folder = given.checkpoint
            current_group().broadcast(lambda: refuse_foreign(folder, "checkpoint of members"))

        def fit_one(number_: int) -> tuple[Fitted, bool]:
            member = self._with(n_members=1, random_state=self._seed + number_)
            caveat = member._fit(tensor, given.inside(f"member-{number_}"))
            return member.fitted_, caveat is not None

        whole = fit_members(fit_one, self.n_members)
        self._fitted = replace(whole, parameters=self._plain_parameters())
        return None

    def zeros_for(self, tensor: CountTensor) -> Literal["missing", "observed"]:
        """Return how empty cells of a tensor are taken."""
        if self.zeros != "auto":
            return self.zeros
        return "missing" if isinstance(self.scale, list | tuple) else zeros_of(tensor)

    def _decided(self, tensor: CountTensor, given: Given) -> Self:
        """Return the model with what a tensor decides: how zeros are taken, and the prior."""
        decided, zeros = super()._decided(tensor, given), self.zeros_for(tensor)
        if self.zeros == "auto":
            say_zeros(zeros, tensor.names)
        alone = zeros == "observed" and current_group().size == 1
        decided = decided._with(time=chosen_time(tensor, self.time) if alone else "none")
        if zeros == "missing" and self.amount != "head" and self.smooth == "auto":
            decided = decided._with(smooth="none")  # encoders find all factors anew
        if self.zeros != "auto" and self.prior_shape is not None:
            return decided
        shape = PRIOR_SHAPE if zeros == "observed" else 1.0
        return decided._with(zeros=zeros, prior_shape=self.prior_shape or shape)

    def _check(self, tensor: CountTensor, *rest: Any) -> None:
        super()._check(tensor, *rest)
        zeros = self.zeros_for(tensor)
        choose_likelihood(self._family, self.truncated, zeros)
        self._refuse_ignored(zeros)
        self._axis_sets(tensor)
        gates_of(self.gate, tensor)
        self._refuse_time(tensor, zeros)
        if self._seed + self.n_members > 2**63:
            raise ParameterError("`random_state` + `n_members` must be below 2**63.")

    def _refuse_time(self, tensor: CountTensor, zeros: str) -> None:
        """Refuse an axis of time that is none, or that could have no effect."""
        chosen_time(tensor, self.time)
        if self.time not in ("auto", "none") and (zeros == "missing" or current_group().size > 1):
            raise ParameterError(
                f"`time` has an effect with observed zeros, and in one process; got {self.time!r}. "
                "Leave it out, or take SmoothedPast for a memory alone."
            )

    def _refuse_ignored(self, zeros: str) -> None:
        """Refuse parameters that the others leave without effect."""
        chosen = f" Here zeros='auto' chose: {CHOSEN[zeros]}." if self.zeros == "auto" else ""
        refuse_ignored_gate(self.gate, zeros, "auto", chosen)
        if self.interactions != "auto" and self.amount == "head":
            raise ParameterError(
                f"`interactions` has no effect with amount='head', which learns from all "
                f"combinations; got {self.interactions!r}. Leave it out, or use "
                "amount='negative-binomial'."
            )
        if self.interactions == "none" and zeros == "observed":
            raise ParameterError(
                "interactions='none' has no effect with observed zeros, where all combinations say "
                "whether there is a count. Leave it out, or use zeros='missing'."
                f"{chosen}"
            )
        if not isinstance(self.smooth, str) and zeros == "missing" and self.amount != "head":
            raise ParameterError(
                "`smooth` has no effect on encoders, which find all factors anew; got "
                f"{self.smooth!r}. Leave it out, or use amount='head' or zeros='observed'.{chosen}"
            )
        needs_held_out = {
            "`interactions` as a list": not isinstance(self.interactions, str),
            "likelihood='auto'": self.likelihood == "auto",
        }
        for what, is_given in needs_held_out.items():
            if is_given and not (self.validation and zeros == "missing"):
                raise ParameterError(
                    f"{what} has no effect with observed zeros, or without held-out cells to learn "
                    f"from. Leave it out, or use zeros='missing' and a `validation` share.{chosen}"
                )
        if self.batch_entities is not None and zeros == "missing" and not self.validation:
            raise ParameterError(
                "`batch_entities` with zeros='missing' needs cells to hold out; got validation="
                f"{self.validation!r}. Give a `validation` share, or leave it out.{chosen}"
            )

    def _plain_parameters(self) -> dict[str, Any]:
        plain = super()._plain_parameters() | {"gate": plain_gate(self.gate)}
        if not isinstance(self.interactions, str):  # JSON has no tuples
            plain["interactions"] = [list(each) for each in self.interactions]
        return plain

    def _phases_on(
        self, tensor: CountTensor, cells: TrainingCells, held_out: CountTensor | None
    ) -> Sequence[Phase]:
        if not self._observed:
            return self._phases(cells, held_out, self._guide_for(tensor.axes, cells))
        most = PASSES if self.max_iter is None else self.max_iter
        tol = PASSES_TOL if self.tol is None else self.tol
        settings = Settings(
            self.n_components,
            self._decided_shape(),
            self.prior_rate,
            gates_of(self.gate, tensor),
            StoppingRules(
                most, tol, self.patience, min_iter=LEAST_PASSES, warns=self.max_iter is not None
            ),
            self._seed,
            self.backend,
            self.batch_entities,
            self._guide_for(tensor.axes, cells),
        )
        return occurrence_phases(tensor, cells, held_out, settings)

    def _result(
        self, state: Any, phases: Sequence[Phase], axes: Sequence[Axis], cells: TrainingCells
    ) -> Fitted:
        if self._observed:
            return occurrence_result(state, phases, axes)
        return self._make_fitted(state, axes, cells)

    # -- the result -------------------------------------------------------------------------------

    @property
    def posterior_(self) -> GammaFactors:
        """The factors and the multipliers of combinations: what predicts."""
        factors = self.fitted_.factors
        assert isinstance(factors, GammaFactors)
        return factors

    def interaction_effects(self, *axes: str, top: int = 10, level: float = 0.9) -> pd.DataFrame:
        """Return the combinations of labels with larger counts than their labels alone say.

        With a head: larger, by the geometric mean of counts of at least one, than the labels' own
        margins say together. With multipliers: larger rates than the factors say.

        Intervals hold on average over all combinations. The less combinations differ, the more each
        is pulled to one; one of five cells or more that stands out of the others is pulled little
        (with multipliers it is pulled as they are: take its multiplier for a lower bound).

        Parameters
        ----------
        *axes
            The names of the axes, such as ``"word", "year"``.
        top
            The number of combinations; those whose multiplier is surely large come first.
        level
            Of the multipliers' interval, from `low` to `high`.
        """
        check_parameters({"top": top, "level": level}, {"top": integer(1), "level": number(0, 1)})
        factors, head = self.posterior_, self.fitted_.head
        if head is not None:
            return margin_effects(head, factors, axes, top, level)
        found = factors.gammas.derived
        asked = {factors.axis_number(name) for name in axes}
        for derived in found:
            if set(derived.axes) == asked:
                return derived.to_frame(factors, top, level)
        known = [", ".join(factors.names[axis] for axis in each.axes) for each in found]
        raise LabelError(
            f"there are no multipliers of ({', '.join(axes)}); there are "
            f"{' and '.join(f'({names})' for names in known) or 'none at all'}."
        )

    # -- predicting -------------------------------------------------------------------------------

    @property
    def _members(self) -> tuple[Fitted, ...]:
        return (self.fitted_, *self.fitted_.others)

    def _rates(self, positions: npt.NDArray[np.int32]) -> Floats:
        rates = [member.rates(positions) for member in self._members]
        return np.asarray(np.mean(rates, axis=0))

    def _log_zero(self, positions: npt.NDArray[np.int32]) -> Floats:
        if self.n_members > 1 or self.fitted_.occurrence is None:
            return super()._log_zero(positions)
        return -self._rates(positions)

    def _predictive(self, positions: npt.NDArray[np.int32]) -> CountDistribution:
        return mixed_predictive(self._members, positions)
