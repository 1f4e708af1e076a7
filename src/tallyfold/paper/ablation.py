"""`ablation`: the paper's form with and without reweighting (the paper's Table 4)."""

from __future__ import annotations

from functools import partial

import tallyfold as tf
from tallyfold.models.base import CountModel
from tallyfold.paper.descriptions import notes
from tallyfold.paper.line_up import paper_form
from tallyfold.paper.published import published_loglik, published_value
from tallyfold.paper.setting import Reproduction, Setting
from tallyfold.paper.tables import side_by_side

METRICS = ["mae-mean", "mae-median", "paper-form", "log-pmf-positive"]


def variants(dataset: str) -> dict[str, CountModel]:
    """Return the paper's form with its reweighting, without, and with that of its future work."""
    return {
        "VAE-BPTF": paper_form(dataset),
        "VAE-BPTF without reweighting": paper_form(dataset, reweight="none"),
        "VAE-BPTF, reweighted by error": paper_form(dataset, reweight="error"),
        "constant": tf.Constant(likelihood="poisson", truncated=False),
    }


def ablation(setting: Setting) -> Reproduction:
    """Measure what down-weighing the over-common count brings."""
    import pandas as pd

    rows = pd.concat(
        setting.rows(
            "ablation", variants(name), METRICS, tensors={name: partial(setting.tensor, name)}
        )
        for name in setting.tensors
    )
    error = side_by_side(
        {"MAE": (rows, "mae-mean"), "MAE of the median": (rows, "mae-median")},
        lambda dataset, model: published_value("ablation", dataset, model, "MAE"),
    )
    likelihood = side_by_side(
        {
            "y ln(rate) - rate": (rows, "paper-form"),
            "log pmf given y >= 1": (rows, "log-pmf-positive"),
        },
        partial(published_loglik, "ablation"),
    )
    tables = {"Mean absolute error": error, "Log-likelihood per held-out cell": likelihood}
    return Reproduction(tables, notes("ablation"))
