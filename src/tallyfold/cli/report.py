"""``tallyfold report``: a page to explore a fitted model."""

from typing import Annotated

import typer

from tallyfold.cli import options
from tallyfold.cli.terminal import console, printable, size


def report(
    folder: Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a saved model.")],
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
    value: options.Value = None,
    count_rows: options.CountRows = False,
) -> None:
    """Write a page to explore a fitted model: one HTML file, without network or server.

    It shows the components, what is strongest in each on every axis with 90 %
    intervals, the profile of any label, and how far to trust the fit. --axes
    and --value say how to read --test and --train, unless tallyfold wrote them.

    \b
    [bold]Examples[/]
      tallyfold report model --out report.html
      tallyfold report model --test test.parquet --train train.parquet --open
      tallyfold report model --test new.csv --axes author,word,year --value count
    """  # noqa: D301
    from tallyfold.data.formats import read_counts
    from tallyfold.models.storage import load
    from tallyfold.report.explorer import write_report

    model = load(folder)
    reading = options.reading(axes, value, count_rows, None, None, None)
    tensors = {
        name: None if file is None else read_counts(file, **reading)
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
    line = f"wrote {printable(file)} ({size(file.stat().st_size)})"
    screen.print(line, markup=False, soft_wrap=True)
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
