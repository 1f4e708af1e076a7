"""VAE-BPTF: Gamma posteriors computed by encoders that all entities share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError
from tallyfold.inference.cells.combinations import (
    LEAST_KNOWN,
    Combinations,
    candidate_axes,
    useful_combinations,
)
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.encoders.anchored import AnchoredStep, warming_up
from tallyfold.inference.encoders.entity_dispersion import entity_dispersions
from tallyfold.inference.encoders.information import NO_LIMIT, cells_information, widened
from tallyfold.inference.encoders.trainer import interactions_of
from tallyfold.inference.fit.folder import refuse_foreign
from tallyfold.inference.fit.loop import Callback, State, Step, StoppingRules
from tallyfold.inference.paper_encoders.state import averaged_gammas
from tallyfold.inference.paper_encoders.step import PaperStep
from tallyfold.inference.schemes.cavi import CAVIStep, factors_of
from tallyfold.inference.schemes.likelihood_choice import better_likelihood
from tallyfold.kernels.device import use_device
from tallyfold.kernels.encoder import Network
from tallyfold.models.base import CountModel, choose_likelihood, names_and_labels
from tallyfold.models.bptf import VARIATIONAL_RULES
from tallyfold.models.fitted import Fitted
from tallyfold.models.fold_in import folded_in, updated
from tallyfold.models.members import fit_members, member_moments, member_predictive
from tallyfold.models.parameters import (
    NONE,
    Rule,
    check_parameters,
    integer,
    number,
    one_of,
)
from tallyfold.models.vae_forms import FORMS, LEARNT, refuse_ignored, settled
from tallyfold.models.vae_presets import PAPER_PRESETS
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.interactions import Interaction, countable, with_interactions
from tallyfold.probability.mixture import CountMixture, mixed

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

LEAST_HELD_OUT = 100
"""With fewer held-out cells than this the encoders stay conjugate: there is too little to learn."""
BPTF_MAX_ITER, BPTF_TOL = 200, 1e-5
"""When there is nothing to train on, this is BPTF and stops as BPTF does."""
START_SWEEPS, BATCH_WINDOW = BPTF_MAX_ITER, 4

_AXIS_SETS = Rule(
    lambda value: (
        isinstance(value, list | tuple)
        and all(
            isinstance(each, list | tuple) and all(isinstance(name, str) for name in each)
            for each in value
        )
    ),
    "a list of lists of axis names",
)


class VAEBPTF(CountModel):
    """Bayesian Poisson tensor factorization with encoders: the flagship.

    The Gamma posterior of a factor is computed from the cells of its entity by a small network
    that all entities share. There are two forms. *Anchored*, the default: encoders start at
    BPTF's conjugate update and are trained to predict held-out cells; combinations of axes, such
    as a user on a day, have Gamma multipliers with encoders of their own. *Paper*
    (`VAEBPTF.paper`): the model of the paper, trained on the evidence bound.

    Parameters
    ----------
    n_components
        How many components.
    encoder, objective
        ``"anchored"`` with ``"predictive"`` (or ``"leave-one-out"``, which trains on the training
        cells, each left out of its own sum, and is slower and no better; or ``"bound"``, whose
        optimum is plain BPTF), or ``"paper"`` with ``"bound"``. None is the form's own.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros. With observed
        zeros the anchored form has nothing to train on and is BPTF; the paper's form is not.
    likelihood, truncated, dispersion
        ``"poisson"`` (the default of both forms), ``"negative-binomial"``, or ``"auto"`` for the
        one with which a few sweeps of BPTF predict held-out cells better; whether of counts of at
        least one (None: if zeros are missing); the negative binomial's r (None learns it). The
        predictive distribution is calibrated in any case.
    dispersion_axis
        An axis each of whose entities has a dispersion of its own in the predictive distribution,
        such as words of which some come in bursts; None for one dispersion.
    interactions
        Which combinations of axes have multipliers: ``"auto"`` (all pairs, and all axes but one;
        those that do not help stay at one), ``"none"``, or lists of axis names.
    hidden_layers, hidden_units, hidden_activation, output_activation
        Of the networks. The anchored form has one hidden layer of ReLU units; the paper's may have
        ``"softplus"``, ``"relu"`` or ``"sigmoid"`` units, and a ``"softplus"`` or ``"sigmoid"``
        output.
    encoders
        ``"per-component"`` or ``"shared"``: the paper's form only.
    reweight, theta, eta, typical_count
        The paper's form only: cells whose count is far from the typical one weigh more
        (``"paper"``), those predicted badly so far do (``"error"``), or all weigh the same
        (``"none"``). A typical count of None is the most frequent one.
    prior_shape, prior_rate
        Of the factors' Gamma prior. A rate of None has the scale of the counts.
    weight_variance
        Of the Gaussian prior of the networks' weights.
    learning_rate, steps
        Adam's, and its steps per visit to an axis; the anchored form uses steps of L-BFGS.
    max_iter, tol
        At most so many iterations; fewer if the objective changes by less than this, relative.
    average_last
        The paper's form only: over about how many iterations the posterior is averaged.
    validation, patience
        A share of the training cells to hold out: to train the anchored encoders on, to stop when
        they have not been predicted better for `patience` iterations, and to calibrate on.
    n_members
        Independent fits, each holding out other cells, whose predictive distributions are mixed.
    batch_entities
        The anchored form only, for very many cells: the first sweeps, and the training of
        encoders, look at so many entities of an axis at a time, drawn at random. A first model is
        there sooner. None: all (encoders: as many as have 20 million cells).
    random_state
        Seed of the start, of draws and of the validation part.
    backend, device
        Who computes, and where. ``"numba"`` (compiled) and ``"numpy"`` use the CPU, ``"torch"`` the
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. ``"auto"`` chooses by size on the CPU, and is
        torch elsewhere. The device is that of the fit; predictions are made on the CPU.

    References
    ----------
    The paper's form: "VAE-BPTF", Bayesian Poisson tensor factorization with variational
    auto-encoders; see the documentation for what departs from it and why.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> train, test = tf.split(truth.tensor)
    >>> model = tf.VAEBPTF(n_components=2).fit(train)
    >>> bool(model.score(test) > tf.Constant().fit(train).score(test))
    True
    """

    name: ClassVar[str] = "vae-bptf"
    many_processes: ClassVar[bool] = True
    rules: ClassVar[Mapping[str, Rule]] = VARIATIONAL_RULES | {
        "n_components": integer(1),
        "encoder": one_of(*FORMS),
        "objective": one_of("predictive", "leave-one-out", "bound") | NONE,
        "likelihood": one_of("poisson", "negative-binomial", "auto") | NONE,
        "dispersion_axis": Rule(lambda value: isinstance(value, str), "the name of an axis") | NONE,
        "interactions": one_of("auto", "none") | _AXIS_SETS | NONE,
        "hidden_layers": integer(0) | NONE,
        "hidden_units": integer(1) | NONE,
        "hidden_activation": one_of("softplus", "relu", "sigmoid") | NONE,
        "output_activation": one_of("softplus", "sigmoid") | NONE,
        "encoders": one_of("per-component", "shared") | NONE,
        "reweight": one_of("paper", "error", "none") | NONE,
        "theta": number(0) | NONE,
        "eta": number(0, low_included=True) | NONE,
        "typical_count": integer(1) | NONE,
        "weight_variance": number(0, 1e9) | NONE,
        "learning_rate": number(0, 1e3) | NONE,
        "steps": integer(1) | NONE,
        "average_last": integer(1) | NONE,
        "max_iter": integer(1) | NONE,
        "tol": number(0, low_included=True) | NONE,
        "n_members": integer(1),
        "batch_entities": integer(1) | NONE,
    }

    def __init__(
        self,
        *,
        n_components: int = 10,
        encoder: Literal["anchored", "paper"] = "anchored",
        objective: Literal["predictive", "leave-one-out", "bound"] | None = None,
        zeros: Literal["missing", "observed"] = "missing",
        likelihood: Literal["poisson", "negative-binomial", "auto"] | None = None,
        truncated: bool | None = None,
        dispersion: float | None = None,
        dispersion_axis: str | None = None,
        interactions: str | Sequence[Sequence[str]] | None = None,
        hidden_layers: int | None = None,
        hidden_units: int | None = None,
        hidden_activation: str | None = None,
        output_activation: str | None = None,
        encoders: Literal["per-component", "shared"] | None = None,
        reweight: Literal["paper", "error", "none"] | None = None,
        theta: float | None = None,
        eta: float | None = None,
        typical_count: int | None = None,
        prior_shape: float = 1.0,
        prior_rate: float | None = None,
        weight_variance: float | None = None,
        learning_rate: float | None = None,
        steps: int | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        average_last: int | None = None,
        validation: float | None = 0.1,
        patience: int = 10,
        n_members: int = 1,
        batch_entities: int | None = None,
        random_state: int = 0,
        backend: str = "auto",
        device: str = "cpu",
    ) -> None:
        self.n_components = n_components
        self.encoder = encoder
        self.objective = objective
        self.zeros = zeros
        self.likelihood = likelihood
        self.truncated = truncated
        self.dispersion = dispersion
        self.dispersion_axis = dispersion_axis
        self.interactions = interactions
        self.hidden_layers = hidden_layers
        self.hidden_units = hidden_units
        self.hidden_activation = hidden_activation
        self.output_activation = output_activation
        self.encoders = encoders
        self.reweight = reweight
        self.theta = theta
        self.eta = eta
        self.typical_count = typical_count
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.weight_variance = weight_variance
        self.learning_rate = learning_rate
        self.steps = steps
        self.max_iter = max_iter
        self.tol = tol
        self.average_last = average_last
        self.validation = validation
        self.patience = patience
        self.n_members = n_members
        self.batch_entities = batch_entities
        self.random_state = random_state
        self.backend = backend
        self.device = device

    @classmethod
    def paper(cls, dataset: str | None = None, **overrides: Any) -> VAEBPTF:
        """Make the paper's form, with its parameters for one of its data sets.

        Plain Poisson, reweighting on, the evidence bound.

        Parameters
        ----------
        dataset
            ``"dblp"``, ``"nips"``, ``"game"``, ``"review"``, ``"rating"``, each also with
            ``"-subsampled"`` for parts of 1 to 30 %; None for the paper's most common values.
        **overrides
            Parameters to change.

        Examples
        --------
        >>> VAEBPTF.paper("game").n_components
        5
        """
        if dataset is not None and dataset not in PAPER_PRESETS:
            raise ParameterError(
                f"`dataset` must be one of {', '.join(PAPER_PRESETS)} or None; got {dataset!r}."
            )
        preset: dict[str, Any] = dict(PAPER_PRESETS[dataset]) if dataset else {}
        form = {"encoder": "paper", "objective": "bound", "likelihood": "poisson"}
        return cls(**(form | {"truncated": False} | preset | overrides))

    # -- fitting ----------------------------------------------------------------------------------

    def fit(
        self,
        tensor: CountTensor,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 10,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Fit the model to a tensor's counts; see `CountModel.fit`.

        Each member of a mixture is fitted in turn, and checkpointed in a folder of its own.
        """
        self._check(tensor, every, checkpoint, resume)
        if self.n_members == 1:
            options: dict[str, Any] = {"every": every, "resume": resume, "callbacks": callbacks}
            return super().fit(tensor, checkpoint=checkpoint, **options)
        if checkpoint is not None:
            place = checkpoint
            current_group().broadcast(lambda: refuse_foreign(place, "checkpoint of members"))

        def fit_one(number_: int, place: str | None) -> tuple[Fitted, bool]:
            parameters = self.get_params() | {"n_members": 1}
            parameters["random_state"] = self.random_state + number_
            member = type(self)(**parameters)
            with use_device(self._device):
                interrupted = member._fit(tensor, place, every, resume, callbacks)
            return member.fitted_, interrupted

        whole = fit_members(fit_one, self.n_members, checkpoint)
        self._fitted = replace(whole, parameters=self._plain_parameters())
        return self

    def _check(self, tensor: CountTensor, *rest: Any) -> None:
        if self.output_activation == "relu":
            raise ParameterError(
                "`output_activation` must be 'softplus' or 'sigmoid'; got 'relu', whose zeros "
                "would be shapes and rates of zero, which no Gamma distribution has."
            )
        super()._check(tensor, *rest)
        values = self._values
        choose_likelihood(self._family(values), self.truncated, self.zeros)
        refuse_ignored(self.get_params(), values)
        self._axis_sets(tensor, values["interactions"])
        if self.dispersion_axis is not None:
            tensor.axis_number(self.dispersion_axis)
        if self.random_state + self.n_members > 2**63:
            raise ParameterError("`random_state` + `n_members` must be below 2**63.")

    @property
    def _values(self) -> dict[str, Any]:
        return settled(self.encoder, self.get_params())

    def _family(self, values: Mapping[str, Any]) -> str:
        """Return the likelihood's family, Poisson where it is still to be chosen."""
        return "poisson" if values["likelihood"] == "auto" else str(values["likelihood"])

    def _plain_parameters(self) -> dict[str, Any]:
        plain = super()._plain_parameters()
        if isinstance(self.interactions, list | tuple):  # JSON has no tuples
            plain["interactions"] = [list(each) for each in self.interactions]
        return plain

    def _stopping(self) -> StoppingRules:
        values = self._values
        if self.encoder == "paper":
            return StoppingRules(values["max_iter"], values["tol"], self.patience, window=10)
        # of visits to drawn entities one may gain nothing by chance: several in a row tell
        window = 1 if self.batch_entities is None else BATCH_WINDOW
        return StoppingRules(
            self._most_iterations, values["tol"], self.patience, window=window, warm_up=warming_up
        )

    def _caveat(self, n_iter: int) -> str:
        if self.batch_entities is None or n_iter >= self._start_sweeps:
            return super()._caveat(n_iter)
        return (
            " It had not looked at all entities of its longest axis yet: the factors of the others "
            "are those it started with."
        )

    @property
    def _start_sweeps(self) -> int:
        """At most so many sweeps come before the first visit: as many as BPTF would make.

        Of a number of iterations that was given they take half, or more where they are quick.
        """
        if self.max_iter is None:
            return START_SWEEPS
        share = self.max_iter // 2 if self.batch_entities is None else self.max_iter * 2 // 3
        return min(START_SWEEPS, max(1, share))

    @property
    def _most_iterations(self) -> int:
        """The limit of iterations, which leaves room for visits if it is not given."""
        given = int(self._values["max_iter"])
        return given if self.max_iter is not None else given + START_SWEEPS

    def _rules_for(self, step: Step) -> StoppingRules:
        rules = self._stopping()
        if not isinstance(step, AnchoredStep) or step.held_out is not None:
            return rules
        return replace(
            rules,
            max_iter=BPTF_MAX_ITER if self.max_iter is None else self.max_iter,
            tol=BPTF_TOL if self.tol is None else self.tol,
        )

    def _step(self, cells: TrainingCells, held_out: CountTensor | None) -> Step:
        values = self._values
        validation = None if held_out is None else ValidationCells(held_out, self.backend)
        if self.encoder == "paper":
            return self._paper_step(cells, validation, values)
        likelihood = choose_likelihood(self._family(values), self.truncated, self.zeros)
        sweeps = CAVIStep(
            cells=cells,
            likelihood=likelihood,
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=self.random_state,
            backend=self.backend,
            validation=validation,
        )
        if values["likelihood"] == "auto" and validation is not None:
            sweeps = better_likelihood(sweeps)
        learn = values["objective"] in LEARNT and held_out is not None
        if not learn or held_out is None or validation is None:
            return AnchoredStep(sweeps, None)
        if validation.cells.n_cells < LEAST_HELD_OUT:
            return AnchoredStep(sweeps, None)
        return AnchoredStep(
            sweeps,
            validation.cells,
            self._combinations(cells, held_out, values["interactions"]),
            hidden_units=values["hidden_units"],
            weight_variance=values["weight_variance"],
            steps=values["steps"],
            start_sweeps=self._start_sweeps,
            patience=self.patience,
            leave_one_out=values["objective"] == "leave-one-out",
            batch_entities=self.batch_entities,
            seed=self.random_state,
        )

    def _paper_step(
        self, cells: TrainingCells, validation: ValidationCells | None, values: Mapping[str, Any]
    ) -> PaperStep:
        network = Network(
            values["hidden_layers"],
            values["hidden_units"],
            values["hidden_activation"],
            values["output_activation"],
        )
        return PaperStep(
            cells=cells,
            likelihood=choose_likelihood(self._family(values), self.truncated, self.zeros),
            zeros_observed=self.zeros == "observed",
            n_components=self.n_components,
            network=network,
            shared=values["encoders"] == "shared",
            reweight=values["reweight"],
            theta=values["theta"],
            eta=values["eta"],
            typical_count=values["typical_count"],
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            weight_variance=values["weight_variance"],
            learning_rate=values["learning_rate"],
            steps=values["steps"],
            average_last=values["average_last"],
            dispersion=self.dispersion,
            seed=self.random_state,
            backend=self.backend,
            validation=validation,
        )

    def _axis_sets(self, tensor: CountTensor, asked: Any) -> list[tuple[int, ...]] | None:
        """Return the positions of the axes whose combinations are asked for; None for auto."""
        if isinstance(asked, str):
            return None if asked == "auto" else []
        names = [axis.name for axis in tensor.axes]
        return list(dict.fromkeys(_positions(each, names, tensor.shape) for each in asked))

    def _combinations(
        self, cells: TrainingCells, held_out: CountTensor, asked: Any
    ) -> list[Combinations]:
        sets = self._axis_sets(held_out, asked)
        least = 0.0 if sets is not None else LEAST_KNOWN
        if sets is None:
            sets = candidate_axes(cells.n_axes, cells.shape)
        return useful_combinations(
            sets, cells.shape, cells.indices_NM, held_out.indices, least, cells.group
        )

    def _make_fitted(self, state: State, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        paper = self.encoder == "paper"
        shapes, rates = averaged_gammas(state) if paper else factors_of(state)
        dispersed = self._values["likelihood"] != "poisson" if paper else int(state["dispersed"])
        family = "negative-binomial" if dispersed else "poisson"
        likelihood = choose_likelihood(family, self.truncated, self.zeros)
        names, labels = names_and_labels(axes)
        seen = self._informed(cells)
        factors = GammaFactors.with_unseen(names, labels, shapes, rates, seen)
        interactions = () if paper else tuple(interactions_of(state, cells.shape))
        extra = {} if paper else {n: np.asarray(state[n]) for n in state if _for_new_cells(n)}
        left = Fitted(
            axes=tuple(axes),
            factors=factors,
            likelihood=likelihood,
            dispersion=float(state["dispersion"]) if likelihood.dispersed else None,
            interactions=interactions,
            extra=extra,
        )
        return left if self.zeros == "observed" else self._with_information(left, state, cells)

    def _with_information(self, left: Fitted, state: State, cells: TrainingCells) -> Fitted:
        """Add how much the cells tell of each factor, under the dispersion that counts have."""
        assert isinstance(left.factors, GammaFactors)
        assert left.likelihood is not None
        seen_r = float(np.asarray(state["calibration"])[2]) if "calibration" in state else 0.0
        pairs = zip(left.factors.shapes, left.factors.rates, strict=True)
        multiplier_N, _ = with_interactions(
            left.interactions, cells.indices_NM, np.ones(len(cells.counts_N)), np.zeros(1)
        )
        told_N, told = cells_information(
            [shape[:-1] / rate[:-1] for shape, rate in pairs],
            cells,
            multiplier_N,
            left.likelihood,
            seen_r or left.dispersion,
            self.prior_shape,
            range(cells.n_axes),
            self.backend,
        )
        limits = {
            f"information_{axis}": np.where(cells.seen[axis][:, None], told_DK, NO_LIMIT)
            for axis, told_DK in told.items()
        }
        return replace(
            left,
            interactions=tuple(_with_widest(each, cells, told_N) for each in left.interactions),
            extra=left.extra | limits | {"seen_dispersion": np.array(seen_r)},
        )

    def _calibrate(self, held_out: CountTensor) -> None:
        super()._calibrate(held_out)
        if self.dispersion_axis is None:
            return
        axis = held_out.axis_number(self.dispersion_axis)
        log_ratio_D1 = entity_dispersions(
            self._predictive(held_out.indices),
            held_out.counts,
            held_out.indices[:, axis],
            held_out.shape[axis],
            current_group(),
        )
        own = {"entity_dispersion": log_ratio_D1, "dispersion_axis": np.array(axis)}
        self._fitted = replace(self.fitted_, extra=self.fitted_.extra | own)

    # -- what a fit left --------------------------------------------------------------------------

    @property
    def posterior_(self) -> GammaFactors:
        """The factors, with spreads no smaller than what the cells tell allows."""
        fitted = self.fitted_
        factors, extra = fitted.factors, fitted.extra
        assert isinstance(factors, GammaFactors)
        if "information_0" not in extra:
            return factors
        shapes, rates = [], []
        for axis, (shape, rate) in enumerate(zip(factors.shapes, factors.rates, strict=True)):
            told = np.vstack([extra[f"information_{axis}"], np.full((1, shape.shape[1]), NO_LIMIT)])
            wide = widened(shape, rate, told, float(fitted.parameters["prior_shape"]))
            shapes.append(wide[0])
            rates.append(wide[1])
        return GammaFactors(factors.names, factors.labels, shapes, rates)

    def interaction_effects(self, *axes: str, top: int = 10, level: float = 0.9) -> pd.DataFrame:
        """Return the combinations of labels that are counted more often than their factors say.

        Parameters
        ----------
        *axes
            The names of the axes, such as ``"word", "year"``.
        top
            How many to return; those whose multiplier is surely large come first.
        level
            Of the multipliers' interval, from `low` to `high`.
        """
        check_parameters({"top": top, "level": level}, {"top": integer(1), "level": number(0, 1)})
        factors, found = self.posterior_, self.fitted_.interactions
        asked = {factors.axis_number(name) for name in axes}
        for interaction in found:
            if set(interaction.axes) == asked:
                return interaction.to_frame(factors, top, level)
        known = [", ".join(factors.names[axis] for axis in each.axes) for each in found]
        raise LabelError(
            f"there are no multipliers of ({', '.join(axes)}); there are "
            f"{' and '.join(f'({names})' for names in known) or 'none at all'}."
        )

    def fold_in(self, counts: CountTensor, axis: str) -> VAEBPTF:
        """Return a model that also knows new entities of an axis, from their cells alone.

        The trained encoders pass over the new cells; nothing is optimised and no old cell is
        needed. Labels of other axes must be known, those of `axis` must be new.

        Parameters
        ----------
        counts
            The new entities' cells.
        axis
            The axis they are on.
        """
        return self._changed(lambda fitted: folded_in(fitted, counts, axis))

    def partial(self, counts: CountTensor) -> VAEBPTF:
        """Return a model that has also seen new cells of entities it knows.

        The trained encoders add the new cells' evidence to the posteriors; cells the model was
        fitted on should not come again.
        """
        return self._changed(lambda fitted: updated(fitted, counts))

    def _changed(self, change: Any) -> VAEBPTF:
        fitted = self.fitted_
        if fitted.parameters["encoder"] == "paper":
            raise ParameterError(
                "only the anchored form can take in new cells without a fit; this is the paper's."
            )
        if fitted.parameters["zeros"] == "observed":
            raise ParameterError(
                "new cells can be taken in without a fit if zeros='missing' only: with observed "
                "zeros every empty cell of the new entities is evidence too. Fit again."
            )
        model = type(self)(**self.get_params())
        others = tuple(change(other) for other in fitted.others)
        model._fitted = replace(change(fitted), others=others)
        return model

    # -- predicting -------------------------------------------------------------------------------

    @property
    def _members(self) -> tuple[Fitted, ...]:
        return (self.fitted_, *self.fitted_.others)

    def _moments(self, positions: npt.NDArray[np.int32]) -> tuple[Floats, Floats]:
        return member_moments(self.fitted_, positions)

    def _rates(self, positions: npt.NDArray[np.int32]) -> Floats:
        rates = [
            member.calibration.rates(member_moments(member, positions)[0])
            for member in self._members
        ]
        return np.asarray(np.mean(rates, axis=0))

    def _predictive(self, positions: npt.NDArray[np.int32]) -> CountMixture:
        return mixed([member_predictive(member, positions) for member in self._members])


def _for_new_cells(name: str) -> bool:
    """Tell whether an array of the state is needed to take in new cells."""
    return name == "prior_rate" or "encoder_" in name or name.startswith("effect_axes_")


def _with_widest(interaction: Interaction, cells: TrainingCells, told_N: Floats) -> Interaction:
    """Let the intervals of multipliers be as wide as what their cells tell demands."""
    place_N, size = interaction.places(cells.indices_NM), len(interaction.shape_P1)
    told_P1 = cells.group.all_reduce(np.bincount(place_N, told_N, minlength=size))
    wide = replace(interaction, widest_P1=interaction.shape_P1[-1] + told_P1)
    times_P1 = cells.group.all_reduce(np.bincount(place_N, minlength=size) * 1.0)
    return wide.with_typical(times_P1)


def _positions(asked: Sequence[str], names: Sequence[str], shape: Sequence[int]) -> tuple[int, ...]:
    """Return where axes stand; refuse sets of axes that cannot have multipliers."""
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise LabelError(f"there is no axis {unknown[0]!r}; there are {', '.join(names)}.")
    places = tuple(sorted({names.index(name) for name in asked}))
    if not 2 <= len(places) < len(names):
        raise ParameterError(
            f"a set of axes in `interactions` must have two axes or more, and not all "
            f"{len(names)}; got {list(asked)!r}."
        )
    if not countable([shape[place] for place in places]):
        raise ParameterError(f"there are too many combinations of {list(asked)!r} to number them.")
    return places
