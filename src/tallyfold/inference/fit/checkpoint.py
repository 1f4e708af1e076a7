"""A run saved on its way, and taken up again."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tallyfold.data.fingerprint import cell_sums
from tallyfold.data.locks import locked_folder
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import StorageError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.own_ranges import all_or_none
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.inference.fit.folder import read_folder, refuse_foreign, write_folder
from tallyfold.inference.fit.large_files import seen_by_all
from tallyfold.inference.fit.loop import Best, Iteration, Phase, Run
from tallyfold.inference.fit.parts import (
    Part,
    is_own,
    own_entries,
    read_parts,
    remove_parts,
    write_parts,
)
from tallyfold.inference.fit.state_arrays import from_arrays, to_arrays
from tallyfold.kernels.arrays import Array, Ints
from tallyfold.posterior.named_arrays import Arrays, part_of

KIND = "tallyfold-checkpoint"
VERSION, OLDEST = 4, 3


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept, and what it is a run of.

    Attributes
    ----------
    folder
        Where to keep it.
    model, parameters
        What is fitted.
    data
        A fingerprint of what it is fitted to.
    cells
        The cells: what a state has of these alone, and of labels that live with them, each of
        several processes saves by itself, if all see the folder; else the first one saves all.
    """

    folder: str | os.PathLike[str]
    model: str
    parameters: dict[str, Any]
    data: str
    cells: TrainingCells

    def exists(self) -> bool:
        """Tell whether a run is saved there."""
        place = os.path.join(self.folder, "model.json")
        return self.cells.group.broadcast(lambda: os.path.exists(place))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from saving there; of several processes the first one does."""
        with ExitStack() as stack:

            def begin() -> None:
                stack.enter_context(locked_folder(self.folder))
                refuse_foreign(self.folder, KIND)

            self.cells.group.broadcast(begin)
            yield

    @cached_property
    def _seen_by_all(self) -> bool:
        """Whether all processes see the folder."""
        return seen_by_all(Path(self.folder), self.cells.group)

    def keep(self, run: Run) -> None:
        """Save the run: what all processes have, the first one does."""
        group, cells, place = self.cells.group, self.cells, Path(self.folder)
        arrays = {f"state/{name}": array for name, array in to_arrays(run.state).items()}
        if run.best is not None:
            arrays |= {f"best/{name}": array for name, array in to_arrays(run.best.state).items()}
        own = {name: array for name, array in arrays.items() if is_own(name, cells)}
        stamp, parts = "", []
        if own and self._seen_by_all:
            stamp = group.broadcast(lambda: secrets.token_hex(6))
            parts = write_parts(place, stamp, own, cells)
            arrays = {name: array for name, array in arrays.items() if name not in own}
        elif own:
            arrays |= {name: group.all_gather(array) for name, array in own.items()}

        def write() -> None:
            write_folder(place, self._document(run, parts), arrays)
            remove_parts(place, keep=frozenset(part.file for part in parts))

        try:
            group.broadcast(write)
        except StorageError:
            if parts and group.first:
                remove_parts(place, stamp)
            raise

    def _document(self, run: Run, parts: Sequence[Part]) -> dict[str, Any]:
        own = self.cells.own_rows
        best = run.best
        return self._identity() | {
            "format": KIND,
            "version": VERSION,
            "phase": run.phase,
            "before": run.before,
            "history": [list(iteration) for iteration in run.history],
            "best": best and [best.score, best.iteration, best.phase],
            "parts": [list(part) for part in parts],
            "parts_axis": None if own is None else own.axis,
        }

    def load(self, phases: Sequence[Phase]) -> Run:
        """Read the run back; refuse one of another model, other parameters or other data."""
        group, cells = self.cells.group, self.cells
        document, arrays = group.broadcast(self._read)
        arrays = {name: own_entries(name, array, cells) for name, array in arrays.items()}
        try:
            arrays |= all_or_none(group, lambda: read_parts(Path(self.folder), document, cells))
            return _run(document, arrays, phases)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise StorageError(f"{str(self.folder)!r} is damaged: {error!r}") from error

    def _read(self) -> tuple[dict[str, Any], Arrays]:
        document, arrays = read_folder(self.folder, KIND, VERSION, oldest=OLDEST)
        for key, wanted in self._identity().items():
            if document.get(key) != wanted:
                raise StorageError(
                    f"the checkpoint in {str(self.folder)!r} is of another fit: its {key} differ. "
                    f"It has {document.get(key)!r}; this fit has {wanted!r}. Resume with the same, "
                    "or start afresh in another folder."
                )
        return document, arrays

    def _identity(self) -> dict[str, Any]:
        return {"model": self.model, "parameters": self.parameters, "data": self.data}


def kept_seed(folder: str | os.PathLike[str]) -> int | None:
    """Return the seed of the run that is saved in a folder, or of its first member.

    None if there is none.
    """
    for place in (Path(folder), Path(folder, "member-0")):
        if (place / "model.json").exists():
            document, _ = read_folder(place, KIND, VERSION, oldest=OLDEST)
            seed = document["parameters"].get("random_state")
            return seed if type(seed) is int and seed >= 0 else None
    return None


def _run(document: dict[str, Any], arrays: Arrays, phases: Sequence[Phase]) -> Run:
    """Build a run; raise a ValueError if it cannot be one, whatever its checksum says."""
    _refuse_unsound(arrays)
    history = [Iteration(*record) for record in document["history"]]
    for number, each in enumerate(history, start=1):
        scores = [] if each.validation is None else [each.validation]
        numbers = [each.objective, each.seconds, *scores]
        if each.number != number or not all(type(n) in (int, float) for n in numbers):
            raise ValueError(f"the record of iteration {number}")
    run = Run(None, _index(document["phase"], len(phases)), history)
    run.before = _index(document["before"], len(history) + 1)
    run.state = _state("state/", run.phase, arrays, phases)
    if document["best"] is not None:
        score, iteration, phase = document["best"]
        state = _state("best/", _index(phase, run.phase + 1), arrays, phases)
        run.best = Best(state, float(score), _index(iteration, len(history) + 1), phase)
    return run


def _state(prefix: str, phase: int, arrays: Arrays, phases: Sequence[Phase]) -> Any:
    """Build a phase's state; arrays must have the names and shapes that it begins with."""
    own = part_of(arrays, prefix)
    first = phases[0].begun(None, own)
    for later in phases[1 : phase + 1]:
        first = later.begun(first, own)
    bad = [name for name, array in to_arrays(first).items() if not _alike(own.get(name), array)]
    if bad:
        raise ValueError(f"{', '.join(bad)} cannot be of this fit")
    return from_arrays(first, own)


