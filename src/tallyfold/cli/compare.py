"""``tallyfold compare``: which model predicts held-out cells best."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli import model_options, model_parameters, options
from tallyfold.cli.files import files_of
from tallyfold.cli.long_runs import INTERRUPTED, error_console, progress
from tallyfold.cli.score_table import chosen_metrics
from tallyfold.cli.terminal import NOTHING, console, print_json, printable, show_table
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.evaluation.experiment import Experiment
    from tallyfold.models.base import CountModel

FLOORS = ("constant", "main-effects")
"""Models of these names are always there, as floors."""


def compare(
    files: model_options.Files,
    axes: options.Axes = None,
    value: options.Value = None,
    count_rows: options.CountRows = False,
    bins: options.Bins = None,
    min_nonzeros: options.MinNonzeros = None,
    top: options.Top = None,
    delimiter: options.Delimiter = None,
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
    from tallyfold.data.formats import read_counts
    from tallyfold.evaluation.experiment import Experiment

    given = options.reading(axes, value, count_rows, bins, min_nonzeros, top, delimiter)
    own = {"n_components": components, "zeros": zeros, "max_iter": max_iter}
    chosen = _models(models, zeros or "missing", model_parameters.settings(parameters, **own))
    names = _metrics(metrics, zeros or "missing")
    options.check_share("--holdout", holdout)
    with files_of(files) as paths:
        tensor = read_counts(paths[0] if len(paths) == 1 else paths, **given)
    experiment = Experiment(
        {"counts": tensor},
        chosen,
        names,
        range(seeds),
        {f"{1 - holdout:g}-{holdout:g}": lambda whole, seed: _split(whole, holdout, seed)},
    )
    rows = _run(experiment, out)
    if as_json:
        print_json(_document(rows, names))
    else:
        _show(rows, names, f"{tensor.nnz:,} cells, {100 * holdout:g} % held out, zeros {zeros}")


def _models(
    text: str, zeros: str, given: dict[str, model_parameters.Given]
) -> "dict[str, CountModel]":
    """Make the floors and the models asked for; each gets the parameters it has."""
    from tallyfold.evaluation.baselines import floors
    from tallyfold.models.registry import MODELS

    if text == "all":
        names = [name for name in MODELS if name not in FLOORS]
    else:
        names = [name for name in options.names(text) or [] if name not in FLOORS]
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ParameterError(f"--models must be among {', '.join(MODELS)}; got {unknown[0]!r}.")
    known = {name: list(MODELS[name]().get_params()) for name in names}
    for key, one in given.items():
        if key != "zeros" and not any(key in each for each in known.values()):
            every = list(dict.fromkeys(key for each in known.values() for key in each))
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


def _split(tensor: Any, holdout: float, seed: int) -> Any:
    from tallyfold.data.split import split

    return split(tensor, holdout, random_state=seed)


def _run(experiment: "Experiment", out: Path | None) -> "pd.DataFrame":
    try:
        with progress(error_console()) as show:
            return experiment.run(
                out,
                announce=lambda fit: show(
                    fit.number - 1,
                    fit.total,
                    f"{fit.model}, seed {fit.seed}{' (done before)' if fit.done else ''}",
                    not fit.done,
                ),
            )
    except KeyboardInterrupt:
        how = "nothing was kept; --out FOLDER would" if out is None else "run it again to go on"
        typer.echo(f"tallyfold: interrupted; {how}.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _document(rows: "pd.DataFrame", metrics: Sequence[str]) -> dict[str, Any]:
    """Return means, standard errors and errors by model."""
    document: dict[str, Any] = {}
    for model, part in rows.groupby("model", sort=False):
        fits = part.drop_duplicates("seed")
        values = {name: part.loc[part["metric"] == name, "value"].dropna() for name in metrics}
        document[str(model)] = {
            "seeds": len(fits),
            "seconds": float(fits["seconds"].mean()),
            "scores": {
                name: {"mean": _mean(each), "standard_error": _standard_error(each)}
                for name, each in values.items()
            },
            "errors": sorted(set(fits["error"].dropna())),
        }
    return document


def _mean(values: "pd.Series[float]") -> float | None:
    return float(values.mean()) if len(values) else None


def _standard_error(values: "pd.Series[float]") -> float | None:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def _show(rows: "pd.DataFrame", metrics: Sequence[str], about: str) -> None:
    document = _document(rows, metrics)
    lines = [
        (
            printable(model),
            *(_with_error(**each["scores"][name]) for name in metrics),
            f"{each['seconds']:.1f}",
        )
        for model, each in document.items()
    ]
    out = console()
    heads = ["model", *(f"{name}>" for name in metrics), "seconds>"]
    show_table(out, about, heads, lines)
    for model, each in document.items():
        for error in each["errors"]:
            line = f"failed: {printable(model)}: {printable(error)}"
            out.print(line, markup=False, soft_wrap=True)


def _with_error(mean: float | None, standard_error: float | None) -> str:
    if mean is None:
        return NOTHING
    return f"{mean:.4f}" + ("" if standard_error is None else f" ±{standard_error:.4f}")
