"""What the verbs that take a fitted model share: its folder, labels, counts on its axes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli.files import files_of
from tallyfold.cli.options import Reading
from tallyfold.errors import LabelError, ParameterError

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

Folder = Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a fitted model.")]
Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="One file, several, a quoted glob, or - for CSV."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write one JSON object, for a program to read.")
]
UNKNOWN = "Cells with labels the model does not know: stop, or leave them out."
UnknownCells = Annotated[
    str,
    typer.Option("--unknown", metavar="error|skip", help=UNKNOWN, rich_help_panel="Data"),
]


def counts_for(model: "CountModel", files: Sequence[str], reading: Reading) -> "CountTensor":
    """Read counts on the axes of a model; labels get the types that the model's have."""
    from tallyfold.data.labels import with_types_of

    names = [axis.name for axis in model.axes_]
    with files_of(files) as paths:
        if reading.keywords or not _holds_axes(paths):
            reading.keywords["axes"] = names
        tensor = reading.counts(paths)
    if set(tensor.names) != set(names):
        raise LabelError(
            f"the counts must have the model's axes {', '.join(names)}; {files[0]} has "
            f"{', '.join(tensor.names)}."
        )
    return with_types_of(tensor, model.axes_)


def known_cells(model: "CountModel", tensor: "CountTensor", unknown: str) -> "CountTensor":
    """Leave out cells with labels that the model does not know, and say so; or refuse them."""
    import numpy as np

    from tallyfold.models.cells import cell_positions

    if unknown not in ("error", "skip"):
        raise ParameterError(f"--unknown must be 'error' or 'skip'; got {unknown!r}.")
    known_NM = cell_positions(model.axes_, tensor, "prior") >= 0
    known_N = np.asarray(known_NM.all(axis=1))
    if known_N.all():
        return tensor
    cell, axis = (int(first[0]) for first in (~known_NM).nonzero())
    name = model.axes_[axis].name
    label = tensor.axis(name).label(tensor.indices[cell, tensor.axis_number(name)])
    line = f"{int((~known_N).sum()):,} of {tensor.nnz:,} cells have labels that the model does not "
    line += f"know, such as {name} {label!r}"
    if unknown == "error":
        raise LabelError(f"{line}. --unknown skip leaves them out.")
    typer.echo(f"tallyfold: {line}: left out.", err=True)
    return tensor.with_cells(known_N)


def _holds_axes(paths: Sequence[str]) -> bool:
    """Tell whether it is one file that tallyfold wrote, with its axes."""
    from tallyfold.data.formats.files import FORMATS, ending_of, resolved_files
    from tallyfold.data.formats.positions import Npz, Tns
    from tallyfold.data.formats.writing import axes_file

    files, _ = resolved_files(list(paths))
    if len(files) > 1:
        return False
    form = FORMATS[ending_of(Path(files[0]))]
    if isinstance(form, Npz):
        return True
    if isinstance(form, Tns):
        return axes_file(Path(files[0])).exists()
    return form.axes_of(files[0]) is not None


def axis_and_label(model: "CountModel", option: str, text: str) -> tuple[str, Any]:
    """Read ``author=Ann`` into an axis of the model and a label of the type it has there.

    The model's axes decide where the name ends, so that both may have ``=`` in them.
    """
    from tallyfold.data.labels import label_from_text

    fitting = [axis for axis in model.axes_ if text.startswith(f"{axis.name}=")]
    if not fitting:
        names = ", ".join(axis.name for axis in model.axes_)
        raise ParameterError(
            f"{option} wants AXIS=LABEL, with one of the model's axes {names}; got {text!r}."
        )
    axis = max(fitting, key=lambda each: len(each.name))
    return axis.name, label_from_text(axis, text[len(axis.name) + 1 :])
