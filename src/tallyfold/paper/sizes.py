"""`subsample`, less of the data (Figure 9), and `complexity`, the time of a fit (Section 7.2.4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import tallyfold as tf
from tallyfold.data.split import Split
from tallyfold.errors import DataError
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel
from tallyfold.paper.line_up import REGIMES, SQUARED_ERRORS
from tallyfold.paper.published import notes, published_value, score_table
from tallyfold.paper.setting import Reproduction, Setting, fitted_share

if TYPE_CHECKING:
    import pandas as pd

KEPT_SHARES = (0.01, 0.05, 0.10, 0.20, 0.30)
SCORES = ["mae-mean", "mae-median", "paper-form", "paper-form-at-mean", "log-pmf-positive"]
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
            for share in KEPT_SHARES
            if share * tensor.nnz >= FEWEST_CELLS
        }
        if not ways:
            left_out.append(f"{dataset} ({tensor.nnz:,} cells)")
            continue
        for regime, (folder, line_up) in REGIMES.items():
            models, given = line_up(dataset, subsampled=True), {dataset: tensor}
            part = f"subsample-{folder}"
            rows[regime].append(setting.rows(part, models, SCORES, tensors=given, splits=ways))
    if len(left_out) == len(setting.tensors):
        raise DataError(
            f"{max(KEPT_SHARES):.0%} of a data set must be at least {FEWEST_CELLS} cells; there is "
            f"only {', '.join(left_out)}."
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


SHARES = (0.25, 0.5, 1.0)
COMPONENTS = (5, 10, 20)
UNITS = (10, 20, 40)
USUAL = (1.0, 10, 20)
"""The share of the cells, the components and the units, of which one is changed at a time."""
TIMED = 7
"""Iterations of each fit; the first two, which warm up, are left out of the median."""

PAPER_FORM, LIGHT, ANCHORED = "the paper's form", "encoders shared (light)", "VAE-BPTF"


def seconds_an_iteration(predictions: Predictions) -> float:
    """Return the median time of an iteration, after the first two."""
    seconds = np.asarray(predictions.model.history_["seconds"], float)
    return float(np.median(np.diff(seconds)[1:]))


def complexity(setting: Setting) -> Reproduction:
    """Time of an iteration against cells, components and units; what the light variant costs."""
    import pandas as pd

    share, components, units = USUAL
    each = [(one, components, units) for one in SHARES]
    each += [(share, one, units) for one in COMPONENTS if one != components]
    each += [(share, components, one) for one in UNITS if one != units]
    timed = []
    for name in setting.tensors:
        tensor = setting.tensor(name)
        timed += [_timed(setting, name, tensor, *one) for one in each]
    times = published_value("complexity", "all", "VAE-BPTF over BPTF", "times slower")
    return Reproduction(
        {
            "Seconds of an iteration": pd.concat(timed, ignore_index=True),
            "What sharing the encoders costs": _light(setting),
        },
        notes("complexity", times=times),
    )


def _timed(
    setting: Setting, name: str, tensor: tf.CountTensor, share: float, components: int, units: int
) -> pd.DataFrame:
    """Time iterations of every model on a share of one data set's cells."""
    key = f"{share:.0%} of the cells, {components} components, {units} units"
    models = timed_models(components, units)
    rows = replace(setting, seeds=(0,)).rows(
        "complexity",
        {f"{model} | {key}": fit for model, fit in models.items()},
        {"seconds": seconds_an_iteration},
        tensors={name: tensor},
        splits={"a share": partial(fitted_share, share=share)},
    )
    table = rows[["dataset", "train_cells"]].rename(columns={"train_cells": "cells"})
    table = table.assign(components=components, units=units, model=[*models], seconds=rows["value"])
    table["times BPTF"] = table["seconds"] / table["seconds"].iloc[0]  # BPTF is the first
    return table


def timed_models(components: int, units: int) -> dict[str, CountModel]:
    """Return models that run a few iterations, none of them stopped early."""
    few: dict[str, Any] = {"n_components": components, "max_iter": TIMED, "tol": 0.0}
    plain: dict[str, Any] = few | {"validation": None}
    paper: dict[str, Any] = plain | {"hidden_units": units}
    return {
        "BPTF": tf.BPTF(truncated=False, **plain),
        PAPER_FORM: tf.VAEBPTF.paper(**paper),
        LIGHT: tf.VAEBPTF.paper(encoders="shared", **paper),
        ANCHORED: tf.VAEBPTF(zeros="missing", amount="negative-binomial", **few),
    }


def _light(setting: Setting) -> pd.DataFrame:
    """Compare the scores of the light variant with those of the paper's form."""
    models: dict[str, CountModel] = {
        PAPER_FORM: tf.VAEBPTF.paper(),
        LIGHT: tf.VAEBPTF.paper(encoders="shared"),
        "constant": tf.Constant(likelihood="poisson", truncated=False),
        "constant, negative binomial": tf.Constant(),
    }
    rows = setting.rows("light", models, ["mae-mean", "log-pmf-positive"])
    titles = {"mae-mean": "MAE", "log-pmf-positive": "log pmf given y >= 1"}
    return score_table(rows, titles).rename(columns={"log pmf given y >= 1, se": "log pmf, se"})
