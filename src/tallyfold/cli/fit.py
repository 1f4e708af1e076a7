"""``tallyfold fit``: from an event file to a saved model."""

from typing import TYPE_CHECKING, Annotated

import typer

from tallyfold.cli import model_folder, model_options, model_parameters, options
from tallyfold.cli.fit_run import FitRun
from tallyfold.cli.processes import Processes, in_many, run_in
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor


@options.with_reading(*options.READING)
def fit(
    files: model_options.Files,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the model.")
    ],
    reading: options.Reading,
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
    processes: Processes = None,
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
      tallyfold fit events.parquet --axes user,item,day --processes 4 --out model
    """  # noqa: D301
    options.check_share("--holdout", holdout)
    if refit and holdout is None:
        raise ParameterError("--refit is for a fit with --holdout; without it all cells are used.")
    own = {"n_components": components, "zeros": zeros, "max_iter": max_iter}
    fit_run = FitRun(out, resume, as_json)
    with fit_run.said_if_stopped():
        chosen = model_parameters.chosen_model(
            model, config, model_parameters.settings(parameters, **own)
        )
        if seed is not None and "random_state" in chosen.get_params():
            chosen.set_params(random_state=seed)
        if processes is not None and processes > 1 and not in_many():
            run_in(processes, files)
            return

        def read() -> "CountTensor":
            model_folder.check_model_folder(out, overwrite, resume)
            tensor = reading.counts(files)
            if resume and not overwrite:
                model_folder.refuse_to_resume(out, tensor.axes)
            elif not resume:
                model_folder.clear_checkpoint(out)
            return tensor

        fit_run.run(chosen, read, holdout, seed or 0, refit)
