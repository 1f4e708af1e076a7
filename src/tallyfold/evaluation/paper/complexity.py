"""`complexity`: time of an iteration of VAE-BPTF over one of BPTF (the paper's Section 7.2.4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.split import Split, subsample
from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.paper.published import published_value
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.tables import means
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel
from tallyfold.models.bptf import BPTF
from tallyfold.models.constant import Constant
from tallyfold.models.vae_bptf import VAEBPTF

if TYPE_CHECKING:
    import pandas as pd

SHARES = (0.25, 0.5, 1.0)
COMPONENTS = (5, 10, 20)
UNITS = (10, 20, 40)
TIMED = 7
"""Iterations of each fit; the first two, which warm up, are left out of the median."""

PAPER_FORM, LIGHT, ANCHORED = "the paper's form", "encoders shared (light)", "VAE-BPTF"


def seconds_an_iteration(said: Predictions) -> float:
    """Return the median time of an iteration, after the first two."""
    seconds = np.asarray(said.model.history_["seconds"], float)
    return float(np.median(np.diff(seconds)[1:]))


def complexity(setting: Setting) -> Reproduction:
    """Time of an iteration against cells, components and units; what the light variant costs."""
    timings = [_timed(setting, name) for name in setting.tensors]
    import pandas as pd

    return Reproduction(
        {
            "Seconds of an iteration": pd.concat(timings, ignore_index=True),
            "What sharing the encoders costs": _light(setting),
        },
        [
            "published: 'generally an order of magnitude slower than the BPTF model' (times BPTF: "
            f"{published_value('complexity', 'all', 'VAE-BPTF over BPTF', 'times slower'):g}), and "
            "the light variant 'notably worse', without numbers.",
            "times BPTF: the time of an iteration over that of BPTF with the same cells and "
            "components, both with fused kernels, measured one after the other. The paper's form "
            "takes one optimiser step for each axis here; 'VAE-BPTF' is the default form, whose "
            "iterations include training its encoders.",
            "sharing: the paper's form is a plain Poisson fitted to cells that all have a count, "
            "and so is 'constant'; the other constant knows that a count is at least one.",
        ],
    )


def _timed(setting: Setting, name: str) -> pd.DataFrame:
    """Time iterations on one data set, changing one thing at a time."""
    import pandas as pd

    tensor = setting.tensor(name)
    rows = []
    for share in SHARES:
        rows += _row(setting, name, tensor, share, 10, 20)
    for components in (k for k in COMPONENTS if k != 10):
        rows += _row(setting, name, tensor, 1.0, components, 20)
    for units in (d for d in UNITS if d != 20):
        rows += _row(setting, name, tensor, 1.0, 10, units)
    return pd.DataFrame(rows)


def _row(
    setting: Setting, name: str, tensor: CountTensor, share: float, components: int, units: int
) -> list[dict[str, object]]:
    key = f"{share:.0%} of the cells, {components} components, {units} units"
    rows = replace(setting, seeds=(0,)).rows(
        "complexity",
        {f"{model} | {key}": fit for model, fit in timed_models(components, units).items()},
        {"seconds": seconds_an_iteration},
        tensors={name: tensor},
        splits={"a share": partial(_share, share=share)},
    )
    seconds = dict(
        zip(rows["model"].str.split(" | ", regex=False).str[0], rows["value"], strict=True)
    )
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
    often: dict[str, Any] = {
        "n_components": components,
        "max_iter": TIMED,
        "tol": 0.0,
        "validation": None,
    }
    paper: dict[str, Any] = {"hidden_units": units, "steps": 1} | often
    return {
        "BPTF": BPTF(truncated=False, **often),
        PAPER_FORM: VAEBPTF.paper(**paper),
        LIGHT: VAEBPTF.paper(encoders="shared", **paper),
        ANCHORED: VAEBPTF(n_components=components, hidden_units=units, max_iter=TIMED, tol=0.0),
    }


def _light(setting: Setting) -> pd.DataFrame:
    """Compare the scores of the light variant with those of the paper's form."""
    rows = setting.rows(
        "light",
        {
            PAPER_FORM: VAEBPTF.paper(),
            LIGHT: VAEBPTF.paper(encoders="shared"),
            "constant": Constant(likelihood="poisson", truncated=False),
            "constant, negative binomial": Constant(),
        },
        ["mae-mean", "log-pmf-positive"],
    )
    names = {"mean": "MAE", "standard_error": "MAE, se"}
    table = means(rows, "mae-mean").rename(columns=names)
    score = means(rows, "log-pmf-positive")
    table["log pmf given y >= 1"], table["log pmf, se"] = score["mean"], score["standard_error"]
    return table[["dataset", "model", "MAE", "MAE, se", "log pmf given y >= 1", "log pmf, se"]]


def _share(tensor: CountTensor, seed: int, share: float) -> Split:
    part = subsample(tensor, share, random_state=seed)
    return Split(part, part)