def _index(value: object, length: int) -> int:
    if type(value) is not int or not 0 <= value < length:
        raise ValueError(f"{value!r} as the number of a phase or an iteration")
    return value


def _refuse_unsound(arrays: Arrays) -> None:
    bad = [name for name, array in arrays.items() if array.dtype.kind not in "biuf"]
    bad += [n for n, array in arrays.items() if not (n in bad or np.all(np.isfinite(array)))]
    if bad:
        raise ValueError(f"the values of {', '.join(bad)}")


def _alike(array: Array | None, first: Array) -> bool:
    """Return whether an array may come from one that a run began with; empty ones grow."""
    if array is None:
        return first.ndim == 0  # a number that may be None
    if array.dtype != first.dtype or array.ndim != first.ndim:
        return False
    grows = first.ndim > 0 and len(first) == 0
    return array.shape[grows:] == first.shape[grows:]


def fingerprint(
    tensor: CountTensor, group: ProcessGroup = ALONE, groups_N: Ints | None = None
) -> str:
    """Return a checksum of a tensor's axis names, cells, counts and part, and of groups of cells.

    Each cell is hashed by itself and the hashes are added up, so that it does not matter which
    process has which cells.
    """
    total = cell_sums(tensor, by_label=False)
    cells = group.all_gather(total[None]).sum(axis=0, dtype=np.uint64)
    facts = repr((tensor.names, tensor.shape, cells.tolist()))
    facts += "" if tensor.part is None else tensor.part.to_text()
    groups = b"" if groups_N is None else groups_N.tobytes()
    return hashlib.sha256(facts.encode() + groups).hexdigest()
