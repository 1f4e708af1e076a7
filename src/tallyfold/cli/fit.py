"""``tallyfold fit``: from an event file to a saved model, in one process or in several."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tallyfold.cli import model_folder, model_parameters, options
from tallyfold.cli.compare import Scores, chosen_metrics, scored, show_scores
from tallyfold.cli.options import option
from tallyfold.cli.processes import Processes, in_many, refuse_standard_input, run_in, speaks
from tallyfold.cli.progress import INTERRUPTED, noted_interrupt, shown_progress
from tallyfold.cli.terminal import number_of, print_json, say, say_aside, say_dropped
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    from tallyfold.data.store import Store
    from tallyfold.data.tensor import CountTensor
    from tallyfold.inference.distributed.process_group import ProcessGroup
    from tallyfold.models.base import CountModel

NO_GATE = "--set gate=none leaves it to them"


@options.with_reading(*options.READING)
def fit(
    files: options.Files,
    out: Annotated[str, option("FOLDER", "Where to save the model.", "--out", "-o")],
    reading: options.Reading,
    model: model_parameters.Model = None,
    components: model_parameters.Components = None,
    zeros: model_parameters.Zeros = None,
    max_iter: model_parameters.MaxIter = None,
    scale: model_parameters.Scale = None,
    parameters: model_parameters.Set = None,
    config: model_parameters.Config = None,
    seed: Annotated[int | None, option("N", "Seed of the fit and of --holdout.")] = None,
    holdout: Annotated[
        float | None, option("SHARE", "Share of the cells to hold out and score on.")
    ] = None,
    copies: options.Copies = None,
    refit: Annotated[
        bool, option(None, "After scoring, fit again on all cells and save that.", "--refit")
    ] = False,
    resume: Annotated[
        bool, option(None, "Go on with a fit that was interrupted or killed.", "--resume")
    ] = False,
    overwrite: model_folder.Overwrite = False,
    processes: Processes = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit a model to the counts in a file and save it in a folder.

    Ctrl-C ends the fit and saves the model as it is (exit code 130, so that a
    script does not go on with half a fit); --resume goes on from there. With
    --holdout the model is scored beside constant, main effects and margins on
    cells it has not seen (with observed zeros, on a share of all cells), and the
    saved model is the one that was scored, unless --refit. With --copies, so are
    cells that fits hold out for themselves: whole groups of copies.

    \b
    [bold]Examples[/]
      tallyfold fit events.parquet --axes author,word,year --out model
      tallyfold fit ratings.csv --axes user,movie --value stars --model bptf \\
          --components 20 --set prior_shape=0.3 --holdout 0.2 --out model
      tallyfold fit counts.npz --zeros missing --out amounts
      tallyfold fit counts.npz --config best.json --seed 1 --resume --out model
      tallyfold fit events.parquet --axes user,item,day --processes 4 --out model
      tallyfold fit store/ --processes 4 --out model
    """  # noqa: D301
    options.check_share("--holdout", holdout)
    if refit and holdout is None:
        raise ParameterError("--refit is for a fit with --holdout; without it all cells are used.")
    own = {
        "n_components": components, "zeros": zeros, "max_iter": max_iter,
        "scale": model_parameters.scale_of(scale),
    }  # fmt: skip
    fit_run = FitRun(out, resume, overwrite, as_json, copies)
    with fit_run.said_if_stopped(), ExitStack() as stack:
        chosen = model_parameters.chosen_model(
            model, config, model_parameters.settings(parameters, **own)
        )
        if seed is not None and "random_state" in chosen.get_params():
            chosen.set_params(random_state=seed)
        if copies is not None and processes is not None and processes > 1:
            raise ParameterError(
                "--copies needs one process, for copies may be in different ones; leave out "
                "--processes."
            )
        if processes is not None and processes > 1 and not in_many():
            refuse_standard_input(files)
            with model_folder.held_model_folder(out, overwrite, resume):
                _check_fit(chosen, reading.store(files) or reading.counts(files), processes)
            run_in(processes)
            return

        def read(store: "Store | None") -> "CountTensor | Store":
            stack.enter_context(model_folder.held_model_folder(out, overwrite, resume))
            counts = store or reading.counts(files)
            if not resume:
                model_folder.clear_checkpoint(out)
            return counts

        fit_run.run(chosen, read, lambda: reading.store(files), holdout, seed or 0, refit)


def _check_fit(model: "CountModel", tensor: "CountTensor | Store", processes: int) -> None:
    """Refuse what the processes would refuse: before they start, and once."""
    from tallyfold.data.store import Store

    model = type(model)(**model.get_params())
    if isinstance(tensor, Store):
        model_parameters.decide_zeros([model], tensor.first_cells(), silent=True)
        model.check_shared(tensor, processes)
        return
    model_parameters.decide_zeros([model], tensor, silent=True)
    model.check_fit(tensor, processes)


