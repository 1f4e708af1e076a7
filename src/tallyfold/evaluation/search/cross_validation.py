"""One model on one fold, as searches and rank choices see it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.split import Split
from tallyfold.errors import InferenceError, InterruptedWarning, ParameterError
from tallyfold.evaluation.metrics import METRICS, scores_of
from tallyfold.models.base import CountModel
from tallyfold.models.registry import MODELS

LARGEST_SEED = 2**63


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


def metric_for(model: CountModel, metric: str | None) -> str:
    """Return the score to choose by: the one given, or the one that suits the model.

    That is the log pmf of held-out counts, given that they are at least one where zeros are
    missing. A model that predicts means only has no pmf; of the errors of a mean, the squared one
    is least at the true mean.
    """
    if metric is None:
        given = model.get_params()
        if model.name == "ntf-ls" or given.get("loss") == "squared":
            return "rmse"
        return "log-pmf" if given.get("zeros") == "observed" else "log-pmf-positive"
    if not isinstance(metric, str) or metric not in METRICS:
        raise ParameterError(f"`metric` must be one of {', '.join(METRICS)}; got {metric!r}.")
    return metric


def fold_score(
    model: CountModel, parameters: Mapping[str, Any], parts: Split, fold: int, metric: str
) -> float:
    """Fit a model with some parameters changed on one fold, and return its held-out score.

    The seed is the model's own plus the fold's number: the same for all settings that are
    compared, so that they share their luck, and another in each fold, so that a mean over folds
    does not hang on one start. Ctrl-C during the fit is a KeyboardInterrupt here: the score of a
    fit cut short would be compared with those of whole ones.
    """
    settings = model.get_params() | dict(parameters)
    if "random_state" in settings:
        settings["random_state"] = (settings["random_state"] + fold) % LARGEST_SEED
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedWarning)
        try:
            fitted = type(model)(**settings).fit(parts.train)
        except InterruptedWarning:
            raise KeyboardInterrupt from None
    score = scores_of(fitted, parts.test, [metric], parts.train)[metric]
    if score is None:
        raise ParameterError(
            f"{model.name} with these parameters has no distribution of counts, so no {metric!r}; "
            "use metric='rmse' or 'mae-mean'."
        )
    if not math.isfinite(score):
        raise InferenceError(f"the score {metric!r} of fold {fold + 1} is {score}.")
    return float(score)


def standard_error(scores: Sequence[float] | npt.NDArray[np.float64]) -> float | None:
    """Return the standard error of a mean over folds; None for fewer than two."""
    if len(scores) < 2:
        return None
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores)))


def difference_error(difference_F: npt.NDArray[np.float64]) -> float:
    """Return the standard error of a mean difference over folds.

    The training parts of folds have cells in common, so the differences are not independent. Nadeau
    and Bengio's correction puts 1/k + (test cells / training cells) in the place of 1/k.
    """
    folds = len(difference_F)
    return float(np.std(difference_F, ddof=1) * np.sqrt(1 / folds + 1 / (folds - 1)))
