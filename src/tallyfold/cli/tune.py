"""``tallyfold tune``: search for the parameters that predict held-out cells best."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli import model_options, options, search_options
from tallyfold.cli.long_runs import GO_ON, check_targets, end, interruptible, progress
from tallyfold.cli.search_options import chosen_model, show_errors, training_part
from tallyfold.cli.terminal import console, print_json, records, show_frame
from tallyfold.errors import ParameterError
from tallyfold.evaluation.search.study import SEARCH_FILE, shown_place

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.evaluation.search.result import Search
    from tallyfold.evaluation.search.trials import SearchProgress

FORMATS = {"trial": "d", "mean": ".4f", "se": ".4f", "seconds": ".1f"}


@options.with_reading(*options.READING)
def tune(
    files: search_options.Files,
    reading: options.Reading,
    model: search_options.Model = "vae-bptf",
    fixed: search_options.Set = None,
    space: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A space by name, or a JSON file of choices; else the model's own.",
        ),
    ] = None,
    choices: Annotated[
        list[str] | None,
        typer.Option(
            "--choices", metavar="NAME=A,B,...", help="What to try for a parameter. Repeatable."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", help="How many settings to try.")] = 20,
    folds: search_options.Folds = 5,
    metric: search_options.Metric = None,
    test_size: search_options.TestSize = 0.0,
    seed: search_options.Seed = 0,
    storage: Annotated[
        str,
        typer.Option(
            metavar="FILE|URL",
            help="Keep trials here, to go on later or share the work: SQLite, or a database.",
        ),
    ] = SEARCH_FILE,
    study: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A name in there; else each search has its own place."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the best parameters as JSON."),
    ] = None,
    as_json: model_options.AsJson = False,
) -> None:
    """Search for the parameters with which a model predicts best.

    Each trial is a k-fold cross-validation, and kept. Ctrl-C loses nothing:
    the same command goes on, and may run several times at once.

    \b
    [bold]Examples[/]
      tallyfold tune events.parquet --axes user,page,day --model bptf
      tallyfold tune counts.npz --model bptf --trials 30 \\
          --storage search.db --out best.json
      tallyfold tune counts.npz --model bptf --choices n_components=5,10 \\
          --choices prior_shape=0.1,1 --set likelihood=negative-binomial
    """  # noqa: D301
    from tallyfold.evaluation.search.tune import tune as search_for

    check_targets({"--out": out})
    tensor = training_part(files, reading, test_size, seed)
    with interruptible(GO_ON), progress() as shown:
        found = search_for(
            chosen_model(model, fixed),
            tensor,
            _space(space, choices),
            folds,
            trials,
            metric=metric,
            storage=storage,
            study=study,
            random_state=seed,
            callback=lambda step: shown(*_step(step)),
        )
    has_best = found.finished_best() is not None
    if out is not None and has_best:
        found.save(out)
    if as_json:
        document = found.document() if has_best else {}
        print_json(document | {"rows": records(found.trials)})
    else:
        _show(found, out, console())
        console().print(f"trials are kept in {shown_place(storage)}", markup=False, soft_wrap=True)
    end(found.interrupted, has_best, kept=True)


def _space(space: str | None, choices: Sequence[str] | None) -> Any:
    """Return the space that the options ask for; None for the model's own."""
    from tallyfold.evaluation.search.spaces import SPACES

    found: Any = space
    if space is not None and space not in SPACES:
        try:
            found = json.loads(Path(space).read_text("utf-8"))
        except FileNotFoundError:
            raise ParameterError(
                f"--space must be a JSON file or one of {', '.join(SPACES)}; got {space!r}."
            ) from None
        except ValueError as error:
            raise ParameterError(f"--space {space}: not JSON ({error}).") from None
    pairs = options.pairs("--choices", list(choices or [])) or {}
    if not pairs:
        return found
    tried = {key: [_parsed(word) for word in options.names(pairs[key]) or ()] for key in pairs}
    return dict(SPACES.get(space or "", found or {})) | tried


def _parsed(text: str) -> Any:
    """Read a value: a number, true, false, null or a JSON list; anything else is a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _step(step: "SearchProgress") -> tuple[float, int, str, bool]:
    ended = step.state != "running"
    done = step.trial if ended else step.trial - 1
    best = "" if step.best is None else f", best {step.best:.4f}"
    state = step.state if ended else f"fold {step.fold} of {step.folds}"
    mean = "" if step.score is None else f" {step.score:.4f}"
    words = f"trial {step.trial} of {step.trials}: {state}{mean}{best}"
    return done, step.trials, words, ended


def _show(found: "Search", out: Path | None, to: "Console") -> None:
    folds = [f"fold_{fold + 1}" for fold in range(found.folds)]
    table = found.trials.drop(columns=[*folds, "error"])
    parameters = table.columns[2:-3]
    table[parameters] = table[parameters].map(str)
    table = table.assign(number=table["number"] + 1).rename(columns={"number": "trial"})
    show_frame(to, f"Held-out {found.metric} over {found.folds} folds", table, FORMATS)
    show_errors(to, found.trials)
    running = int((found.trials["state"] == "running").sum())
    if running and not found.interrupted:
        to.print(f"{running} still running in another process: run this again when it is done.")
    if found.finished_best() is None:
        to.print("\nNo trial is complete, so there is no best.")
        return
    best = ", ".join(f"{name}={value!r}" for name, value in found.best.items())
    to.print(f"\nbest: {best}", markup=False, soft_wrap=True)
    to.print(f"{found.metric} {found.best_score:.4f}, standard error {found.standard_error:.4f}")
    if out is not None:
        to.print(f"wrote {out}", markup=False, soft_wrap=True)
