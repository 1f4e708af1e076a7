"""``tallyfold compare`` and ``tallyfold score``: how well models predict held-out cells."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tallyfold.cli import model_cells, model_counts, model_parameters, options
from tallyfold.cli.options import option
from tallyfold.cli.progress import interruptible, progress
from tallyfold.cli.terminal import (
    console,
    is_too_wide,
    number,
    print_json,
    say,
    say_dropped,
    show_table,
)
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

TRAIN = "Counts it was fitted on, to score constant, main effects and margins beside it."
Train = Annotated[list[str] | None, option("FILE", TRAIN)]
FLOORS = ("constant", "main-effects", "margins")
"""Baselines that are always scored with the models."""

Scores = dict[str, dict[str, float | None]]

POSITIVE = (
    "log-pmf-positive",
    "mae-mean",
    "mae-median",
    "rmse",
    "coverage-50",
    "coverage-80",
    "coverage-95",
)
"""What is shown where empty cells are missing; where they are zeros, the plain log pmf, too."""

OCCURRENCE = (
    "log-score",
    "occurrence",
    "amount",
    "zeros-error",
    "auc",
    "auc-within",
    "recall-20",
    "ndcg-20",
)
"""What is shown first where zeros are observed, and were held out with the counts."""
COMPARED = ("log-score", "occurrence", "amount", "auc-within", "recall-20")
"""Of these, what fits in a table of models."""


@options.with_reading(*options.READING)
def compare(
    files: options.Files,
    reading: options.Reading,
    models: Annotated[str, option("A,B,...|all", "Which models.")] = "vae-bptf,bptf",
    components: model_parameters.Components = None,
    zeros: model_parameters.Zeros = None,
    max_iter: model_parameters.MaxIter = None,
    scale: model_parameters.Scale = None,
    parameters: model_parameters.Set = None,
    holdout: Annotated[float, option("SHARE", "Share of the cells to hold out.")] = 0.2,
    copies: options.Copies = None,
    seeds: Annotated[int, option("N", "How many splits, each with its own seed.", min=1)] = 1,
    metrics: options.Metrics = None,
    out: Annotated[
        Path | None, option("FOLDER", "Keep finished fits here, to go on later.", "--out", "-o")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit several models and score them on cells that were held out.

    Constants and main effects are scored too: a model has to beat those. Empty
    cells are the same to all: unknown, or zeros (--zeros). With observed zeros
    a share of all cells is held out, empty ones too.
    With several seeds, scores are means with their standard errors. Parameters
    go to every model that has them. With --out, Ctrl-C loses nothing. With
    --copies, what fits hold out for themselves are whole groups of copies, too.

    \b
    [bold]Examples[/]
      tallyfold compare events.parquet --axes author,word,year --seeds 3
      tallyfold compare counts.npz --models all --components 20 --out rows
      tallyfold compare counts.npz --models bptf --zeros observed --json
      tallyfold compare papers.parquet --axes author,word,year --copies word
    """  # noqa: D301
    from tallyfold.data.split import split
    from tallyfold.evaluation.compare import floors
    from tallyfold.evaluation.experiment import Experiment, Fit
    from tallyfold.evaluation.holding_out import hidden_from, zeros_of
    from tallyfold.models.scoring import ALONG_AN_AXIS, ranked_axis

    own = {
        "n_components": components, "zeros": zeros, "max_iter": max_iter,
        "scale": model_parameters.scale_of(scale),
    }  # fmt: skip
    given = model_parameters.settings(parameters, **own)
    asked = model_parameters.asked_zeros(given.get("zeros", model_parameters.AUTO))
    chosen = floors(asked) | models_named(models, given)  # type: ignore[arg-type]
    if metrics is not None:
        chosen_metrics(metrics, None, has_train=True)  # what is wrong is refused at once
    options.check_share("--holdout", holdout)
    tensor = reading.counts(files)
    say_dropped(tensor, aside=True)
    model_parameters.decide_zeros(chosen.values(), tensor, silent=as_json)
    treated = zeros_of(chosen.values(), tensor)
    names = ["log-pmf-positive", "mae-mean", "mae-median"]
    if treated == "observed":
        names = [*COMPARED]
    if metrics is not None:
        names = chosen_metrics(metrics, treated, has_train=True, has_part=treated == "observed")
    way = f"{1 - holdout:g}-{holdout:g}"
    hidden = hidden_from(chosen.values(), tensor)
    groups = options.groups_of(tensor, copies)
    splits = {
        way: lambda whole, seed: split(
            whole, holdout, cells=hidden, random_state=seed, groups=groups
        )
    }
    experiment = Experiment({"counts": tensor}, chosen, names, range(seeds), splits, copies)
    how = "nothing was kept. Use --out FOLDER" if out is None else "run it again to go on"
    with interruptible(how), progress() as show:

        def announce(fit: "Fit") -> None:
            words = f"{fit.model}, seed {fit.seed}{' (done before)' if fit.done else ''}"
            show(fit.number - 1, fit.total, words, not fit.done)

        rows = experiment.run(out, announce=announce)
    document = _document(rows, names)
    if as_json:
        print_json(document)
    else:
        about = f"{tensor.nnz:,} cells, {100 * holdout:g} % held out, zeros {treated}"
        if any(name in ALONG_AN_AXIS for name in names):
            about += f", labels of {printable(ranked_axis(tensor.axes))} ranked"
        _show(document, names, about, least=3 if metrics is None else len(names))


