"""``tallyfold stability``: which components of a model other fits find again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tallyfold.cli import model_folder, options
from tallyfold.cli.model_cells import Folder, load_model
from tallyfold.cli.model_counts import counts_for
from tallyfold.cli.options import option
from tallyfold.cli.progress import check_targets, interruptible, progress
from tallyfold.cli.search import FIGURES
from tallyfold.cli.terminal import number_of, print_json, say, show_frame
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    from tallyfold.evaluation.stability import StabilityProgress
    from tallyfold.models.base import CountModel

FORMATS = {"component": "d"} | dict.fromkeys(("share", "stability", "sd", "least", "recurs"), ".3f")

SPARE = ("least", "share")
"""Columns that a narrow terminal does without."""


@options.with_reading(*options.READING_FOR_MODEL)
def stability(
    folder: Folder,
    files: options.Files,
    reading: options.Reading,
    runs: Annotated[int, option("N", "How many fits.")] = 10,
    share: Annotated[float, option("SHARE", "Share of the cells that each fit sees.")] = 0.8,
    seed: Annotated[int, option("N", "Seed of these shares of cells.", min=0)] = 0,
    out: Annotated[
        str | None, option("FOLDER", "Save the model with its stability.", "--out", "-o")
    ] = None,
    consensus: Annotated[
        str | None, option("FOLDER", "Fit and save a model of the components that recur.")
    ] = None,
    plot: Annotated[Path | None, option("FILE", "Draw it: .png, .svg or .pdf.")] = None,
    overwrite: model_folder.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Tell which components come back in fits with other seeds on other cells.

    FILE has the counts that the model was fitted on. stability is the mean
    overlap of a component with its partner in each fit, one if both say the same
    of all labels; it recurs in the share of fits where that is at least one half.
    The consensus has the components that recur in at least half of the fits,
    fitted again from their centre. Lists and the page show what --out saves.

    \b
    [bold]Examples[/]
      tallyfold stability model train.npz
      tallyfold stability model train.npz --runs 5 --out model --overwrite
      tallyfold stability model train.npz --consensus surer --plot stable.png
    """  # noqa: D301
    from tallyfold.data.formats.writing import written_whole
    from tallyfold.evaluation.stability import stability as stability_of
    from tallyfold.report.plots import stability_bars

    check_targets({"--plot": plot})
    if plot is not None and plot.suffix.lower() not in FIGURES:
        raise ParameterError(f"--plot must end in {', '.join(FIGURES)}; got {str(plot)!r}.")
    for place in (out, consensus):
        if place is not None:  # before the fits, not after them
            with model_folder.held_model_folder(place, overwrite):
                pass
    model = load_model(folder)
    tensor = counts_for(model, files, reading)
    with interruptible("nothing was kept"), progress() as shown:
        found = stability_of(
            tensor,
            model,
            runs,
            share=share,
            random_state=seed,
            callback=lambda step: shown(*_step(step)),
        )
        surer = None if consensus is None else found.consensus(tensor)
    if plot is not None:
        figure: Any = stability_bars(found).figure
        with written_whole(plot) as target:
            figure.savefig(target, dpi=150, bbox_inches="tight")
    if as_json:
        print_json({"metric": found.metric, "components": found.table, "fits": found.runs})
    else:
        show_frame(f"Components in {number_of(runs, 'other fit')}", found.table, FORMATS, SPARE)
    for place, new in ((out, found.model), (consensus, surer)):
        if place is not None and new is not None:
            _save(new, place, overwrite, silent=as_json)


def _step(step: "StabilityProgress") -> tuple[int, int, str, bool]:
    return step.number, step.total, f"fit {step.number}: {step.score:.4f}", True


def _save(model: "CountModel", place: str, overwrite: bool, *, silent: bool) -> None:
    with model_folder.held_model_folder(place, overwrite):
        model.save(place)
        model_folder.clear_checkpoint(place)
    if not silent:
        number = number_of(model.posterior_.n_components, "component")
        say(f"wrote {printable(place)}: {number}")
