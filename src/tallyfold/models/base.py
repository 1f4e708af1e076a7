"""The estimator all models share: parameters, fitting, predicting, scoring, saving."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from tallyfold.data.axis import Axis
from tallyfold.data.groups import CellGroups
from tallyfold.data.seeds import fixed_seed
from tallyfold.data.store import Store
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import (
    DataError,
    DivergedError,
    InterruptedWarning,
    ParameterError,
    warn,
)
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import hold_out
from tallyfold.inference.distributed.agreement import axes_in_words, refuse_differences
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.fit.checkpoint import Checkpoint, fingerprint, kept_seed
from tallyfold.inference.fit.loop import Callback, Outcome, Phase, outcome_of, run_loop
from tallyfold.inference.fit.progress import Verbose, shown
from tallyfold.kernels.arrays import Mask
from tallyfold.kernels.backends import refuse_elsewhere
from tallyfold.kernels.device import use_device
from tallyfold.models.card import fit_words
from tallyfold.models.cells import checked_tensor
from tallyfold.models.completion import (
    calibrated,
    count_switched_off,
    fit_groups,
    head_phases_for,
    together,
    with_head,
    without_head,
)
from tallyfold.models.editing import by_size
from tallyfold.models.fit_log import tell_begin, tell_end
from tallyfold.models.fitted import Fitted
from tallyfold.models.fitted_model import FittedModel, refuse_y
from tallyfold.models.memory import TABLES, check_factors_memory, check_memory
from tallyfold.models.parameters import VERBOSE, RulesOfFields, check_parameters, integer
from tallyfold.models.record import Record
from tallyfold.posterior.predictive import Calibration


class Given(NamedTuple):
    """What `fit` is given beside the tensor; see there."""

    checkpoint: str | os.PathLike[str] | None = None
    every: int = 10
    resume: bool = False
    callbacks: Sequence[Callback] = ()
    groups: npt.ArrayLike | None = None

    def inside(self, folder: str) -> Given:
        """Return the same for a part of the fit, whose checkpoint is in a folder inside."""
        if self.checkpoint is None:
            return self
        return self._replace(checkpoint=os.path.join(self.checkpoint, folder))


class CountModel(FittedModel, BaseEstimator):  # type: ignore[misc]
    """Base of all models. A model says what its parameters may be, how it steps and what is left.

    Parameters are only stored when a model is made; `fit` checks them. A second `fit` starts
    afresh; one that fails leaves the model as it was.
    """

    name: ClassVar[str]
    rules = RulesOfFields()
    checks_memory: ClassVar[bool] = False
    """Whether `fit_cost` holds for it, so that a fit without room in memory is refused."""
    many_processes: ClassVar[bool] = False
    """Whether several processes can share a fit."""
    takes_hidden_for_zeros: ClassVar[bool] = True
    """Whether a fit with observed zeros takes cells that a split hid for zeros.

    Its rates then are too small by the share of cells that is not hidden, and are divided by it.
    """
    holds_out_zeros: ClassVar[bool] = False
    """Whether a fit with observed zeros holds out cells for itself, empty ones among them."""

    def __init_subclass__(cls) -> None:
        """Leave out scikit-learn's metadata routing: it adds a ``set_fit_request`` and more."""

    # -- what a model must say --------------------------------------------------------------------

    @abstractmethod
    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        """Return the phases of a fit."""

    @abstractmethod
    def _make_fitted(self, state: Any, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        """Turn the last state into the result; history and calibration are filled in later."""

    def _phases_on(
        self, tensor: CountTensor, cells: TrainingCells, held_out: CountTensor | None
    ) -> Sequence[Phase]:
        """Return the phases of a fit to a tensor, of which `cells` are not held out."""
        return self._phases(cells, held_out)

    def _own_rows(self, tensor: CountTensor) -> OwnRows | None:
        """Return the labels whose factors live in this process alone; None: it has all factors."""
        return None

    def _result(
        self, state: Any, phases: Sequence[Phase], axes: Sequence[Axis], cells: TrainingCells
    ) -> Fitted:
        """Turn the last state into the result, given the phases that made it."""
        return self._make_fitted(state, axes, cells)

    def _named(self, fitted: Fitted) -> Fitted:
        """Return a fit with the names of components that were asked for, before any is known."""
        return fitted

    @property
    def _iteration_limit(self) -> int | None:
        """The limit of iterations of all phases together; None: the sum of their own limits."""
        return None

    def _caveat(self, outcome: Outcome) -> str:
        """Return what to know of a model whose fit was interrupted."""
        return ""

    @property
    def _has_head(self) -> bool:
        """Whether the distribution of counts of at least one is learned from margins."""
        return bool(self.get_params().get("amount") == "head")

    @property
    def _observed(self) -> bool:
        """Whether cells without an entry count as zeros."""
        return bool(self.get_params()["zeros"] == "observed")

    def _validation_share(self) -> float | None:
        """Return the share of training cells to hold out; with observed zeros, of all cells."""
        given: float | None = self.get_params().get("validation")
        return None if self._observed and not self.holds_out_zeros else given

    def zeros_for(self, tensor: CountTensor) -> Literal["missing", "observed"]:
        """Return what cells without an entry are to the model when it is fitted to a tensor."""
        return self.get_params()["zeros"]  # type: ignore[no-any-return]

    # -- fitting ----------------------------------------------------------------------------------

    def fit(
        self,
        tensor: CountTensor,
        y: None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 10,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
        groups: npt.ArrayLike | None = None,
        verbose: Verbose = "auto",
    ) -> Self:
        """Fit the model to a tensor's counts.

        Parameters
        ----------
        tensor
            The counts to learn from.
        y
            None: it is there for scikit-learn, whose pipelines and searches hand one on.
        checkpoint, every
            A folder to save the run in, and after how many iterations to do so.
        resume
            Go on with the run saved in `checkpoint`; the result is that of a fit never
            interrupted. Without a saved run there, start one.
        callbacks
            Called after each iteration with a `Progress`: its `iteration` has a number, an
            objective, seconds, a score on validation cells and the name of its phase.
        groups
            A number for each non-zero cell, such as those of `near_copies`: cells that the fit
            holds out from itself, to stop or to calibrate, are whole groups.
        verbose
            Whether to show how it goes, on standard error: a bar in terminals and notebooks, a
            line now and then elsewhere. ``"auto"``: in notebooks and where someone types, if it
            takes longer than a second; not in scripts. The logger ``"tallyfold"`` is told of phases
            and choices (INFO) and iterations (DEBUG) in any case.

        Returns
        -------
        self
            A fit that comes to its `max_iter` before its stopping rules apply gives a
            `ConvergenceWarning`. Ctrl-C ends the fit early: the model then is that of the last
            whole iteration, and an `InterruptedWarning` says so. Inside
            `tallyfold.many_processes` each process gives its part of the cells, and all end with
            the same model.
        """
        refuse_y(y)
        check_parameters({"verbose": verbose}, {"verbose": VERBOSE})
        self._check(tensor, every, checkpoint, resume)
        decided = self._decided(tensor, Given(checkpoint, every, resume))
        title, seen = type(self).__name__, verbose if current_group().first else False
        tell_begin(decided, tensor, decided._seed)
        with use_device(self._device), shown(seen, title, lambda: fit_words(decided)) as own:
            given = Given(checkpoint, every, resume, (*callbacks, *own), groups)
            caveat = decided._fit_whole(tensor, given)
        self._fitted = decided.fitted_
        tell_end(decided)
        count_switched_off(self._fitted)
        if caveat is not None:
            warn(
                f"the fit was interrupted; the model is that of iteration {self.n_iter_}.{caveat}",
                InterruptedWarning,
            )
        return self

    def _decided(self, tensor: CountTensor, given: Given) -> Self:
        """Return the model with what a fit decides beforehand: its seed, if there is none.

        A fit that goes on has the seed that it began with. All processes have the same.
        """
        if self.get_params().get("random_state", 0) is not None:
            return self
        begun = given.checkpoint if given.resume else None

        def draw() -> int:
            return fixed_seed(None if begun is None else kept_seed(begun))

        return self._with(random_state=current_group().broadcast(draw))

    def _with(self, **parameters: Any) -> Self:
        """Return a model, not fitted, with some parameters changed."""
        return type(self)(**(self.get_params() | parameters))

    def _fit_whole(self, tensor: CountTensor, given: Given) -> str | None:
        """Fit all there is to fit; if interrupted, return what to know of it."""
        return self._fit(tensor, given)

    def _fit(self, tensor: CountTensor, given: Given) -> str | None:
        """Fit with parameters that were checked; if interrupted, return what to know of it."""
        groups = given.groups
        groups_N = None if groups is None else fit_groups(groups, tensor)
        groups_of = groups if isinstance(groups, CellGroups) else groups_N
        share = self._validation_share()
        zeros = self._observed and self.holds_out_zeros
        train, held_out = hold_out(tensor, share, self._seed, groups_of, zeros)
        cells = TrainingCells(train, self._own_rows(tensor))
        del train
        phases = list(self._phases_on(tensor, cells, held_out))
        if self._has_head:
            scale = self.get_params()["scale"]
            phases += head_phases_for(tensor, held_out, scale, self._seed, groups_N)
        try:
            data = fingerprint(tensor, cells.group, groups_N)
            outcome = self._run(phases, data, cells, given)
        except DivergedError as error:
            if error.run.history:
                good = outcome_of(error.run, phases, "diverged")
                error.model = self._with()
                error.model._fitted = self._whole(good, phases, tensor, cells, given)
            raise
        self._fitted = self._whole(outcome, phases, tensor, cells, given)
        told = self._caveat(without_head(outcome))
        if self._has_head and self._fitted.head is None:
            told += " The count head was not trained yet: counts follow the factors' rates."
        caveat = told if outcome.reason == "interrupted" else None
        if held_out is not None and self._fitted.likelihood is not None:
            try:
                self._fitted = calibrated(self._fitted, self._moments, outcome, phases, held_out)
            except KeyboardInterrupt:  # the model stands, without its calibration
                return told
        return caveat

    def _whole(
        self,
        outcome: Outcome,
        phases: Sequence[Phase],
        tensor: CountTensor,
        cells: TrainingCells,
        given: Given,
    ) -> Fitted:
        """Return the result of a fit, not calibrated yet."""
        fitted = self._result(without_head(outcome).state, phases, tensor.axes, cells)
        if self._observed and self.takes_hidden_for_zeros and fitted.occurrence is None:
            # what was fitted is the rate times the share of cells that is not hidden
            fitted = replace(fitted, calibration=Calibration(scale=1 / cells.share))
        fitted = together(by_size(self._named(fitted)), cells, given.checkpoint)
        return replace(
            with_head(fitted, outcome, phases),
            history=tuple(outcome.history),
            n_iter=outcome.n_iter,
            reason=outcome.reason,
            parameters=self._plain_parameters(),
            record=Record.of(tensor, cells.group),
        )

    def set_output(self, *, transform: str | None = None) -> NoReturn:
        """Refuse scikit-learn's choice of a container: nothing here is transformed."""
        raise ParameterError(
            f"{type(self).__name__} transforms nothing, so there is no output to set: "
            "components(axis) and history_ are frames of pandas, vectors(axis) is an array."
        )

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _seed(self) -> int:
        return self.get_params().get("random_state") or 0

    @property
    def _device(self) -> str:
        """Where kernels compute while the model is fitted; predictions are made on the CPU."""
        return str(self.get_params().get("device", "cpu"))

    def _informed(self, cells: TrainingCells) -> list[Mask]:
        """Return which entities the data say something of: all, if zeros are observed."""
        return [seen_D | self._observed for seen_D in cells.seen]

    def check_fit(self, tensor: CountTensor, processes: int = 1) -> None:
        """Refuse parameters and counts that `fit` would refuse, without fitting.

        Parameters
        ----------
        tensor
            The counts to learn from.
        processes
            How many processes the fit is to be shared between.
        """
        self._check_processes(processes)
        self._check(tensor, 1, None, False)

    def check_shared(self, store: Store, processes: int) -> None:
        """Refuse what a fit shared between processes would refuse, without reading all of a store.

        Parameters
        ----------
        store
            The counts to learn from; some of its cells are looked at.
        processes
            How many processes the fit is to be shared between.
        """
        self.check_fit(store.first_cells(), processes)
        if self.checks_memory:
            check_memory(store, self.get_params()["n_components"], name=self.name)

    def _check_processes(self, number: int) -> None:
        if number > 1 and not self.many_processes:
            raise ParameterError(
                f"{type(self).__name__} fits in one process only; BPTF, VAEBPTF and "
                "Margins in several."
            )

    def _check(
        self,
        tensor: CountTensor,
        every: int,
        checkpoint: str | os.PathLike[str] | None,
        resume: bool,
    ) -> None:
        check_parameters(self.get_params(), self.rules)
        refuse_elsewhere(self.get_params().get("backend", "auto"), self._device)
        check_parameters({"every": every}, {"every": integer(1)})
        if resume and checkpoint is None:
            raise ParameterError("`resume` needs a `checkpoint` folder to resume from.")
        group = current_group()
        self._check_processes(group.size)
        if group.all_reduce_number(checked_tensor(tensor).nnz) == 0:
            raise DataError("the tensor has no non-zero cell; there is nothing to fit.")
        given = {
            "model and parameters": (self.name, self._plain_parameters()),
            "axes": axes_in_words(tensor.axes) if group.size > 1 else None,
            "arguments of fit": (str(checkpoint), every, resume),
        }
        own_cells = fingerprint(tensor) if group.size > 1 and tensor.nnz else None
        refuse_differences(group, given, own_cells)
        self._check_memory(tensor, group.size)

    def _check_memory(self, tensor: CountTensor, n_processes: int) -> None:
        """Refuse a fit that would not have room, as far as that is known beforehand."""
        given = self.get_params()
        if "n_components" not in given:
            return
        if self.checks_memory and n_processes == 1:
            check_memory(tensor, given["n_components"], name=self.name)
            return
        tables = TABLES + given.get("n_draws", 0) * given.get("n_chains", 1)
        own = self._own_rows(tensor)
        check_factors_memory(tensor, own, given["n_components"], tables, name=self.name)

    def _run(
        self,
        phases: Sequence[Phase],
        data: str,
        cells: TrainingCells,
        given: Given,
    ) -> Outcome:
        limit, callbacks, every = self._iteration_limit, given.callbacks, given.every
        if given.checkpoint is None:
            return run_loop(phases, max_iter=limit, callbacks=callbacks)
        kept = Checkpoint(given.checkpoint, self.name, self._plain_parameters(), data, cells)
        with kept.held():
            run = kept.load(phases) if given.resume and kept.exists() else None
            return run_loop(
                phases, max_iter=limit, run=run, callbacks=callbacks, keep=kept.keep, every=every
            )

    def _plain_parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON knows them."""
        return {
            n: v.item() if isinstance(v, np.generic) else v for n, v in self.get_params().items()
        }


for _method in [name for name in vars(CountModel) if name.endswith("_request")]:
    delattr(CountModel, _method)
