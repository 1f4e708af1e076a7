"""`synthetic-rank`: is the true number of components found (the paper's Figure 8a)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.data.split import Split
from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.experiment import held_out_fifth
from tallyfold.evaluation.paper.line_up import PAPER_FORM, constants
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.synthetic_recipe import (
    RECIPE_NOTE,
    RECIPES,
    TRUE_COMPONENTS,
    ZEROS_OBSERVED,
    forms,
    simulated,
    simulated_form,
)
from tallyfold.evaluation.paper.tables import means

if TYPE_CHECKING:
    import pandas as pd

RANKS = (2, 5, 8, 10, 12, 15, 20)
QUICK_RANKS = (2, 5, 10, 15)
MORE = f"{{}}, more than with {TRUE_COMPONENTS}"
"""What a column is called that holds differences from the true number of components."""
GIVEN_ONE = f"{PAPER_FORM}, y >= 1"
ONE_SCORE = "log pmf given y >= 1"
PLAIN_POISSON = (PAPER_FORM, ZEROS_OBSERVED)
"""Models of counts that may be zero; the others are scored given y >= 1."""


def all_of_it(tensor: CountTensor, seed: int) -> Split:
    """Score on the cells that were fitted, as the paper does."""
    return Split(tensor, tensor)


def synthetic_rank(setting: Setting) -> Reproduction:
    """Negative log-likelihood against the number of components, of which there are truly 10."""
    import pandas as pd

    ranks = QUICK_RANKS if setting.quick else RANKS
    models = {f"{name} | {rank}": model for rank in ranks for name, model in forms(rank).items()}
    once = {GIVEN_ONE: simulated_form(TRUE_COMPONENTS, truncated=True)} | constants()
    parts, others = [], []
    for seed in setting.seeds:
        for data in RECIPES:
            one = replace(setting, seeds=(seed,))
            tensors = {data: simulated(setting, seed, data).tensor}
            held_out = {"held-out cells": held_out_fifth}
            both = {"fitted cells": all_of_it} | held_out
            scores = ["log-pmf", "log-pmf-positive"]
            parts.append(one.rows("synthetic-rank", models, scores, tensors=tensors, splits=both))
            others.append(
                one.rows("synthetic-rank", once, scores, tensors=tensors, splits=held_out)
            )
    rows = pd.concat(parts, ignore_index=True)
    names = rows["model"].str.rpartition(" | ")
    rows = rows.assign(model=names[0], components=names[2].astype(int))
    return Reproduction(
        {
            "Negative log-likelihood per cell": rank_table(rows),
            f"Models with {TRUE_COMPONENTS} components": true_number_table(rows, pd.concat(others)),
        },
        [
            "published: a figure without numbers (Figure 8a), with a sharp turn at the true 10.",
            "fitted cells: the negative log-likelihood of the cells that were fitted, as in the "
            "paper; held-out cells: of a fifth that was not. Both are full log pmfs, given y >= 1 "
            "for the models of counts given y >= 1, so that these columns compare numbers of "
            "components and not models; < marks the lowest of each model. The second table has one "
            "score for all models, and the paper's form fitted to counts given y >= 1, too.",
            f"more than with {TRUE_COMPONENTS}: the difference from the true number on the same "
            "tensor, with its standard error over tensors; below 0 is better than the truth.",
            RECIPE_NOTE,
        ],
    )


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
    names = {"mean": ONE_SCORE, "standard_error": f"{ONE_SCORE}, se"}
    table = means(pd.concat([rows[held_out], others]), "log-pmf-positive")
    table = table.rename(columns=names)[["dataset", "model", *names.values()]]
    return table.sort_values("dataset", kind="stable", ignore_index=True)
