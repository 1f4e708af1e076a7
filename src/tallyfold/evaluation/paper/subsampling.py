"""`subsample`: the models on 1, 5, 10, 20 and 30 % of the cells (the paper's Figure 9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tallyfold.data.split import Split, split, subsample
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.evaluation.paper.line_up import as_the_paper_ran_them, under_the_same_zeros
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.tables import means

if TYPE_CHECKING:
    import pandas as pd

SHARES = (0.01, 0.05, 0.10, 0.20, 0.30)
NAMES = {
    "mae-mean": "MAE of the mean",
    "mae-median": "MAE of the median",
    "paper-form": "y ln(rate) - rate",
    "log-pmf-positive": "log pmf given y >= 1",
}
"""Scores that are shown, and what they are called."""

METRICS = ["mae-mean", "mae-median", "paper-form", "paper-form-at-mean", "log-pmf-positive"]
FEWEST_CELLS = 200
"""A part with fewer cells is left out: a fifth of it would be scored on next to nothing."""


def thinned_then_split(tensor: CountTensor, seed: int, share: float) -> Split:
    """Keep a share of the cells, then hold out a fifth of these."""
    return split(subsample(tensor, share, random_state=seed), 0.2, random_state=seed)


def sub_sampling(setting: Setting) -> Reproduction:
    """Scores against the share of the data."""
    import pandas as pd

    regimes = {
        "as the paper ran it": ("subsample-as-the-paper", as_the_paper_ran_them),
        "zeros missing": ("subsample-same-zeros", under_the_same_zeros),
    }
    parts: list[pd.DataFrame] = []
    left_out: list[str] = []
    for dataset in setting.tensors:
        tensor = setting.tensor(dataset)
        ways = {
            f"{share:.0%}": partial(thinned_then_split, share=share)
            for share in SHARES
            if share * tensor.nnz >= FEWEST_CELLS
        }
        if not ways:
            left_out.append(f"{dataset} ({tensor.nnz:,} cells)")
            continue
        for regime, (folder, models) in regimes.items():
            rows = setting.rows(
                folder,
                models(dataset, subsampled=True),
                METRICS,
                tensors={dataset: tensor},
                splits=ways,
            )
            parts.append(rows.assign(regime=regime))
    if not parts:
        raise DataError(
            f"{max(SHARES):.0%} of a data set must be at least {FEWEST_CELLS} cells; there is only "
            f"{', '.join(left_out)}."
        )
    rows = pd.concat(parts, ignore_index=True)
    paper_form = rows["metric"] == "paper-form"  # squared errors have no likelihood
    rows.loc[paper_form & rows["model"].isin(["NTF-LS", "MLP-TF"]), "value"] = None
    return Reproduction(
        {
            "As the paper ran it": _table(rows, "as the paper ran it", "mae-mean", "paper-form"),
            "All models with zeros missing": _table(
                rows, "zeros missing", "mae-median", "log-pmf-positive"
            ),
        },
        [
            "published: a figure without numbers (Figure 9). It shows VAE-BPTF lowest in MAE and "
            "highest in log-likelihood at every share.",
            "Of each data set a share of the cells is kept, and a fifth of it held out.",
            f"Parts with fewer than {FEWEST_CELLS} cells are left out"
            f"{': all of ' + ', '.join(left_out) if left_out else ''}.",
            "y ln(rate) - rate is the paper's form of the log-likelihood; NTF-LS and MLP-TF, which "
            "fit squared errors, have none.",
        ],
    )


def _table(rows: pd.DataFrame, regime: str, *metrics: str) -> pd.DataFrame:
    """Return a row per data set, share and model, with mean and standard error of each score."""
    part = rows[rows["regime"] == regime].drop(columns="regime")
    keys = ["dataset", "split", "model"]
    table = None
    for metric in metrics:
        names = {"mean": NAMES[metric], "standard_error": f"{NAMES[metric]}, se"}
        column = means(part, metric).rename(columns=names)[[*keys, *names.values()]]
        table = column if table is None else table.merge(column, on=keys, how="left")
    assert table is not None
    return table.rename(columns={"split": "share"})
