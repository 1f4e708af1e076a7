"""``tallyfold top``: what goes with some entities."""

from typing import Annotated, Any

import typer

from tallyfold.cli import model_options
from tallyfold.cli.terminal import console, print_json, printable, records, show_frame
from tallyfold.errors import ParameterError

FORMATS = {"mean": ".4g", "sd": ".2g"}


def top(
    folder: model_options.Folder,
    axis: Annotated[
        str, typer.Option("--axis", metavar="AXIS", help="The axis whose labels are ranked.")
    ],
    given: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="AXIS=LABEL", help="A label of another axis. Repeatable."),
    ] = None,
    most: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many.")] = 10,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of posterior draws.")] = 0,
    as_json: model_options.AsJson = False,
) -> None:
    """Show the labels with the highest rates beside some given ones.

    mean and sd are those of the rate over posterior draws. Axes that are not
    given are averaged over.

    \b
    [bold]Examples[/]
      tallyfold top model --for author="Ada Lovelace" --axis word
      tallyfold top model --for author=Ann --for year=2010 --axis word --top 20
    """  # noqa: D301
    from tallyfold.evaluation.profiles import top_entities
    from tallyfold.models.storage import load

    model = load(folder)
    asked: dict[str, Any] = {}
    for text in given or []:
        name, label = model_options.axis_and_label(model, "--for", text)
        if name in asked:
            raise ParameterError(f"--for is given twice for axis {name!r}.")
        asked[name] = label
    frame = top_entities(model, axis, asked, top=most, random_state=seed)
    if as_json:
        print_json({"axis": axis, "for": asked, "top": records(frame)})
        return
    beside = ", ".join(f"{name} {label}" for name, label in asked.items()) or "anything"
    title = f"{printable(axis)}: highest rates beside {printable(beside)}"
    out = console()
    show_frame(out, title, frame, FORMATS)
    if not frame.attrs["posterior"]:
        out.print("\nThis model has no posterior, so there is no sd.")
