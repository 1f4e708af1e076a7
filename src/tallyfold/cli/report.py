"""``tallyfold report``: a page to explore a fitted model."""

from typing import TYPE_CHECKING, Annotated

import typer

from tallyfold.cli import model_options, options
from tallyfold.cli.terminal import console, printable, say, size
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel


@options.with_reading(*options.READING_FOR_MODEL)
def report(
    folder: model_options.Folder,
    reading: options.Reading,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")
    ] = "report.html",
    test: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Held-out counts, for scores and calibration."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Counts it was fitted on, to score constants beside it."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What stands at the top of the page.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    axes: options.Axes = None,
) -> None:
    """Write a page to explore a fitted model: one HTML file, without network or server.

    It shows the components, what is strongest in each on every axis with 90 %
    intervals, the profile of any label, and how far to trust the fit. The data
    options say how to read --test and --train; the axes are the model's.

    \b
    [bold]Examples[/]
      tallyfold report model --out report.html
      tallyfold report model --test test.parquet --train train.parquet --open
      tallyfold report model --test new.csv --value count --bin day=month
    """  # noqa: D301
    from tallyfold.models.storage import load
    from tallyfold.report.explorer import write_report

    model = load(folder)
    _check_axes(model, axes)
    tensors = {
        name: None if file is None else model_options.counts_for(model, [file], reading)
        for name, file in (("test", test), ("train", train))
    }
    screen = console()
    file = write_report(
        model,
        out,
        title=title,
        announce=lambda name: screen.print(f"Fitting {name}, to compare ..."),
        **tensors,
    )
    say(f"wrote {printable(file)} ({size(file.stat().st_size)})")
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())


def _check_axes(model: "CountModel", axes: str | None) -> None:
    """Refuse axes that are not the model's: it knows them, so they need not be given."""
    known = [axis.name for axis in model.axes_]
    if axes is not None and set(options.names(axes) or []) != set(known):
        raise ParameterError(f"--axes must be the model's, {','.join(known)}; got {axes!r}.")