class FitRun:
    """One run of the verb; only the first of several processes has the tensors and prints.

    Of a store without --holdout each of several processes has a part of its own, and none all.
    """

    model: "CountModel"
    group: "ProcessGroup"
    store: "Store | None" = None
    part: "CountTensor | None" = None

    def __init__(
        self, out: str, resume: bool, overwrite: bool, as_json: bool, copies: str | None
    ) -> None:
        self.out, self.resume, self.overwrite = out, resume, overwrite
        self.as_json, self.copies = as_json, copies
        self.tensors: dict[str, CountTensor] = {}
        self.seconds = 0.0
        self.saved = False

    def run(
        self,
        model: "CountModel",
        read: Callable[["Store | None"], "CountTensor | Store"],
        store: Callable[[], "Store | None"],
        holdout: float | None,
        seed: int,
        refit: bool,
    ) -> None:
        """Read, fit, score on what was held out, and fit again on all cells if asked to."""
        from tallyfold.inference.distributed.own_ranges import opened_by_all
        from tallyfold.inference.distributed.torch_group import many_processes

        self.model = model
        scores: Scores = {}
        last = "training part" if holdout is not None and not refit else "all cells"
        with many_processes(model.get_params().get("device", "cpu")) as self.group:
            if self.group.size > 1 and holdout is None:
                self.store = opened_by_all(self.group, store)
            if self.store is None:
                zeros = self.group.broadcast(lambda: self._read(read, holdout, seed))
            else:
                zeros = self._share(self.store, read)
            model.set_params(zeros=zeros)  # in all processes what the first one decided
            if holdout is not None:
                self._fit("training part")
                scores = self._scores() if self.group.first else {}
                self._keep(scores)
            if last == "all cells":
                self._fit("all cells")
                if holdout is not None:
                    self._keep(scores, refitted=True)
        if self.group.first:
            model_folder.clear_checkpoint(self.out)
            self._report(self.store or self.tensors[last], scores)

    def _share(
        self, store: "Store", read: Callable[["Store | None"], "CountTensor | Store"]
    ) -> str:
        """Let each process read its own part; return what empty cells are to the model."""
        from tallyfold.inference.distributed.scatter import scatter

        first, group = self.group.first, self.group
        group.broadcast(lambda: read(store) and None)
        self.part = scatter(store)
        silent = self.as_json or not first
        model_parameters.decide_zeros([self.model], self.part, silent=silent, group=group)
        group.broadcast(lambda: self._say_begin(store))
        return self.model.zeros_for(self.part)

    def _say_begin(self, whole: "CountTensor | Store") -> None:
        """Say what is not there to be fitted; end if the fit is finished."""
        if not self.as_json:
            say_dropped(whole)
        if self.resume and not self.overwrite:
            self._end_if_finished(whole)
        if self.resume and not model_folder.unfinished(self.out):
            say_aside(f"{printable(self.out)} has no unfinished fit; this one starts afresh.")

    def _read(
        self,
        read: Callable[["Store | None"], "CountTensor | Store"],
        holdout: float | None,
        seed: int,
    ) -> str:
        """Read and split; in the first process, and if it cannot, all of them end.

        Return what empty cells are to the model.
        """
        from tallyfold.data.split import split
        from tallyfold.data.tensor import CountTensor
        from tallyfold.evaluation.holding_out import hidden_from

        whole = read(None)
        assert isinstance(whole, CountTensor)
        self.tensors["all cells"] = whole
        model_parameters.decide_zeros([self.model], whole, silent=self.as_json)
        self._say_begin(whole)
        if holdout is not None:
            hidden = hidden_from([self.model], whole)
            groups = options.groups_of(whole, self.copies)
            parts = split(whole, holdout, cells=hidden, random_state=seed, groups=groups)
            self.tensors |= {"training part": parts.train, "test part": parts.test}
        return self.model.zeros_for(whole)

    def _end_if_finished(self, whole: "CountTensor | Store") -> None:
        """End well if the fit to go on with has come to its end: a supervisor may ask twice."""
        cells = self.part or self.tensors["all cells"]
        if not model_folder.is_finished(self.out, self.model, cells, whole.axes):
            return
        if self.as_json:
            print_json({"out": self.out, "model": self.model.name, "finished": True})
        else:
            say(f"{printable(self.out)}: this fit is finished. --overwrite fits again.")
        raise typer.Exit

    def _scores(self) -> Scores:
        """Score on the held-out cells."""
        from tallyfold.inference.distributed.process_group import ALONE, use_group

        test, train = self.tensors["test part"], self.tensors["training part"]
        zeros = self.model.zeros_for(train)
        metrics = chosen_metrics(None, zeros, has_train=True, has_part=test.part is not None)
        with use_group(ALONE):
            scores = scored(self.model, test, metrics, train, self.copies)
        if not self.as_json:
            show_scores(f"Scores on {test.nnz:,} held-out cells, zeros {zeros}", scores, test)
            say("")
        return scores

    def _keep(self, scores: Scores, refitted: bool = False) -> None:
        """Save the model with its scores on held-out cells."""
        from tallyfold.models.record import HeldOut

        def save() -> None:
            plain = {
                name: {m: None if v is None or v != v else float(v) for m, v in each.items()}
                for name, each in scores.items()
            }
            self.model._keep_held_out(HeldOut(self.tensors["test part"].nnz, plain, refitted))
            self.model.save(self.out)

        self.group.broadcast(save)

    def _fit(self, what: str) -> None:
        """Fit one of the tensors and save; after Ctrl-C save what is there, say so and end."""
        from tallyfold.inference.distributed.scatter import scatter

        if self.group.stop_asked():  # while nothing was being fitted
            raise KeyboardInterrupt
        checkpoint = os.path.join(self.out, model_folder.CHECKPOINT, what.replace(" ", "-"))
        part = self.part or scatter(lambda: self.tensors[what])
        start = time.perf_counter()
        with noted_interrupt() as messages, shown_progress(what) as callback:
            callbacks = [callback] if self.group.first else []
            self.model.fit(
                part,
                checkpoint=checkpoint,
                resume=self.resume,
                callbacks=callbacks,
                groups=options.groups_of(part, self.copies),
                verbose=False,
            )
        self.seconds = time.perf_counter() - start
        self.group.broadcast(lambda: self.model.save(self.out))
        self.saved = True
        if messages:
            self._say_stopped(
                f"{messages[0]} It is saved in {self.out}; the same command with --resume goes on."
            )

    def _say_stopped(self, line: str) -> NoReturn:
        if speaks():
            say_aside(line)
        raise typer.Exit(INTERRUPTED)

    @contextmanager
    def said_if_stopped(self) -> Iterator[None]:
        """Say what was saved after a Ctrl-C outside of a fit's iterations."""
        try:
            yield
        except KeyboardInterrupt:
            line = "Stopped before the first iteration was done: nothing was saved."
            if self.saved:
                line = f"Stopped after a fit; its model is saved in {self.out}."
            self._say_stopped(line)

    def _report(self, cells: "CountTensor | Store", scores: Scores) -> None:
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
                "gate": fitted.gate,
                "validation_score": fitted.validation_score,
                "scores": scores,
            }
            print_json(document)
            return
        shape = " x ".join(f"{printable(axis.name)} {len(axis):,}" for axis in cells.axes)
        zeros = fitted.parameters["zeros"]
        if fitted.gate is not None:
            zeros += f", gate {' x '.join(map(printable, fitted.gate))}"
        say(f"{self.model.name} on {cells.nnz:,} cells of {shape}, zeros {zeros}")
        if fitted.gate is not None:
            pairs = " and ".join(map(printable, fitted.gate))
            say(f"the gate, not the components, says which pairs of {pairs} are active ({NO_GATE})")
        say(self._course())
        say(f"wrote {printable(self.out)}\n\nNext:")
        for line in self._next():
            say(f"  {line}")

    def _course(self) -> str:
        """Return how the fit went: how long it took, and its iterations if it has any."""
        fitted = self.model.fitted_
        if not {"max_iter", "n_components"} & set(self.model.get_params()):
            return f"{self.seconds:.1f} s"
        from tallyfold.models.card import end_words

        iterations = number_of(len(fitted.history), "iteration")
        limited = fitted.reason == "max_iter" and "max_iter" in fitted.parameters
        more = " (--max-iter allows more)" if limited else ""
        return f"{iterations}, {self.seconds:.1f} s: {end_words(fitted)}{more}"

    def _next(self) -> Iterator[str]:
        """Yield commands to try on the model."""
        from tallyfold.models.scoring import ranked_axis

        folder, axis = shlex.quote(self.out), ranked_axis(self.model.axes_)
        if self.model.fitted_.factors is not None and "n_components" in self.model.get_params():
            yield f"tallyfold components {folder} --axis {shlex.quote(axis)}"
        yield f"tallyfold predict {folder} cells.csv --out predictions.csv"
        yield f"tallyfold report {folder} --out report.html"
