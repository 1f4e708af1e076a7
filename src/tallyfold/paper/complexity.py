"""`complexity`: time of an iteration of VAE-BPTF over one of BPTF (the paper's Section 7.2.4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import tallyfold as tf
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel
from tallyfold.paper.descriptions import notes
from tallyfold.paper.published import published_value
from tallyfold.paper.setting import Reproduction, Setting, fitted_share
from tallyfold.paper.tables import score_table

if TYPE_CHECKING:
    import pandas as pd

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
    rows = []
    for name in setting.tensors:
        tensor = setting.tensor(name)
        rows += [row for one in each for row in _timed(setting, name, tensor, *one)]
    times = published_value("complexity", "all", "VAE-BPTF over BPTF", "times slower")
    return Reproduction(
        {
            "Seconds of an iteration": pd.DataFrame(rows),
            "What sharing the encoders costs": _light(setting),
        },
        notes("complexity", times=times),
    )


def _timed(
    setting: Setting, name: str, tensor: tf.CountTensor, share: float, components: int, units: int
) -> list[dict[str, object]]:
    """Time iterations of every model on a share of one data set's cells."""
    key = f"{share:.0%} of the cells, {components} components, {units} units"
    rows = replace(setting, seeds=(0,)).rows(
        "complexity",
        {f"{model} | {key}": fit for model, fit in timed_models(components, units).items()},
        {"seconds": seconds_an_iteration},
        tensors={name: tensor},
        splits={"a share": partial(fitted_share, share=share)},
    )
    seconds = dict(zip(timed_models(components, units), rows["value"], strict=True))
    about = {
        "dataset": name,
        "cells": int(rows["train_cells"].iloc[0]),
        "components": components,
        "units": units,
    }
    return [
        about | {"model": model, "seconds": value, "times BPTF": value / seconds["BPTF"]}
        for model, value in seconds.items()
    ]


def timed_models(components: int, units: int) -> dict[str, CountModel]:
    """Return models that run a few iterations, none of them stopped early."""
    few: dict[str, Any] = {"n_components": components, "max_iter": TIMED, "tol": 0.0}
    plain: dict[str, Any] = few | {"validation": None}
    paper: dict[str, Any] = plain | {"hidden_units": units, "steps": 1}
    return {
        "BPTF": tf.BPTF(truncated=False, **plain),
        PAPER_FORM: tf.VAEBPTF.paper(**paper),
        LIGHT: tf.VAEBPTF.paper(encoders="shared", **paper),
        ANCHORED: tf.VAEBPTF(hidden_units=units, **few),
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
