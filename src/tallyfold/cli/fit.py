"""``tallyfold fit``: from an event file to a saved model."""

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli import model_folder, model_options, model_parameters, options
from tallyfold.cli.fit_progress import noted_interrupt, shown_progress
from tallyfold.cli.frames import as_json as written
from tallyfold.cli.long_runs import INTERRUPTED
from tallyfold.cli.score_table import Scores, chosen_metrics, scored, show_scores
from tallyfold.cli.streams import files_of
from tallyfold.cli.terminal import console, number_of, printable
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

REASONS = {
    "converged": "converged",
    "validation": "held-out cells were not predicted better any more",
    "max_iter": "the limit of iterations",
    "interrupted": "interrupted",
}
"""Why a fit ended, in words."""


def fit(
    files: model_options.Files,
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the model."),
    ],
    axes: options.Axes = None,
    value: options.Value = None,
    count_rows: options.CountRows = False,
    bins: options.Bins = None,
    min_nonzeros: options.MinNonzeros = None,
    top: options.Top = None,
    delimiter: options.Delimiter = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Which model: vae-bptf if left out.", rich_help_panel="Model"
        ),
    ] = None,
    components: model_parameters.Components = None,
    zeros: model_parameters.Zeros = None,
    max_iter: model_parameters.MaxIter = None,
    parameters: model_parameters.Set = None,
    config: model_parameters.Config = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of the fit and of --holdout.")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of the cells to hold out and score on."),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="After scoring, fit again on all cells and save that.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit that was interrupted or killed.")
    ] = False,
    overwrite: model_folder.Overwrite = False,
    as_json: model_options.AsJson = False,
) -> None:
    """Fit a model to the counts in a file and save it in a folder.

    Ctrl-C ends the fit and saves the model as it is (exit code 130, so that a
    script does not go on with half a fit); --resume goes on from there. With
    --holdout the model is scored beside constants and main effects on cells it
    has not seen, and the saved model is the one that was scored, unless --refit.

    \b
    [bold]Examples[/]
      tallyfold fit events.parquet --axes author,word,year --out model
      tallyfold fit ratings.csv --axes user,movie --value stars --model bptf \\
          --components 20 --set prior_shape=0.3 --holdout 0.2 --out model
      tallyfold fit counts.npz --config best.json --seed 1 --resume --out model
    """  # noqa: D301
    given = options.reading(axes, value, count_rows, bins, min_nonzeros, top, delimiter)
    model_options.check_share("--holdout", holdout)
    if refit and holdout is None:
        raise ParameterError("--refit is for a fit with --holdout; without it all cells are used.")
    own = {"n_components": components, "zeros": zeros, "max_iter": max_iter}
    fit_run = _FitRun(out, resume, as_json)
    with fit_run.said_if_stopped():
        chosen = model_parameters.chosen_model(
            model, config, model_parameters.settings(parameters, **own)
        )
        if seed is not None and "random_state" in chosen.get_params():
            chosen.set_params(random_state=seed)
        model_folder.check_model_folder(out, overwrite, resume)
        tensor = _counts(files, given)
        if resume and not overwrite:
            model_folder.refuse_to_resume(out, tensor.axes)
        elif not resume:
            model_folder.clear_checkpoint(out)
        fit_run.run(chosen, tensor, holdout, seed or 0, refit)


def _counts(files: list[str], given: dict[str, Any]) -> "CountTensor":
    from tallyfold.data.formats import read_counts

    with files_of(files) as paths:
        return read_counts(paths[0] if len(paths) == 1 else paths, **given)


