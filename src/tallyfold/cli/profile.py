"""``tallyfold profile``: the components of one entity."""

from typing import Annotated

import typer

from tallyfold.cli import model_options
from tallyfold.cli.terminal import console, print_json, printable, records, show_frame

FORMATS = {"component": "d", "share": ".3f", "mean": ".4g", "low": ".4g", "high": ".4g"}


def profile(
    folder: model_options.Folder,
    of: Annotated[
        str, typer.Option("--of", metavar="AXIS=LABEL", help="The entity, such as author=Ann.")
    ],
    level: Annotated[float, typer.Option(help="Of the interval from low to high.")] = 0.9,
    as_json: model_options.AsJson = False,
) -> None:
    """Show an entity's factors, its strongest component first.

    share is a component's part in the entity's rate over all cells.

    \b
    [bold]Examples[/]
      tallyfold profile model --of author="Ada Lovelace"
      tallyfold profile model --of year=2010 --json
    """  # noqa: D301
    from tallyfold.evaluation.profiles import profile as profile_of
    from tallyfold.models.storage import load

    model = load(folder)
    axis, label = model_options.axis_and_label(model, "--of", of)
    frame = profile_of(model, axis, label, level=level)
    if as_json:
        print_json({"axis": axis, "label": label, "components": records(frame)})
        return
    out = console()
    show_frame(out, f"{printable(axis)} {printable(label)}", frame, FORMATS)
    if not frame.attrs["posterior"]:
        out.print("\nThis model has no posterior: low and high are the mean.")