def models_named(text: str, given: dict[str, model_parameters.Given]) -> "dict[str, CountModel]":
    """Make the models asked for; each gets the parameters it has."""
    from tallyfold.models.registry import MODELS

    wanted = list(MODELS) if text == "all" else options.names(text)
    names = [name for name in wanted if name not in FLOORS]
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ParameterError(f"--models must be among {', '.join(MODELS)}; got {unknown[0]!r}.")
    known = {name: list(MODELS[name]().get_params()) for name in names}
    every = list(dict.fromkeys(key for each in known.values() for key in each))
    for key, one in given.items():
        if key != "zeros" and key not in every:
            raise model_parameters.unknown_parameter(key, one.where, "these models", every)
    chosen = {}
    for name in names:
        own = {key: one for key, one in given.items() if key in known[name]}
        chosen[name] = model_parameters.chosen_model(name, None, own)
    return chosen


def _document(rows: "pd.DataFrame", metrics: Sequence[str]) -> dict[str, Any]:
    """Return means, standard errors and errors by model."""
    from tallyfold.evaluation.pairing import summary

    table = summary(rows).set_index(["model", "metric"])[["mean", "standard_error"]]
    scores = table.to_dict("index")
    document: dict[str, Any] = {}
    for model, part in rows.groupby("model", sort=False):
        fits = part.drop_duplicates("seed")
        document[str(model)] = {
            "seeds": len(fits),
            "seconds": float(fits["seconds"].mean()),
            "scores": {name: scores[model, name] for name in metrics},
            "errors": sorted(set(fits["error"].dropna())),
        }
    return document


def _show(document: dict[str, Any], metrics: Sequence[str], about: str, least: int) -> None:
    """Print a row per model; the last scores are left out if the table is too wide, but `least`."""
    rows = []
    for model, each in document.items():
        scores = [_with_error(**each["scores"][name]) for name in metrics]
        rows.append((printable(model), *scores, f"{each['seconds']:.1f}"))
    heads, out = ["model", *(f"{name}>" for name in metrics), "seconds>"], console()
    if len(metrics) > least and is_too_wide(out, heads, rows):
        _show(document, metrics[:-1], about, least)
        return
    show_table(out, about, heads, rows)
    for model, each in document.items():
        for error in each["errors"]:
            say(f"failed: {printable(model)}: {printable(error)}")


def _with_error(mean: float, standard_error: float) -> str:
    has_error = standard_error == standard_error  # not nan, as with one seed
    return number(mean) + (f" ±{standard_error:.4f}" if has_error else "")


