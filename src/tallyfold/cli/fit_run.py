"""One run of ``tallyfold fit``: fit, save, score, say so; in one process or in several."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from tallyfold.cli import model_folder
from tallyfold.cli.fit_progress import noted_interrupt, shown_progress
from tallyfold.cli.frames import as_json as written
from tallyfold.cli.long_runs import INTERRUPTED
from tallyfold.cli.processes import speaks
from tallyfold.cli.score_table import Scores, chosen_metrics, scored, show_scores
from tallyfold.cli.terminal import console, number_of, printable

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.data.tensor import CountTensor
    from tallyfold.inference.distributed.process_group import ProcessGroup
    from tallyfold.models.base import CountModel

REASONS = {
    "converged": "converged",
    "validation": "held-out cells were not predicted better any more",
    "max_iter": "the limit of iterations",
    "interrupted": "interrupted",
}
"""Why a fit ended, in words."""


class FitRun:
    """One run of the verb: fit, save, score, say so."""

    model: CountModel
    group: ProcessGroup
    test: CountTensor | None = None

    def __init__(self, out: str, resume: bool, as_json: bool) -> None:
        self.out, self.resume, self.as_json = out, resume, as_json
        self.screen: Console = console()
        self.seconds = 0.0
        self.saved = False

    def run(
        self,
        model: CountModel,
        read: Callable[[], CountTensor],
        holdout: float | None,
        seed: int,
        refit: bool,
    ) -> None:
        """Read, fit, score on what was held out, and fit again on all cells if asked to."""
        from tallyfold.inference.distributed.torch_group import many_processes

        self.model = model
        scores: Scores = {}
        with many_processes(model.get_params().get("device", "cpu")) as self.group:
            whole = self._read_once(read)
            cells = whole
            if holdout is not None:
                cells = self._held_back(whole, holdout, seed)
                self._fit(cells, "training part")
                scores = self._scores(cells)
            if holdout is None or refit:
                cells = whole
                self._fit(cells, "all cells")
        if self.group.first:
            model_folder.clear_checkpoint(self.out)
            self._report(cells(), scores)

    def _read_once(self, read: Callable[[], CountTensor]) -> Callable[[], CountTensor]:
        """Read in the first of the processes; if it cannot, end all of them."""
        kept: list[CountTensor] = []

        def first_reads() -> None:
            kept.append(read())
            for record in kept[0].dropped:
                self._say(f"left out: {printable(record)}")
            self._note_checkpoint()

        self.group.broadcast(first_reads)
        return lambda: kept[0]

    def _held_back(
        self, whole: Callable[[], CountTensor], share: float, seed: int
    ) -> Callable[[], CountTensor]:
        """Split in the first of the processes; return what gives the training part."""
        from tallyfold.data.split import Split, split

        kept: list[Split] = []
        self.group.broadcast(lambda: kept.append(split(whole(), share, random_state=seed)))
        self.test = kept[0].test if kept else None
        return lambda: kept[0].train

    def _scores(self, cells: Callable[[], CountTensor]) -> Scores:
        """Score on the held-out cells, in the first of the processes."""
        from tallyfold.inference.distributed.process_group import ALONE, use_group

        if self.test is None:
            return {}
        zeros = self.model.get_params()["zeros"]
        with use_group(ALONE):
            scores = scored(self.model, self.test, chosen_metrics(None, zeros, True), cells())
        if not self.as_json:
            title = f"Scores on {self.test.nnz:,} held-out cells, zeros {zeros}"
            show_scores(self.screen, title, scores)
            self.screen.print()
        return scores

    def _fit(self, cells: Callable[[], CountTensor], what: str) -> None:
        """Fit and save; after Ctrl-C save what is there, say so and end."""
        if self.group.stop_asked():  # while nothing was being fitted
            raise KeyboardInterrupt
        from tallyfold.inference.distributed.scatter import scatter

        place = os.path.join(self.out, model_folder.CHECKPOINT, what.replace(" ", "-"))
        part = scatter(cells)
        start = time.perf_counter()
        with noted_interrupt() as said, shown_progress(what) as callback:
            callbacks = [callback] if self.group.first else []
            self.model.fit(part, checkpoint=place, resume=self.resume, callbacks=callbacks)
        self.seconds = time.perf_counter() - start
        self.group.broadcast(lambda: self.model.save(self.out))
        self.saved = True
        if said:
            self._say_stopped(
                f"{said[0]} It is saved in {self.out}; the same command with --resume goes on."
            )

    def _say_stopped(self, line: str) -> NoReturn:
        if speaks():
            typer.echo(f"tallyfold: {line}", err=True)
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
            self._say_stopped(line)

    def _note_checkpoint(self) -> None:
        if self.resume and not model_folder.unfinished(self.out):
            typer.echo(
                f"tallyfold: {self.out} has no unfinished fit; this one starts afresh.", err=True
            )

    def _report(self, cells: CountTensor, scores: Scores) -> None:
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
