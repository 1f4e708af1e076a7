"""Several models on one split: fit each, score each, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.fit_and_score import fit_and_score
from tallyfold.evaluation.holding_out import say_different_zeros, with_decided_zeros
from tallyfold.evaluation.many_fits import many_fits
from tallyfold.evaluation.metrics import METRICS, checked_metrics
from tallyfold.models.base import CountModel
from tallyfold.models.constant import Constant
from tallyfold.models.expected import checked_model, checked_tensor
from tallyfold.models.main_effects import MainEffects
from tallyfold.models.margins import Margins
from tallyfold.models.scoring import ranked_axis

if TYPE_CHECKING:
    import pandas as pd


@many_fits
def compare(
    models: Mapping[str, CountModel],
    train: CountTensor,
    test: CountTensor,
    metrics: Sequence[str] = tuple(METRICS),
    *,
    announce: Callable[[str], None] | None = None,
    groups: npt.ArrayLike | None = None,
) -> pd.DataFrame:
    """Fit models on one part and score them on the other.

    Scores compare if empty cells are the same to all models: those with ``zeros="auto"`` take what
    the others have. If others differ, a line of the log and the column `zeros` say so.

    Parameters
    ----------
    models
        Models by the name of their row; they are fitted in place.
    train, test
        The two parts of a split.
    metrics
        Names of scores from `METRICS`.
    announce
        Called with a model's name before it is fitted.
    groups
        Of the cells of `train`, for `fit`: those of `near_copies` stay together in what a fit holds
        out for itself.

    Returns
    -------
    pandas.DataFrame
        A row per model: what empty cells are to it, seconds, iterations, its scores (missing where
        the model has no distribution of counts), and the error of a model that failed.
        ``attrs["along"]`` is the axis whose labels ``auc-within``, ``recall-10``, ``recall-20`` and
        ``ndcg-20`` rank: the longest, but for times.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> compare({"constant": tf.Constant()}, train, test, ["mae-mean"]).columns.tolist()
    ['model', 'zeros', 'seconds', 'iterations', 'mae-mean', 'error']
    """
    import pandas as pd

    scores = checked_metrics(metrics)
    if not isinstance(models, Mapping) or not models:
        raise ParameterError(
            "`models` must be models by the name of their row, such as {'BPTF': BPTF()}; got "
            f"{models!r}."
        )
    for model in models.values():
        checked_model(model)
    checked_tensor(train, "train")
    if not train.nnz or not checked_tensor(test, "test").nnz:
        raise DataError(
            f"a comparison needs counts in both parts; got {train.nnz:,} cells to train on and "
            f"{test.nnz:,} to test on."
        )
    rows = []
    decided = with_decided_zeros(models, train)
    say_different_zeros(decided, train)
    for name, model in decided.items():
        if announce is not None:
            announce(name)
        measured, values = fit_and_score(model, train, test, scores, groups)
        if model is not models[name] and measured["error"] is None:
            models[name]._fitted = model.fitted_
        rows.append({"model": name, "zeros": model.zeros_for(train)} | measured | values)
    columns = ["model", "zeros", "seconds", "iterations", *metrics, "error"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["along"] = ranked_axis(train.axes)
    return frame


def floors(zeros: Literal["missing", "observed"] = "missing") -> dict[str, CountModel]:
    """Return, by name, models without components: what a factorization must beat.

    Parameters
    ----------
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.

    Examples
    --------
    >>> list(floors())
    ['constant', 'main effects', 'margins']
    """
    return {
        "constant": Constant(zeros=zeros),
        "main effects": MainEffects(zeros=zeros),
        "margins": Margins(zeros=zeros),
    }
