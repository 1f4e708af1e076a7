"""`mae`, `loglik` and `coherence`, views of the same fits (Tables 2, 3 and 5), and `ablation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import tallyfold as tf
from tallyfold.errors import DataError
from tallyfold.evaluation.experiment import Scores, held_out_fifth
from tallyfold.evaluation.metrics import checked_metrics
from tallyfold.evaluation.predictions import Predictions
from tallyfold.evaluation.words import coherence as words
from tallyfold.models.base import CountModel
from tallyfold.paper import line_up, published
from tallyfold.paper.setting import Reproduction, Setting

if TYPE_CHECKING:
    import pandas as pd

WORD = "word"
"""The axis that coherence is about."""
FOLDS = 5
PAPERS_TEST = "p of the one-tailed paired t-test"
TESTS = "VAE-BPTF against each model, over data sets"

ABLATED = ["mae-mean", "mae-median", "paper-form", "log-pmf-positive"]
METRICS = [
    name
    for name, metric in tf.METRICS.items()
    if metric.needs not in ("train", "part") and name != "amount"
]


def mae(setting: Setting) -> Reproduction:
    """Mean absolute error of six models on each data set."""
    paper, same = fits(setting)
    table = published.side_by_side(
        {
            "as the paper ran it": (paper, "mae-mean"),
            "zeros missing": (same, "mae-mean"),
            "zeros missing, median": (same, "mae-median"),
            "log pmf given y >= 1": (same, "log-pmf-positive"),
        },
        _printed("mae", "MAE"),
    )
    tests = _with_published_p(_tests(paper, same, "mae-mean", "mae-mean"))
    return Reproduction({"Mean absolute error": table, TESTS: tests}, _notes("mae", setting))


def loglik(setting: Setting) -> Reproduction:
    """Log-likelihood of the held-out cells, per cell."""
    paper, same = fits(setting)
    paper = paper[~paper["model"].isin(line_up.SQUARED_ERRORS)]
    table = published.side_by_side(
        {
            "as the paper ran it": (paper, "paper-form"),
            "zeros missing": (same, "paper-form-at-mean"),
            "coverage of 80 %": (same, "coverage-80"),
            "plug-in": (same, "log-pmf-plug-in"),
            "log pmf given y >= 1": (same, "log-pmf-positive"),
        },
        lambda data, model: published.published_loglik(
            "loglik", data, line_up.PUBLISHED_NAME.get(model, "")
        ),
    )
    tests = _tests(paper, same, "paper-form", "log-pmf-positive")
    tables = {"Log-likelihood per held-out cell": table, TESTS: tests}
    return Reproduction(tables, _notes("loglik", setting))


def coherence(setting: Setting) -> Reproduction:
    """NPMI of words that a model puts near each other."""
    texts = [name for name in setting.tensors if WORD in setting.tensor(name).names]
    if not texts:
        raise DataError(
            f"coherence is a matter of words; none of {', '.join(setting.tensors)} has an axis "
            f"{WORD!r}."
        )
    only = replace(setting, tensors={name: setting.tensors[name] for name in texts})
    paper, same = (rows[rows["model"] != line_up.CONSTANTS[-1]] for rows in fits(only))
    table = published.side_by_side(
        {
            "as the paper ran it": (paper, "NPMI, neighbours"),
            "as the paper ran it, by component": (paper, "NPMI, components"),
            "zeros missing": (same, "NPMI, neighbours"),
            "zeros missing, by component": (same, "NPMI, components"),
        },
        _printed("coherence", "NPMI"),
    )
    left_out = ", ".join(name for name in setting.tensors if name not in texts) or "none"
    return Reproduction({"NPMI": table}, _notes("coherence", setting, left_out=left_out))


def fits(setting: Setting) -> list[pd.DataFrame]:
    """Run the six models as the paper ran them, and all models under the same zeros.

    Each model is fitted once, and all scores of it are taken at once.
    """
    import pandas as pd

    rows: dict[str, list[pd.DataFrame]] = {regime: [] for regime in line_up.REGIMES}
    for dataset in setting.tensors:
        tensor = cache(partial(setting.tensor, dataset))
        for regime, (folder, models_of) in line_up.REGIMES.items():
            models, part = models_of(dataset), folder
            if setting.trials:  # on the training part of the first split
                train = held_out_fifth(tensor(), setting.seeds[0]).train
                models = tuned(setting, f"{folder}, {dataset}", models, train)
                part = f"{folder}-tuned-{setting.trials}"
            rows[regime].append(setting.rows(part, models, SCORES, tensors={dataset: tensor}))
    return [pd.concat(parts, ignore_index=True) for parts in rows.values()]


def npmi_of_neighbours(predictions: Predictions) -> float | None:
    """Return the paper's coherence: the mean NPMI of each word and its nine nearest.

    A constant has no near words; its are drawn at random.
    """
    if predictions.train is None or WORD not in predictions.train.names:
        return None
    if isinstance(predictions.model, tf.Constant):
        return words.coherence_by_chance(predictions.train, WORD).mean
    return words.coherence_by_word(predictions.model, WORD, predictions.train).mean


def npmi_of_components(predictions: Predictions) -> float | None:
    """Return the usual coherence: the mean NPMI of each component's ten strongest words."""
    if predictions.train is None or WORD not in predictions.train.names:
        return None
    if predictions.model.fitted_.factors is None or isinstance(predictions.model, tf.Constant):
        return None
    return words.coherence_by_component(predictions.model, WORD, predictions.train).mean


