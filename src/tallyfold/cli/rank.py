"""``tallyfold rank``: how many components."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyfold.cli import model_options, options, search_options
from tallyfold.cli.long_runs import check_targets, end, interruptible, progress
from tallyfold.cli.search_options import chosen_model, show_errors, training_part
from tallyfold.cli.terminal import console, number_of, print_json, records, show_frame
from tallyfold.errors import InferenceError, ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.evaluation.search.rank import RankProgress
    from tallyfold.evaluation.search.rank_choice import RankChoice

FIGURES = (".png", ".svg", ".pdf")
HEADS = {"difference": "behind", "difference_se": "its se"}
FORMATS = {
    "components": "d",
    **dict.fromkeys(("mean", "se", *HEADS.values()), ".4f"),
    "failed": "",
    "seconds": ".1f",
}


@options.with_reading(*options.READING)
def rank(
    files: search_options.Files,
    reading: options.Reading,
    model: search_options.Model = "vae-bptf",
    fixed: search_options.Set = None,
    ranks: Annotated[
        str, typer.Option(metavar="A,B,...", help="Numbers of components to try.")
    ] = "1,2,3,5,8,13,20",
    best: Annotated[
        bool, typer.Option("--best", help="Choose the best, not the smallest within its error.")
    ] = False,
    folds: search_options.Folds = 5,
    metric: search_options.Metric = None,
    test_size: search_options.TestSize = 0.0,
    seed: search_options.Seed = 0,
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep scores here, to go on later.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the table as CSV.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curve: .png, .svg or .pdf.")
    ] = None,
    as_json: model_options.AsJson = False,
) -> None:
    """Choose the number of components by cells that were held out.

    The smallest number is chosen that is not worse than the best by more than
    one standard error of the difference, over the same folds.

    \b
    [bold]Examples[/]
      tallyfold rank events.parquet --axes author,word,year --ranks 1,2,5,10
      tallyfold rank counts.npz --model bptf --out ranks.csv --plot ranks.png
      tallyfold rank counts.npz --keep ranks.json
    """  # noqa: D301
    from tallyfold.data.formats.writing import written_whole
    from tallyfold.evaluation.search.rank import select_rank

    numbers = _ranks(ranks)
    check_targets({"--out": out, "--plot": plot, "--keep": keep})
    if plot is not None and plot.suffix.lower() not in FIGURES:
        raise ParameterError(f"--plot must end in {', '.join(FIGURES)}; got {str(plot)!r}.")
    tensor = training_part(files, reading, test_size, seed)
    with interruptible("nothing was kept. Use --keep FILE"), progress() as shown:
        found = select_rank(
            tensor,
            numbers,
            chosen_model(model, fixed),
            folds,
            not best,
            metric=metric,
            path=keep,
            random_state=seed,
            callback=lambda step: shown(*_step(step, folds)),
        )
    has_choice = _has_choice(found)
    if out is not None:
        with written_whole(out) as target:
            found.table.to_csv(target, index=False)
    if plot is not None and has_choice:
        _draw(found, plot)
    if as_json:
        numbers_found = {
            "metric": found.metric,
            "chosen": found.chosen if has_choice else None,
            "best": found.best if has_choice else None,
            "table": records(found.table),
        }
        print_json(numbers_found)
    else:
        _show(found, has_choice, console())
    end(found.interrupted, has_choice, keep is not None)


def _ranks(text: str) -> list[int]:
    words = options.names(text) or []
    if not words or not all(word.isdecimal() and len(word) < 10 for word in words):
        raise ParameterError(f"--ranks wants whole numbers such as 1,2,5,10; got {text!r}.")
    return [int(word) for word in words]


def _step(step: "RankProgress", folds: int) -> tuple[int, int, str, bool]:
    score = "failed" if step.score is None else f"{step.score:.4f}"
    words = f"{number_of(step.components, 'component')}, fold {step.fold + 1} of {folds}: {score}"
    return step.number, step.total, words, True


def _has_choice(found: "RankChoice") -> bool:
    try:
        return found.chosen > 0
    except InferenceError:
        return False


def _draw(found: "RankChoice", file: Path) -> None:
    from tallyfold.data.formats.writing import written_whole
    from tallyfold.report import plots

    figure = plots.rank_curve(found).get_figure(root=True)
    assert figure is not None
    with written_whole(file) as target:
        figure.savefig(target, dpi=150, bbox_inches="tight")


def _show(found: "RankChoice", has_choice: bool, to: "Console") -> None:
    table = found.table.drop(columns="folds").rename(columns=HEADS)
    table["failed"] = [failed or "" for failed in table["failed"]]
    show_frame(to, f"Held-out {found.metric}", table, FORMATS)
    show_errors(to, found.scores)
    if not has_choice:
        to.print("\nNo number of components was scored in every fold.")
        return
    to.print(f"\nchosen: {number_of(found.chosen, 'component')} (best: {found.best})")
    if found.at_edge:
        to.print("It is the largest number that was tried: larger ones may be better still.")
