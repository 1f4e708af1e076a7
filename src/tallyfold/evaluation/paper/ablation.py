"""`ablation`: the paper's form with and without reweighting (the paper's Table 4)."""

from __future__ import annotations

from functools import partial

from tallyfold.evaluation.paper.line_up import paper_form
from tallyfold.evaluation.paper.published import published_loglik, published_value
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.tables import means, side_by_side
from tallyfold.models.base import CountModel
from tallyfold.models.constant import Constant

WITH, WITHOUT, BY_ERROR = (
    "VAE-BPTF",
    "VAE-BPTF without reweighting",
    "VAE-BPTF, reweighted by error",
)


def variants(dataset: str) -> dict[str, CountModel]:
    """Return the paper's form with its reweighting, without, and with that of its future work."""
    return {
        WITH: paper_form(dataset),
        WITHOUT: paper_form(dataset, reweight="none", theta=None, eta=None),
        BY_ERROR: paper_form(dataset, reweight="error", theta=None, eta=None),
        "constant": Constant(likelihood="poisson", truncated=False),
    }


def ablation(setting: Setting) -> Reproduction:
    """Measure what down-weighing the over-common count brings."""
    import pandas as pd

    metrics = ["mae-mean", "mae-median", "paper-form", "log-pmf-positive"]
    rows = pd.concat(
        setting.rows(
            "ablation",
            variants(name),
            metrics,
            tensors={name: partial(setting.tensor, name)},
        )
        for name in setting.tensors
    )
    error = side_by_side(
        {"MAE": means(rows, "mae-mean"), "MAE of the median": means(rows, "mae-median")},
        published=lambda dataset, model: published_value("ablation", dataset, model, "MAE"),
    )
    likelihood = side_by_side(
        {
            "y ln(rate) - rate": means(rows, "paper-form"),
            "log pmf given y >= 1": means(rows, "log-pmf-positive"),
        },
        published=lambda dataset, model: published_loglik("ablation", dataset, model),
    )
    return Reproduction(
        {"Mean absolute error": error, "Log-likelihood per held-out cell": likelihood},
        [
            "All are the paper's form, a plain Poisson with zeros missing and the paper's "
            "hyper-parameters; only the reweighting differs. `reweight='error'`, which weighs "
            "cells by how badly earlier rounds predicted them, is the paper's future work.",
            "log pmf given y >= 1: of models that allow for zeros, fitted to cells that all have a "
            "count; lower than that of truncated fits, as `loglik` has it, for the constant too.",
            "published: the paper's Table 4, its log-likelihoods divided by a fifth of its cells.",
        ],
    )
