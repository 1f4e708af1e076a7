"""The cross-validation that searches and rank choices share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallyfold.data.near_copies import groups_along
from tallyfold.data.seeds import fixed_seed
from tallyfold.data.split import Hidden, Split, k_folds
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import (
    InferenceError,
    InterruptedWarning,
    ParameterError,
    TallyfoldError,
    warn,
)
from tallyfold.evaluation.fit_and_score import fit_whole
from tallyfold.evaluation.holding_out import hidden_from, with_decided_zeros
from tallyfold.evaluation.metrics import METRICS, scores_of
from tallyfold.inference.fit.checkpoint import fingerprint
from tallyfold.models.base import CountModel
from tallyfold.models.cells import checked_tensor
from tallyfold.models.parameters import RANDOM_STATE, check_parameters, integer
from tallyfold.models.registry import MODELS
from tallyfold.version import __version__

if TYPE_CHECKING:
    import pandas as pd

LARGEST_SEED = 2**63


@dataclass(frozen=True)
class CrossValidation:
    """A model, the folds it is fitted and scored on, and the score."""

    model: CountModel
    folds: Sequence[Split]
    metric: str
    random_state: int
    hidden: Hidden = "nonzero"
    copies: str | None = None

    def score(
        self,
        parameters: Mapping[str, Any],
        fold: int,
        *,
        keep: Callable[[CountModel], None] | None = None,
    ) -> float:
        """Fit the model with some parameters changed on one fold; return its held-out score.

        `keep` is given the fitted model. The seed is the model's own plus the fold's number: the
        same for all settings that are compared, so that they share their luck, and another in each
        fold, so that a mean over folds does not hang on one start.
        """
        settings = self.model.get_params() | dict(parameters)
        if "random_state" in settings:
            settings["random_state"] = (settings["random_state"] + fold) % LARGEST_SEED
        fitted = type(self.model)(**settings)
        train, test = self.folds[fold]
        fit_whole(fitted, train, groups_along(train, self.copies))
        score = scores_of(fitted, test, [self.metric], train)[self.metric]
        if score is None:
            lacks = (
                "probability of a zero"
                if fitted.fitted_.has_distribution
                else ("distribution of counts")
            )
            raise ParameterError(
                f"{self.model.name} with these parameters has no {lacks}, so no {self.metric!r}; "
                "use metric='rmse' or 'mae-mean'."
            )
        if not math.isfinite(score):
            raise InferenceError(f"the score {self.metric!r} of fold {fold + 1} is {score}.")
        if keep is not None:
            keep(fitted)
        return float(score)

    def attempt(
        self, parameters: Mapping[str, Any], fold: int, **more: Any
    ) -> tuple[float | None, str | None]:
        """Return the score of one fold, or None and the error of a fit that failed."""
        try:
            return self.score(parameters, fold, **more), None
        except (TallyfoldError, MemoryError) as error:
            return None, str(error) or type(error).__name__

    def identity(
        self, tensor: CountTensor, searched: Sequence[str], space: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return all that decides the scores: the space, and what is not `searched`."""
        fixed = {n: v for n, v in self.model._plain_parameters().items() if n not in searched}
        return {
            "tallyfold": __version__,
            "model": self.model.name,
            **{f"space.{key}": given for key, given in space.items()},
            **{f"parameters.{name}": value for name, value in fixed.items()},
            "tensor": fingerprint(tensor),
            "folds": len(self.folds),
            "metric": self.metric,
            "random_state": self.random_state,
        } | self._way_of_holding_out

    @property
    def _way_of_holding_out(self) -> dict[str, str]:
        """What of it is not usual."""
        hidden = {} if self.hidden == "nonzero" else {"cells": self.hidden}
        return hidden | ({} if self.copies is None else {"copies": self.copies})


def cross_validation(
    model: CountModel,
    tensor: CountTensor,
    folds: int,
    metric: str | None,
    random_state: int | None,
    cells: Hidden | None = None,
    copies: str | None = None,
) -> CrossValidation:
    """Check the arguments and cut the folds: as the model's zeros ask for, or of some `cells`.

    What empty cells are to a model with ``zeros="auto"`` is decided once, for all folds.
    """
    check_parameters(
        {"folds": folds, "random_state": random_state},
        {"folds": integer(2), "random_state": RANDOM_STATE},
    )
    model = with_decided_zeros({model.name: model}, checked_tensor(tensor, "tensor"))[model.name]
    hidden = cells or hidden_from([model], tensor)
    score = metric_for(model, metric, tensor, hidden)
    seed = fixed_seed(random_state)
    groups = groups_along(tensor, copies)
    parts = k_folds(tensor, folds, cells=hidden, random_state=seed, groups=groups)
    return CrossValidation(_seeded(model), parts, score, seed, hidden, copies)


def _seeded(model: CountModel) -> CountModel:
    """Return the model with a seed, so that all settings share their luck."""
    parameters = model.get_params()
    if parameters.get("random_state", 0) is not None:
        return model
    return type(model)(**(parameters | {"random_state": fixed_seed(None)}))


def fresh_model(model: str | type[CountModel] | CountModel) -> CountModel:
    """Return a model not fitted yet: by its name, of its class, or a copy of an estimator."""
    if isinstance(model, str) and model in MODELS:
        return MODELS[model]()  # type: ignore[no-any-return]
    if isinstance(model, type) and issubclass(model, CountModel):
        return model()
    if isinstance(model, CountModel):
        return type(model)(**model.get_params())  # type: ignore[misc]  # its base has no types
    raise ParameterError(
        f"`model` must be a model, its class or one of {', '.join(MODELS)}; got {model!r}."
    )


def metric_for(
    model: CountModel, metric: str | None, tensor: CountTensor, hidden: Hidden = "nonzero"
) -> str:
    """Return the score to choose by: the one given, or the one that suits the model.

    That is the log pmf of held-out counts, given that they are at least one where zeros are
    missing, and of all held-out cells where these are hidden, too. A model that predicts means
    only has no pmf; of the errors of a mean, the squared one is least at the true mean.
    """
    if metric is None:
        given = model.get_params()
        if model.name == "ntf-ls" or given.get("loss") == "squared":
            return "rmse"
        if model.zeros_for(tensor) == "missing":
            return "log-pmf-positive"
        return "log-score" if hidden == "all" else "log-pmf"
    if not isinstance(metric, str) or metric not in METRICS:
        raise ParameterError(f"`metric` must be one of {', '.join(METRICS)}; got {metric!r}.")
    return metric


def warn_interrupted(work: str, done: str, stored: bool) -> None:
    """Warn that Ctrl-C came before all was done, and say how to go on."""
    how = " Make the same call to go on." if stored else ""
    message = f"the {work} was interrupted after {done}.{how}"
    warn(message, InterruptedWarning)


def first_error(rows: pd.DataFrame) -> str:
    """Return the first error of fits that failed, as the end of a message."""
    errors = rows["error"].dropna()
    return f" The first error: {errors.iloc[0]}" if len(errors) else ""
