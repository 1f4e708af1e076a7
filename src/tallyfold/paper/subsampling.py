"""`subsample`: the models on 1, 5, 10, 20 and 30 % of the cells (the paper's Figure 9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import tallyfold as tf
from tallyfold.data.split import Split
from tallyfold.errors import DataError
from tallyfold.paper.descriptions import notes
from tallyfold.paper.line_up import REGIMES, SQUARED_ERRORS
from tallyfold.paper.setting import Reproduction, Setting
from tallyfold.paper.tables import score_table

if TYPE_CHECKING:
    import pandas as pd

SHARES = (0.01, 0.05, 0.10, 0.20, 0.30)
METRICS = ["mae-mean", "mae-median", "paper-form", "paper-form-at-mean", "log-pmf-positive"]
SHOWN = {
    "As the paper ran it": {"mae-mean": "MAE of the mean", "paper-form": "y ln(rate) - rate"},
    "All models with zeros missing": {
        "mae-median": "MAE of the median",
        "log-pmf-positive": "log pmf given y >= 1",
    },
}
"""The scores that a table shows of each regime, and what they are called."""
FEWEST_CELLS = 200
"""A part with fewer cells is left out: a fifth of it would be scored on next to nothing."""


def thinned_then_split(tensor: tf.CountTensor, seed: int, share: float) -> Split:
    """Keep a share of the cells, then hold out a fifth of these."""
    return tf.split(tf.subsample(tensor, share, random_state=seed), 0.2, random_state=seed)


def sub_sampling(setting: Setting) -> Reproduction:
    """Scores against the share of the data."""
    import pandas as pd

    rows: dict[str, list[pd.DataFrame]] = {regime: [] for regime in REGIMES}
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
        for regime, (folder, line_up) in REGIMES.items():
            models, given = line_up(dataset, subsampled=True), {dataset: tensor}
            part = f"subsample-{folder}"
            rows[regime].append(setting.rows(part, models, METRICS, tensors=given, splits=ways))
    if len(left_out) == len(setting.tensors):
        raise DataError(
            f"{max(SHARES):.0%} of a data set must be at least {FEWEST_CELLS} cells; there is only "
            f"{', '.join(left_out)}."
        )
    tables = {
        title: _table(pd.concat(parts, ignore_index=True), shown)
        for (title, shown), parts in zip(SHOWN.items(), rows.values(), strict=True)
    }
    missing = f": all of {', '.join(left_out)}" if left_out else ""
    return Reproduction(tables, notes("subsample", fewest=FEWEST_CELLS, left_out=missing))


def _table(rows: pd.DataFrame, shown: dict[str, str]) -> pd.DataFrame:
    """Return a row per data set, share and model, with mean and standard error of each score."""
    unlikely = (rows["metric"] == "paper-form") & rows["model"].isin(SQUARED_ERRORS)
    rows.loc[unlikely, "value"] = None
    table = score_table(rows, shown, ("dataset", "split", "model"))
    return table.rename(columns={"split": "share"})
