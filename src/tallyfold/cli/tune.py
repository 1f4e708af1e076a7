"""``tallyfold tune``: search for the parameters that predict held-out cells best."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli import options, search_options
from tallyfold.cli.long_runs import (
    GO_ON,
    check_targets,
    end,
    error_console,
    interruptible,
    number,
    progress,
)
from tallyfold.cli.search_options import chosen_model, parsed, training_part
from tallyfold.cli.terminal import console, printable, show_table
from tallyfold.errors import ParameterError
from tallyfold.evaluation.search.study import SEARCH_FILE, shown_place

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.evaluation.search.result import Search
    from tallyfold.evaluation.search.trials import SearchProgress


def tune(
    files: search_options.Files,
    axes: options.Axes = None,
    value: options.Value = None,
    count_rows: options.CountRows = False,
    bins: options.Bins = None,
    min_nonzeros: options.MinNonzeros = None,
    top: options.Top = None,
    delimiter: options.Delimiter = None,
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
    as_json: search_options.AsJson = False,
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

    given = options.reading(axes, value, count_rows, bins, min_nonzeros, top, delimiter)
    check_targets({"--out": out})
    tensor = training_part(files, given, test_size, seed)
    chosen = chosen_model(model, fixed)
    errors = error_console()
    with interruptible(GO_ON), progress(errors) as shown:
        found = search_for(
            chosen,
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
        rows = json.loads(found.trials.to_json(orient="records", double_precision=15))
        typer.echo(json.dumps(document | {"rows": rows}, ensure_ascii=False, indent=2))
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
    pairs = options.pairs("--choices", list(choices or []))
    if not pairs:
        return found
    tried = {
        key: [parsed(each) for each in options.names(text) or ()] for key, text in pairs.items()
    }
    return dict(SPACES.get(space or "", found or {})) | tried


def _step(step: "SearchProgress") -> tuple[float, int, str, bool]:
    ended = step.state != "running"
    done = step.trial - 1 + (1.0 if ended else step.fold / step.folds)
    best = "" if step.best is None else f", best {step.best:.4f}"
    state = step.state if ended else f"fold {step.fold} of {step.folds}"
    mean = "" if step.score is None else f" {step.score:.4f}"
    return (
        int(done),
        step.trials,
        f"trial {step.trial} of {step.trials}: {state}{mean}{best}",
        ended,
    )


def _show(found: "Search", out: Path | None, to: "Console") -> None:
    names = [n for n in found.trials.columns if n not in ("number", "state", "seconds", "error")]
    names = [name for name in names if not name.startswith("fold_") and name not in ("mean", "se")]
    rows = [
        (
            str(row["number"] + 1),
            row["state"],
            *(printable(row[name]) for name in names),
            number(row["mean"]),
            number(row["se"]),
            number(row["seconds"], 1),
        )
        for row in found.trials.to_dict("records")
    ]
    title = f"Held-out {found.metric} over {found.folds} folds"
    heads = ["trial>", "state", *names, "mean>", "se>", "seconds>"]
    show_table(to, title, heads, rows)
    for error in found.trials["error"].dropna().unique()[:5]:
        to.print(f"failed: {printable(error)}", markup=False, soft_wrap=True)
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
