"""``tallyfold score``: how well a model predicts cells it has not seen."""

from typing import Annotated

import typer

from tallyfold.cli import model_options, options
from tallyfold.cli.score_table import chosen_metrics, scored, show_scores
from tallyfold.cli.terminal import console, print_json


@options.with_reading(*options.READING_FOR_MODEL)
def score(
    folder: model_options.Folder,
    files: model_options.Files,
    reading: options.Reading,
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Counts it was fitted on, to score constants and main effects beside it.",
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="A,B,...|all", help="Which scores, if not the usual ones.")
    ] = None,
    unknown: model_options.UnknownCells = "error",
    as_json: model_options.AsJson = False,
) -> None:
    """Score a model on held-out counts.

    log-pmf-positive is the mean log probability of a count given that it is at
    least one; mae-mean and mae-median the mean absolute error of the predicted
    mean and median; coverage the share of counts in their interval.

    \b
    [bold]Examples[/]
      tallyfold score model test.parquet --value count
      tallyfold score model test.npz --train train.npz
      tallyfold score model test.npz --metrics mae-median,coverage-95 --json
    """  # noqa: D301
    from tallyfold.models.storage import load

    model = load(folder)
    zeros = model.get_params()["zeros"]
    names = chosen_metrics(metrics, zeros, train is not None)
    test = model_options.counts_for(model, files, reading)
    test = model_options.known_cells(model, test, unknown)
    cells = None if train is None else model_options.counts_for(model, train, reading)
    scores = scored(model, test, names, cells)
    if as_json:
        print_json({"cells": test.nnz, "zeros": zeros, "scores": scores})
    else:
        show_scores(console(), f"Scores on {test.nnz:,} cells, zeros {zeros}", scores)