@options.with_reading(*options.READING_FOR_MODEL)
def score(
    folder: model_cells.Folder,
    files: options.Files,
    reading: options.Reading,
    train: Train = None,
    metrics: options.Metrics = None,
    unknown: model_cells.UnknownCells = None,
    horizon: model_cells.Horizon = None,
    as_json: options.AsJson = False,
) -> None:
    """Score a model on held-out counts.

    log-pmf-positive is the mean log probability of a count given that it is at
    least one; mae-mean and mae-median the mean absolute error of the predicted
    mean and median; coverage the share of counts in their interval. Of a part
    of all cells (tallyfold split --cells all), log-score is the log probability
    of its zeros and counts, per count: occurrence says whether, amount how many.

    \b
    [bold]Examples[/]
      tallyfold score model test.parquet --value count
      tallyfold score model test.npz --train train.npz
      tallyfold score model test.npz --metrics mae-median,coverage-95 --json
    """  # noqa: D301
    from tallyfold.models.scoring import ranked_axis

    model = model_cells.load_model(folder, horizon)
    if metrics is not None:
        chosen_metrics(metrics, None, has_train=train is not None)
    test = model_counts.counts_for(model, files, reading)
    choices = model_counts.unknown_choices(model, unknown, "error", "skip")
    test = model_counts.known_cells(model, test, choices)
    cells = model_counts.counts_given(model, train, reading.of_files())
    zeros, has_part = model.zeros_for(cells or test), test.part is not None
    names = chosen_metrics(metrics, zeros, has_train=train is not None, has_part=has_part)
    scores = scored(model, test, names, cells)
    if as_json:
        along = ranked_axis(test.axes)
        print_json({"cells": test.nnz, "zeros": zeros, "along": along, "scores": scores})
    else:
        show_scores(f"Scores on {test.nnz:,} cells, zeros {zeros}", scores, test)


def chosen_metrics(
    text: str | None, zeros: str | None, *, has_train: bool, has_part: bool = False
) -> list[str]:
    """Return the names of scores that an option asks for: the usual ones, some, or all.

    `has_train` says whether empty cells are known, `has_part` whether zeros were held out, too.
    """
    from tallyfold.evaluation.metrics import METRICS, checked_metrics

    missing = {"train": not has_train, "part": not has_part}
    possible = [name for name, each in METRICS.items() if not missing.get(each.needs)]
    if text is None and zeros == "observed" and has_part:
        return [name for name in (*OCCURRENCE, *POSITIVE[1:]) if name in possible]
    if text is None:
        return [*(["log-pmf"] if zeros == "observed" else []), *POSITIVE]
    if text == "all":
        return possible
    return list(checked_metrics(options.names(text)))


def scored(
    model: "CountModel",
    test: "CountTensor",
    metrics: Sequence[str],
    train: "CountTensor | None" = None,
    copies: str | None = None,
) -> Scores:
    """Score a model on cells, and beside it, if there are cells to fit them on, its floors."""
    from tallyfold.evaluation.compare import compare, floors
    from tallyfold.evaluation.metrics import scores_of

    found: Scores = {model.name: scores_of(model, test, metrics, train)}
    if train is None:
        return found
    groups = options.groups_of(train, copies)
    rows = compare(floors(model.zeros_for(train)), train, test, metrics, groups=groups)
    for row in rows.to_dict("records"):
        found[str(row["model"])] = {name: row[name] for name in metrics}
    return found


def show_scores(title: str, scores: Scores, test: "CountTensor") -> None:
    """Print a table of scores, a column per model, and what is better of each."""
    from tallyfold.evaluation.metrics import METRICS
    from tallyfold.models.scoring import with_axis

    rows = [
        (
            printable(with_axis(name, test.axes)),
            METRICS[name].better,
            *(number(each[name]) for each in scores.values()),
        )
        for name in next(iter(scores.values()))
    ]
    heads = ["score", "better", *(f"{printable(name)}>" for name in scores)]
    show_table(console(), title, heads, rows)
