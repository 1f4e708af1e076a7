"""Counts as verbs read them for a fitted model: on its axes, with labels that it knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tallyfold.cli import options
from tallyfold.cli.files import files_of
from tallyfold.cli.options import Reading
from tallyfold.cli.terminal import say_aside, say_dropped
from tallyfold.errors import LabelError

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel


def counts_for(model: "CountModel", files: Sequence[str], reading: Reading) -> "CountTensor":
    """Read counts on the axes of a model; labels get the types that the model's have."""
    from tallyfold.data.labels import with_bins_of, with_types_of

    names = [axis.name for axis in model.axes_]
    with files_of(files) as paths:
        if reading.query is not None or reading.keywords or (paths and not _holds_axes(paths)):
            reading.keywords["axes"] = model.axes_
        tensor = reading.counts(paths)
    say_dropped(tensor, aside=True)
    if set(tensor.names) != set(names):
        raise LabelError(
            f"the counts must have the model's axes {', '.join(names)}; they have "
            f"{', '.join(tensor.names)}."
        )
    return with_types_of(with_bins_of(tensor, model.axes_), model.axes_)


def counts_given(
    model: "CountModel", files: Sequence[str] | None, reading: Reading
) -> "CountTensor | None":
    """Read counts that a verb can do without; None if neither files nor a query are given."""
    asked = bool(files) or reading.query is not None
    return counts_for(model, files or [], reading) if asked else None


def unknown_choices(model: "CountModel", texts: list[str] | None, *known: str) -> dict[str, str]:
    """Return for each axis of a model what is done with labels that it does not know."""
    from tallyfold.models.cells import unknown_by_axis

    return unknown_by_axis(model.axes_, options.choices("--unknown", texts) or "error", known)


def known_cells(
    model: "CountModel", tensor: "CountTensor", choices: dict[str, str], *, prior: bool = False
) -> "CountTensor":
    """Leave out cells with labels that the model does not know, and say so; or refuse them.

    On axes whose choice is ``"prior"``, which may be chosen with `prior`, they stay.
    """
    import numpy as np

    from tallyfold.models.cells import cell_positions

    asked_M = np.array([choices[axis.name] != "prior" for axis in model.axes_])
    known_NM = (cell_positions(model.axes_, tensor, "prior") >= 0) | ~asked_M
    known_N = np.asarray(known_NM.all(axis=1))
    if known_N.all():
        return tensor
    stops_M = np.array([choices[axis.name] == "error" for axis in model.axes_])
    stops = bool((~known_NM & stops_M).any())
    bad_NM = ~known_NM & stops_M if stops else ~known_NM
    named, axes = [], [model.axes_[number] for number in np.flatnonzero(bad_NM.any(axis=0))]
    for axis in axes:
        number = tensor.axis_number(axis.name)
        cell = bad_NM[:, model.axes_.index(axis)].argmax()  # the first with such a label
        label = tensor.axes[number].label(int(tensor.indices[cell, number]))
        named.append(f"{axis.name} {label!r}")
    line = f"{int(bad_NM.any(axis=1).sum()):,} of {tensor.nnz:,} cells have labels that the model "
    line += f"does not know, such as {', '.join(named)}"
    if stops:
        more = ", --unknown prior takes an average label" if prior else ""
        ordered = any(axis.order is not None for axis in axes)
        ahead = " --horizon N knows the next N periods, where a model forecasts." if ordered else ""
        raise LabelError(
            f"{line}. --unknown skip leaves them out{more}; --unknown {axes[0].name}=... is for "
            f"labels of {axes[0].name} alone.{ahead}"
        )
    say_aside(f"{line}: left out.")
    if tensor.part is None:
        return tensor.with_cells(known_N)
    found = {
        axis.name: axis.find(tensor.axis(axis.name).labels)[1] | (choices[axis.name] == "prior")
        for axis in model.axes_
    }
    return tensor.sel(**{n: tensor.axis(n).labels.filter(known_D) for n, known_D in found.items()})


def _holds_axes(paths: Sequence[str]) -> bool:
    """Tell whether it is one file that tallyfold wrote, with its axes."""
    from tallyfold.data.formats.files import FORMATS, ending_of, resolved_files
    from tallyfold.data.formats.positions import Npz, Tns
    from tallyfold.data.formats.writing import axes_file
    from tallyfold.data.store.manifest import is_store

    if len(paths) == 1 and is_store(paths[0]):
        return True
    files, _ = resolved_files(list(paths))
    if len(files) > 1:
        return False
    form = FORMATS[ending_of(Path(files[0]))]
    if isinstance(form, Npz):
        return True
    if isinstance(form, Tns):
        return axes_file(Path(files[0])).exists()
    return form.axes_of(files[0]) is not None