class _FitRun:
    """One run of the verb: fit, save, score, say so."""

    model: "CountModel"

    def __init__(self, out: str, resume: bool, as_json: bool) -> None:
        self.out, self.resume, self.as_json = out, resume, as_json
        self.screen: Console = console()
        self.seconds = 0.0
        self.saved = False

    def run(
        self,
        model: "CountModel",
        tensor: "CountTensor",
        holdout: float | None,
        seed: int,
        refit: bool,
    ) -> None:
        from tallyfold.data.split import split

        self.model = model
        for record in tensor.dropped:
            self._say(f"left out: {printable(record)}")
        self._note_checkpoint()
        scores: Scores = {}
        cells = tensor
        if holdout is not None:
            cells, test = split(tensor, holdout, random_state=seed)
            self._fit(cells, "training part")
            zeros = self.model.get_params()["zeros"]
            scores = scored(self.model, test, chosen_metrics(None, zeros, True), cells)
            title = f"Scores on {test.nnz:,} held-out cells, zeros {zeros}"
            if not self.as_json:
                show_scores(self.screen, title, scores)
                self.screen.print()
        if holdout is None or refit:
            cells = tensor
            self._fit(cells, "all cells")
        model_folder.clear_checkpoint(self.out)
        self._report(cells, scores)

    def _fit(self, cells: "CountTensor", what: str) -> None:
        """Fit and save; after Ctrl-C save what is there, say so and end."""
        place = os.path.join(self.out, model_folder.CHECKPOINT, what.replace(" ", "-"))
        start = time.perf_counter()
        with noted_interrupt() as said, shown_progress(what) as callback:
            self.model.fit(cells, checkpoint=place, resume=self.resume, callbacks=[callback])
        self.seconds = time.perf_counter() - start
        self.model.save(self.out)
        self.saved = True
        if said:
            typer.echo(
                f"tallyfold: {said[0]} It is saved in {self.out}; the same command with --resume "
                "goes on.",
                err=True,
            )
            raise typer.Exit(INTERRUPTED)

    @contextmanager
    def said_if_stopped(self) -> Iterator[None]:
        """Say what is left after a Ctrl-C that came while no iterations were done."""
        try:
            yield
        except KeyboardInterrupt:
            line = "Stopped before the first iteration was done: nothing was saved."
            if self.saved:
                line = f"Stopped after a fit; its model is saved in {self.out}."
            typer.echo(f"tallyfold: {line}", err=True)
            raise typer.Exit(INTERRUPTED) from None

    def _note_checkpoint(self) -> None:
        if self.resume and not model_folder.unfinished(self.out):
            typer.echo(
                f"tallyfold: {self.out} has no unfinished fit; this one starts afresh.", err=True
            )

    def _report(self, cells: "CountTensor", scores: Scores) -> None:
        fitted = self.model.fitted_
        if self.as_json:
            document = {
                "out": self.out,
                "model": self.model.name,
                "parameters": fitted.parameters,
                "axes": {axis.name: len(axis) for axis in cells.axes},
                "cells": cells.nnz,
                "iterations": len(fitted.history),
                "reason": fitted.reason,
                "seconds": self.seconds,
                "validation_score": fitted.validation_score,
                "scores": scores,
            }
            typer.echo(written(document))
            return
        shape = " x ".join(f"{printable(axis.name)} {len(axis):,}" for axis in cells.axes)
        self._say(f"{self.model.name} on {cells.nnz:,} cells of {shape}")
        self._say(self._course())
        self._say(f"wrote {printable(self.out)}\n\nNext:")
        for line in self._next():
            self._say(f"  {line}")

    def _course(self) -> str:
        """Say how the fit went: of a model that has no iterations to choose, how long it took."""
        fitted = self.model.fitted_
        if not {"max_iter", "n_components"} & set(self.model.get_params()):
            return f"{self.seconds:.1f} s"
        ended = REASONS.get(fitted.reason, fitted.reason)
        iterations = number_of(len(fitted.history), "iteration")
        return f"{iterations}, {self.seconds:.1f} s, ended by: {ended}"

    def _next(self) -> list[str]:
        """Return commands to try on the model."""
        folder = shlex.quote(self.out)
        longest = max(self.model.axes_, key=len)
        has_components = (
            self.model.fitted_.factors is not None and "n_components" in self.model.get_params()
        )
        components = f"tallyfold components {folder} --axis {shlex.quote(longest.name)}"
        return [
            *([components] if has_components else []),
            f"tallyfold predict {folder} cells.csv --out predictions.csv",
            f"tallyfold report {folder} --out report.html",
        ]

    def _say(self, line: str) -> None:
        if not self.as_json:
            self.screen.print(line, markup=False, soft_wrap=True)
