"""``tallyfold compare``: which model predicts held-out cells best."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli import model_options, model_parameters, options
from tallyfold.cli.long_runs import interruptible, number, progress
from tallyfold.cli.score_table import chosen_metrics
from tallyfold.cli.terminal import console, print_json, printable, show_table
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from tallyfold.models.base import CountModel

FLOORS = ("constant", "main-effects")
"""Models of these names are always there, as floors."""


@options.with_reading(*options.READING)
def compare(
    files: model_options.Files,
    reading: options.Reading,
    models: Annotated[
        str, typer.Option(metavar="A,B,...|all", help="Which models.")
    ] = "vae-bptf,bptf",
    components: model_parameters.Components = None,
    zeros: model_parameters.Zeros = "missing",
    max_iter: model_parameters.MaxIter = None,
    parameters: model_parameters.Set = None,
    holdout: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the cells to hold out.")
    ] = 0.2,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many splits, each with its own seed.")
    ] = 1,
    metrics: Annotated[
        str | None, typer.Option(metavar="A,B,...|all", help="Which scores, if not the usual ones.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Keep rows here as they come, to go on later."
        ),
    ] = None,
    as_json: model_options.AsJson = False,
) -> None:
    """Fit several models and score them on cells that were held out.

    Constants and main effects stand beside them: a model has to beat those.
    With several seeds, scores are means with their standard errors. Parameters
    go to every model that has them. With --out, Ctrl-C loses nothing.

    \b
    [bold]Examples[/]
      tallyfold compare events.parquet --axes author,word,year --seeds 3
      tallyfold compare counts.npz --models all --components 20 --out rows
      tallyfold compare counts.npz --models bptf --zeros observed --json
    """  # noqa: D301
    from tallyfold.data.split import split
    from tallyfold.evaluation.experiment import Experiment

    own = {"n_components": components, "zeros": zeros, "max_iter": max_iter}
    chosen = _models(models, zeros or "missing", model_parameters.settings(parameters, **own))
    names = _metrics(metrics, zeros or "missing")
    options.check_share("--holdout", holdout)
    tensor = reading.counts(files)
    way = f"{1 - holdout:g}-{holdout:g}"
    splits = {way: lambda whole, seed: split(whole, holdout, random_state=seed)}
    experiment = Experiment({"counts": tensor}, chosen, names, range(seeds), splits)
    how = "nothing was kept; --out FOLDER would" if out is None else "run it again to go on"
    with interruptible(how), progress() as show:
        rows = experiment.run(
            out,
            announce=lambda fit: show(
                fit.number - 1,
                fit.total,
                f"{fit.model}, seed {fit.seed}{' (done before)' if fit.done else ''}",
                not fit.done,
            ),
        )
    document = _document(rows, names)
    if as_json:
        print_json(document)
    else:
        about = f"{tensor.nnz:,} cells, {100 * holdout:g} % held out, zeros {zeros}"
        _show(document, names, about, console())


def _models(
    text: str, zeros: str, given: dict[str, model_parameters.Given]
) -> "dict[str, CountModel]":
    """Make the floors and the models asked for; each gets the parameters it has."""
    from tallyfold.evaluation.compare import floors
    from tallyfold.models.registry import MODELS

    wanted = list(MODELS) if text == "all" else options.names(text) or []
    names = [name for name in wanted if name not in FLOORS]
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ParameterError(f"--models must be among {', '.join(MODELS)}; got {unknown[0]!r}.")
    known = {name: list(MODELS[name]().get_params()) for name in names}
    every = list(dict.fromkeys(key for each in known.values() for key in each))
    for key, one in given.items():
        if key != "zeros" and key not in every:
            raise model_parameters.unknown_parameter(key, one.where, "these models", every)
    chosen = dict(floors(zeros))  # type: ignore[arg-type]
    for name in names:
        own = {key: one for key, one in given.items() if key in known[name]}
        chosen[name] = model_parameters.chosen_model(name, None, own)
    return chosen


def _metrics(text: str | None, zeros: str) -> list[str]:
    if text is not None:
        return chosen_metrics(text, zeros, True)
    return ["log-pmf" if zeros == "observed" else "log-pmf-positive", "mae-mean", "mae-median"]


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


def _show(document: dict[str, Any], metrics: Sequence[str], about: str, out: "Console") -> None:
    lines = [
        (
            printable(model),
            *(_with_error(**each["scores"][name]) for name in metrics),
            f"{each['seconds']:.1f}",
        )
        for model, each in document.items()
    ]
    show_table(out, about, ["model", *(f"{name}>" for name in metrics), "seconds>"], lines)
    for model, each in document.items():
        for error in each["errors"]:
            line = f"failed: {printable(model)}: {printable(error)}"
            out.print(line, markup=False, soft_wrap=True)


def _with_error(mean: float, standard_error: float) -> str:
    has_error = standard_error == standard_error  # not nan, as with one seed
    return number(mean) + (f" ±{standard_error:.4f}" if has_error else "")
