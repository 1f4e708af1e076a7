"""`synthetic-recovery`: are the true parameters found (the paper's Figure 8b)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.simulate import Simulation
from tallyfold.evaluation.pairing import summary
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel
from tallyfold.paper.descriptions import described, notes
from tallyfold.paper.setting import Reproduction, Setting, fitted_share
from tallyfold.paper.synthetic import OBSERVED_TENTH, TRUE_COMPONENTS, forms, simulated
from tallyfold.posterior.gamma_factors import GammaFactors

Floats = npt.NDArray[np.float64]

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
QUICK_SHARES = (0.1, 0.3, 1.0)


def synthetic_recovery(setting: Setting) -> Reproduction:
    """Correlation of estimated and true parameters against the share of the data."""
    import pandas as pd

    shares = QUICK_SHARES if setting.quick else SHARES
    splits = {f"{share:.0%}": partial(fitted_share, share=share) for share in shares}
    parts = []
    for seed in setting.seeds:
        truth = simulated(setting, seed, OBSERVED_TENTH)
        scores = {name: partial(score, truth=truth) for name, score in CORRELATIONS.items()}
        one, tensors = replace(setting, seeds=(seed,)), {OBSERVED_TENTH: truth.tensor}
        models = forms(TRUE_COMPONENTS)
        parts.append(one.rows("synthetic-recovery", models, scores, tensors=tensors, splits=splits))
    table = summary(pd.concat(parts, ignore_index=True))
    table = table.rename(columns={"split": "share", "metric": "correlation of"})
    columns = ["model", "correlation of", "share", "mean", "standard_error", "n"]
    table = table[columns].sort_values(
        ["model", "correlation of"],
        key=lambda column: pd.factorize(column)[0],  # as they first come
        kind="stable",
    )
    texts = notes("synthetic-recovery", **described("texts"))
    return Reproduction({"Correlation with the truth": table}, texts)


def factor_correlation(predictions: Predictions, truth: Simulation, kind: str) -> float | None:
    """Return how posterior means go with the true factors, averaged over axes."""
    factors, order = predictions.model.posterior_, matched_components(predictions.model, truth)
    pairs = [
        (factors.mean(axis.name)[:, order].ravel(), true.ravel())
        for axis, true in zip(predictions.model.axes_, truth.factors, strict=True)
    ]
    return _mean_correlation(pairs, kind)


def parameter_correlation(
    predictions: Predictions, truth: Simulation, kind: str, parameter: str
) -> float | None:
    """Return how entities' Gamma shapes or rates go with the true ones, averaged over axes."""
    factors = predictions.model.posterior_
    if not isinstance(factors, GammaFactors):
        return None
    true_of = {"shape": truth.shapes, "rate": truth.rates}[parameter]
    pairs = [
        (getattr(factors, parameter)(axis.name).mean(axis=1), true.mean(axis=1))
        for axis, true in zip(predictions.model.axes_, true_of, strict=True)
    ]
    return _mean_correlation(pairs, kind)


def matched_components(model: CountModel, truth: Simulation) -> npt.NDArray[np.int64]:
    """Return the model's components in the order of the true ones they resemble most."""
    from scipy.optimize import linear_sum_assignment

    n_true = truth.factors[0].shape[1]
    total = np.zeros((n_true, n_true))
    for axis, true in zip(model.axes_, truth.factors, strict=True):
        found = model.posterior_.mean(axis.name)
        both = np.corrcoef(np.log(true.T + 1e-12), np.log(found.T + 1e-12))
        total += np.nan_to_num(both[:n_true, n_true:])
    return np.asarray(linear_sum_assignment(-total)[1], np.int64)


def _mean_correlation(pairs: list[tuple[Floats, Floats]], kind: str) -> float | None:
    """Return the mean correlation; None where one side is all the same and goes with nothing."""
    from scipy.stats import pearsonr, spearmanr

    if any(np.ptp(side) == 0 for pair in pairs for side in pair):
        return None
    correlation: Any = {"Pearson": pearsonr, "Spearman": spearmanr}[kind]
    return float(np.mean([correlation(*pair).statistic for pair in pairs]))


SCORES: dict[str, Callable[..., float | None]] = {
    "factors": factor_correlation,
    "shapes": partial(parameter_correlation, parameter="shape"),
    "rates": partial(parameter_correlation, parameter="rate"),
}
CORRELATIONS = {
    f"{name}, {kind}": partial(score, kind=kind)
    for name, score in SCORES.items()
    for kind in ("Pearson", "Spearman")
}