SCORES: Scores = {
    **checked_metrics(METRICS),
    "NPMI, neighbours": npmi_of_neighbours,
    "NPMI, components": npmi_of_components,
}
"""Scores of every fit."""


def tuned(
    setting: Setting, study: str, models: Mapping[str, CountModel], train: tf.CountTensor
) -> dict[str, CountModel]:
    """Return models with the parameters that `setting.trials` trials found best.

    Parameters are cross-validated on the training part, as the paper chose them. Each model has
    the same number of trials, from the paper's grid where it has one. Constants and main effects
    have nothing to choose.
    """
    setting.folder.mkdir(parents=True, exist_ok=True)
    best, storage = dict(models), setting.folder / "searches.db"
    for name, model in models.items():
        if name in line_up.CONSTANTS:
            continue
        setting.announce(f"{study}, {name}: {setting.trials} trials of {FOLDS} folds")
        space = dict(tf.SPACES[model.name])
        if name == line_up.PAPER_FORM:  # what has one choice is fixed by the model itself
            space = {key: choices for key, choices in space.items() if len(choices) > 1}
            space["hidden_layers"] = [0, 1]  # two have no fast kernel
        own = f"{study}, {name}"
        found = tf.tune(
            model, train, space, FOLDS, setting.trials or 1,
            cells="nonzero", storage=storage, study=own,
        )  # fmt: skip
        if found.interrupted:
            raise KeyboardInterrupt
        best[name] = found.model()
    return best


def _notes(experiment: str, setting: Setting, **facts: str) -> list[str]:
    """Return an experiment's notes, which say how hyper-parameters were chosen."""
    text: str = published.described("texts")["searched" if setting.trials else "fixed"]
    return published.notes(experiment, hyper_parameters=text.format(trials=setting.trials), **facts)


def _printed(experiment: str, quantity: str) -> Callable[[str, str], float | None]:
    """Return what looks up the figure that the paper printed of a data set and a model."""
    return lambda data, model: published.published_value(
        experiment, data, line_up.PUBLISHED_NAME.get(model, ""), quantity
    )


def _tests(paper: pd.DataFrame, same: pd.DataFrame, paper_metric: str, metric: str) -> pd.DataFrame:
    """Return the paper's t-test, and Wilcoxon's, of VAE-BPTF against the others."""
    import pandas as pd

    baselines = [name for name in line_up.BASELINES if name in set(paper["model"])]
    others = [name for name in dict.fromkeys(same["model"]) if name != line_up.FLAGSHIP]
    first, second = line_up.REGIMES
    parts = [
        published.tests_against(paper, line_up.PAPER_FORM, baselines, paper_metric, first),
        published.tests_against(same, line_up.FLAGSHIP, others, metric, second),
    ]
    return pd.concat(parts, ignore_index=True)


def _with_published_p(tests: pd.DataFrame) -> pd.DataFrame:
    """Put the p that the paper printed beside ours."""
    pairs = zip(tests["model"].map(line_up.PUBLISHED_NAME), tests["against"], strict=True)
    printed = [
        published.published_value("mae", "all", f"{model} against {other}", PAPERS_TEST)
        for model, other in pairs
    ]
    tests.insert(list(tests.columns).index("score") + 1, "p, published", printed)
    return tests


def variants(dataset: str) -> dict[str, CountModel]:
    """Return the paper's form with its reweighting, without, and with that of its future work."""
    return {
        "VAE-BPTF": line_up.paper_form(dataset),
        "VAE-BPTF without reweighting": line_up.paper_form(dataset, reweight="none"),
        "VAE-BPTF, reweighted by error": line_up.paper_form(dataset, reweight="error"),
        "constant": tf.Constant(likelihood="poisson", truncated=False),
    }


def ablation(setting: Setting) -> Reproduction:
    """Measure what down-weighing the over-common count brings."""
    import pandas as pd

    rows = pd.concat(
        setting.rows(
            "ablation", variants(name), ABLATED, tensors={name: partial(setting.tensor, name)}
        )
        for name in setting.tensors
    )
    error = published.side_by_side(
        {"MAE": (rows, "mae-mean"), "MAE of the median": (rows, "mae-median")},
        lambda dataset, model: published.published_value("ablation", dataset, model, "MAE"),
    )
    likelihood = published.side_by_side(
        {
            "y ln(rate) - rate": (rows, "paper-form"),
            "log pmf given y >= 1": (rows, "log-pmf-positive"),
        },
        partial(published.published_loglik, "ablation"),
    )
    tables = {"Mean absolute error": error, "Log-likelihood per held-out cell": likelihood}
    return Reproduction(tables, published.notes("ablation"))
