"""Simulated data: are the true number of components, and the true parameters, found (Figure 8)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import tallyfold as tf
from tallyfold.data.simulate import Simulation
from tallyfold.evaluation.experiment import held_out_fifth
from tallyfold.evaluation.pairing import summary
from tallyfold.evaluation.predictions import Predictions
from tallyfold.kernels.arrays import Ints
from tallyfold.models.base import CountModel
from tallyfold.paper.line_up import FLAGSHIP, PAPER_FORM, constants, paper_form
from tallyfold.paper.published import notes, score_table
from tallyfold.paper.setting import Reproduction, Setting, fitted_share
from tallyfold.posterior.gamma_factors import GammaFactors

if TYPE_CHECKING:
    import pandas as pd


TRUE_COMPONENTS = 10
RANKS = (2, 5, 8, 10, 12, 15, 20)
QUICK_RANKS = (2, 5, 10, 15)
OBSERVED_TENTH, THINNED_TENTH = "a tenth observed", "a tenth non-zero"
"""The two readings of the paper's recipe for its synthetic data."""
MORE = f"{{}}, more than with {TRUE_COMPONENTS}"
"""What a column is called that holds differences from the true number of components."""
GIVEN_ONE = f"{PAPER_FORM}, y >= 1"
ZEROS_OBSERVED = "BPTF, zeros observed"
PLAIN_POISSON = (PAPER_FORM, ZEROS_OBSERVED)
"""Models of counts that may be zero; the others are scored given y >= 1."""


def simulated(setting: Setting, seed: int, recipe: str) -> Simulation:
    """Simulate by one reading of the paper's recipe; quick runs have a smaller tensor."""
    size = 40 if setting.quick else 100
    density = None if recipe == OBSERVED_TENTH else 0.1
    truth = tf.simulate.paper((size,) * 3, TRUE_COMPONENTS, density=density, random_state=seed)
    if recipe == THINNED_TENTH:
        return truth
    share = min(1.0, 0.1 * size**3 / truth.tensor.nnz)
    return replace(truth, tensor=tf.subsample(truth.tensor, share, random_state=seed))


def forms(n_components: int) -> dict[str, CountModel]:
    """Return the models that are tried."""
    return {
        PAPER_FORM: simulated_form(n_components),
        FLAGSHIP: tf.VAEBPTF(
            zeros="missing", amount="negative-binomial", n_components=n_components
        ),
        "BPTF": tf.BPTF(n_components=n_components),
        ZEROS_OBSERVED: tf.BPTF(n_components=n_components, zeros="observed", validation=None),
    }


def simulated_form(n_components: int, **changes: Any) -> CountModel:
    """Return the paper's form with its settings for synthetic data."""
    return paper_form("simulated", n_components=n_components, theta=1.0, eta=5.0, **changes)


def synthetic_rank(setting: Setting) -> Reproduction:
    """Negative log-likelihood against the number of components, of which there are truly 10."""
    import pandas as pd

    ranks = QUICK_RANKS if setting.quick else RANKS
    models = {f"{name} | {rank}": model for rank in ranks for name, model in forms(rank).items()}
    once = {GIVEN_ONE: simulated_form(TRUE_COMPONENTS, truncated=True)} | constants()
    held_out = {"held-out cells": held_out_fifth}
    both = {"fitted cells": fitted_share} | held_out  # scored on what was fitted, as in the paper
    scores = ["log-pmf", "log-pmf-positive"]
    parts: list[pd.DataFrame] = []
    others: list[pd.DataFrame] = []
    for seed in setting.seeds:
        one = replace(setting, seeds=(seed,))
        for recipe in (OBSERVED_TENTH, THINNED_TENTH):
            tensors = {recipe: simulated(setting, seed, recipe).tensor}
            for found, tried, splits in ((parts, models, both), (others, once, held_out)):
                found.append(
                    one.rows("synthetic-rank", tried, scores, tensors=tensors, splits=splits)
                )
    rows = pd.concat(parts, ignore_index=True)
    names = rows["model"].str.rpartition(" | ")
    rows = rows.assign(model=names[0], components=names[2].astype(int))
    # the held-out score of each model with the true number of components, one score for all
    true = (rows["split"] == "held-out cells") & (rows["components"] == TRUE_COMPONENTS)
    scored = score_table(pd.concat([rows[true], *others]), {scores[1]: "log pmf given y >= 1"})
    tables = {
        "Negative log-likelihood per cell": rank_table(rows),
        f"Models with {TRUE_COMPONENTS} components": scored.sort_values(
            "dataset", kind="stable", ignore_index=True
        ),
    }
    return Reproduction(tables, notes("synthetic-rank"))


