"""`synthetic-rank`: is the true number of components found (the paper's Figure 8a)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import tallyfold as tf
from tallyfold.data.simulate import Simulation
from tallyfold.evaluation.experiment import held_out_fifth
from tallyfold.models.base import CountModel
from tallyfold.paper.descriptions import described, notes
from tallyfold.paper.line_up import FLAGSHIP, PAPER_FORM, constants, paper_form
from tallyfold.paper.setting import Reproduction, Setting, fitted_share
from tallyfold.paper.tables import score_table

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
        FLAGSHIP: tf.VAEBPTF(n_components=n_components),
        "BPTF": tf.BPTF(n_components=n_components),
        ZEROS_OBSERVED: tf.BPTF(n_components=n_components, zeros="observed"),
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
    tables = {
        "Negative log-likelihood per cell": rank_table(rows),
        f"Models with {TRUE_COMPONENTS} components": true_number_table(rows, pd.concat(others)),
    }
    return Reproduction(tables, notes("synthetic-rank", **described("texts")))


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


def true_number_table(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return the held-out score of each model with the true number of components, one for all."""
    import pandas as pd

    held_out = (rows["split"] == "held-out cells") & (rows["components"] == TRUE_COMPONENTS)
    both = pd.concat([rows[held_out], others])
    table = score_table(both, {"log-pmf-positive": "log pmf given y >= 1"})
    return table.sort_values("dataset", kind="stable", ignore_index=True)
