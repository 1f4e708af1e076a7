"""``tallyfold components``: what is strongest in each component."""

from typing import Annotated

import typer

from tallyfold.cli import model_options
from tallyfold.cli.terminal import console, print_json, printable, records, show_frame
from tallyfold.errors import ParameterError

FORMATS = {"weight": ".4f", "low": ".4f", "high": ".4f"}


def components(
    folder: model_options.Folder,
    axis: Annotated[
        list[str] | None,
        typer.Option("--axis", metavar="AXIS", help="Which axis. Repeatable; all if left out."),
    ] = None,
    most: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="How many labels of each.")
    ] = 10,
    component: Annotated[
        int | None, typer.Option(metavar="K", help="One component only, by its number.")
    ] = None,
    as_json: model_options.AsJson = False,
) -> None:
    """Show the strongest labels of each component, the largest component first.

    weight is a label's share of the component on its axis, with a 90 %
    interval; labels that are surely strong come first.

    \b
    [bold]Examples[/]
      tallyfold components model --axis word
      tallyfold components model --component 3 --top 20
      tallyfold components model --axis word --json
    """  # noqa: D301
    import pandas as pd

    from tallyfold.models.storage import load

    model = load(folder)
    names = axis or [each.name for each in model.axes_]
    frames = {name: model.components(name, most) for name in names}
    known = list(frames[names[0]]["component"].unique())
    if component is not None and component not in known:
        raise ParameterError(f"--component must be from 0 to {len(known) - 1}; got {component}.")
    chosen = known if component is None else [component]
    if as_json:
        rows = pd.concat([frame.assign(axis=name) for name, frame in frames.items()])
        print_json(records(rows[rows["component"].isin(chosen)]))
        return
    out = console()
    for number in chosen:
        for name, frame in frames.items():
            part = frame[frame["component"] == number]
            share = 100 * part["share"].iloc[0]
            title = f"Component {number}, {share:.0f} % of the rate: {printable(name)}"
            show_frame(out, title, part[["label", *FORMATS]], FORMATS)
            out.print()
    if all((frame["low"] == frame["high"]).all() for frame in frames.values()):
        out.print("This model has no posterior: low and high are the weight.")