def rank_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per recipe, model and rank: means over seeds, the lowest held-out one marked.

    Simulated tensors differ more than ranks do, so that errors are those of the differences from
    the true number of components on the same tensor.
    """
    rows = rows.assign(value=-rows["value"])
    plain = rows["model"].isin(PLAIN_POISSON)
    rows = rows[rows["metric"] == np.where(plain, "log-pmf", "log-pmf-positive")]
    keys = ["dataset", "model", "components"]
    each = rows.pivot_table("value", [*keys, "seed"], "split", dropna=False)
    true = each[each.index.get_level_values("components") == TRUE_COMPONENTS].reindex(each.index)
    more = (each - true.groupby(["dataset", "model", "seed"]).transform("first")).groupby(keys)
    table = each.groupby(keys).mean()
    for cells in each.columns:
        table[MORE.format(cells)] = more[cells].mean()
        table[f"{MORE.format(cells)}, se"] = more[cells].sem()
    best = table.groupby(keys[:2])["held-out cells"].transform("min")
    table["lowest"] = np.where(table["held-out cells"] == best, "<", "")
    return table.reset_index().rename_axis(columns=None)


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
    return Reproduction({"Correlation with the truth": table}, notes("synthetic-recovery"))


def correlation(predictions: Predictions, truth: Simulation, of: str, kind: str) -> float | None:
    """Return how estimates go with the truth, averaged over axes.

    `of` is ``"factors"``, by posterior means, or ``"shapes"`` or ``"rates"``, the entities' Gamma
    parameters. None where one side is all the same and goes with nothing.
    """
    from scipy.stats import pearsonr, spearmanr

    factors, names = predictions.model.posterior_, predictions.model.posterior_.names
    true = [*getattr(truth, of)]
    if of == "factors":
        order = matched_components(predictions.model, truth)
        found = [factors.mean(name)[:, order] for name in names]
    elif isinstance(factors, GammaFactors):
        ask = factors.shape if of == "shapes" else factors.rate
        found = [ask(name).mean(axis=1) for name in names]
        true = [parameter.mean(axis=1) for parameter in true]
    else:
        return None
    if any(np.ptp(side) == 0 for side in (*found, *true)):
        return None
    measure: Any = {"Pearson": pearsonr, "Spearman": spearmanr}[kind]
    pairs = zip(found, true, strict=True)
    return float(np.mean([measure(one.ravel(), other.ravel()).statistic for one, other in pairs]))


def matched_components(model: CountModel, truth: Simulation) -> Ints:
    """Return the model's components in the order of the true ones they resemble most."""
    from scipy.optimize import linear_sum_assignment

    n_true = truth.factors[0].shape[1]
    total = np.zeros((n_true, n_true))
    for axis, true in zip(model.axes_, truth.factors, strict=True):
        found = model.posterior_.mean(axis.name)
        both = np.corrcoef(np.log(true.T + 1e-12), np.log(found.T + 1e-12))
        total += np.nan_to_num(both[:n_true, n_true:])
    return np.asarray(linear_sum_assignment(-total)[1], np.int64)


CORRELATIONS = {
    f"{of}, {kind}": partial(correlation, of=of, kind=kind)
    for of in ("factors", "shapes", "rates")
    for kind in ("Pearson", "Spearman")
}
