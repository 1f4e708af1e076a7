"""The fits behind `mae`, `loglik` and `coherence`: each model once, all scores of it at once."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from tallyfold.evaluation.experiment import Scores, held_out_fifth
from tallyfold.evaluation.metrics import checked_metrics
from tallyfold.evaluation.paper.line_up import as_the_paper_ran_them, under_the_same_zeros
from tallyfold.evaluation.paper.setting import Setting
from tallyfold.evaluation.paper.tuning import tuned
from tallyfold.evaluation.predictions import Predictions
from tallyfold.evaluation.words.coherence import (
    coherence_by_chance,
    coherence_by_component,
    coherence_by_word,
)
from tallyfold.models.constant import Constant

if TYPE_CHECKING:
    import pandas as pd

WORD = "word"
"""The axis that coherence is about."""

METRICS = [
    "mae-mean",
    "mae-median",
    "rmse",
    "log-pmf-positive",
    "log-pmf-plug-in",
    "log-pmf",
    "paper-form",
    "paper-form-at-mean",
    "coverage-50",
    "coverage-80",
    "coverage-95",
]


def npmi_of_neighbours(said: Predictions) -> float | None:
    """Return the paper's coherence: the mean NPMI of each word and its nine nearest.

    A constant has no near words; its are drawn at random.
    """
    if said.train is None or WORD not in said.train.names:
        return None
    if isinstance(said.model, Constant):
        return coherence_by_chance(said.train, WORD).mean
    return coherence_by_word(said.model, WORD, said.train).mean


def npmi_of_components(said: Predictions) -> float | None:
    """Return the usual coherence: the mean NPMI of each component's ten strongest words."""
    if said.train is None or WORD not in said.train.names:
        return None
    if said.model.fitted_.factors is None or isinstance(said.model, Constant):
        return None
    return coherence_by_component(said.model, WORD, said.train).mean


SCORES: Scores = {
    **checked_metrics(METRICS),
    "NPMI, neighbours": npmi_of_neighbours,
    "NPMI, components": npmi_of_components,
}
"""Scores of every fit."""


def fits(setting: Setting) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the six models as the paper ran them, and all models under the same zeros."""
    import pandas as pd

    regimes = {"as-the-paper": as_the_paper_ran_them, "same-zeros": under_the_same_zeros}
    rows: dict[str, list[pd.DataFrame]] = {regime: [] for regime in regimes}
    for dataset in setting.tensors:
        tensor = cache(partial(setting.tensor, dataset))
        for regime, line_up in regimes.items():
            models = line_up(dataset)
            if setting.trials:  # on the training part of the first split
                train = held_out_fifth(tensor(), setting.seeds[0]).train
                models = tuned(setting, f"{regime}, {dataset}", models, train)
            part = f"{regime}-tuned-{setting.trials}" if setting.trials else regime
            rows[regime].append(setting.rows(part, models, SCORES, tensors={dataset: tensor}))
    as_paper, same = (pd.concat(parts, ignore_index=True) for parts in rows.values())
    return as_paper, same


def hyper_parameters(setting: Setting) -> str:
    """Return how the models' hyper-parameters were chosen."""
    if setting.trials:
        return (
            f"Hyper-parameters: the best of {setting.trials} trials for each model, 5-fold cross-"
            "validated on the training part of the first split, from the paper's grids."
        )
    return (
        "Hyper-parameters: those of the paper's Table 1 for its form, ours by default for all "
        "others, with 10 components. --tune N searches them as the paper did."
    )
