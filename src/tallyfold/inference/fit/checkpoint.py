"""A run saved on its way, and taken up again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import StorageError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.inference.fit.folder import read_folder, write_folder
from tallyfold.inference.fit.loop import Iteration, Run, State

KIND = "tallyfold-checkpoint"
CELLS_AT_ONCE = 1 << 20
VERSION = 2


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
        The cells: of a state's arrays with an entry for each, several processes put their parts
        together to save them, and take them apart again.
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

    def keep(self, run: Run) -> None:
        """Save the run; of several processes the first one does."""
        group = self.cells.group
        whole = _with_cells(run, group.all_gather)
        group.broadcast(lambda: self._write(whole))

    def _write(self, run: Run) -> None:
        document = self._identity() | {
            "format": KIND,
            "version": VERSION,
            "history": [list(iteration) for iteration in run.history],
            "best_iteration": run.best_iteration,
            "best_score": run.best_score if run.best is not None else None,
        }
        arrays = {f"state/{name}": array for name, array in run.state.items()}
        if run.best is not None:
            arrays |= {f"best/{name}": array for name, array in run.best.items()}
        write_folder(self.folder, document, arrays)

    def load(self, start: State) -> Run:
        """Read the run back; refuse one of another model, other parameters or other data.

        `start` is the state that such a run starts with: arrays must have these names and shapes.
        """
        run = _with_cells(self.cells.group.broadcast(self._read), self._own_part)
        for state in (run.state, run.best or run.state):
            bad = [name for name, array in start.items() if not _alike(state.get(name), array)]
            if bad:
                raise StorageError(
                    f"{str(self.folder)!r} is damaged: {', '.join(bad)} cannot be of this fit."
                )
        return run

    def _own_part(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array[self.cells.first : self.cells.first + len(self.cells)]

    def _read(self) -> Run:
        document, arrays = read_folder(self.folder, KIND, VERSION)
        for key, wanted in self._identity().items():
            if document.get(key) != wanted:
                raise StorageError(
                    f"the checkpoint in {str(self.folder)!r} is of another fit: its {key} differ. "
                    f"It has {document.get(key)!r}; this fit has {wanted!r}. Resume with the same, "
                    "or start afresh in another folder."
                )
        try:
            return _run(document, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{str(self.folder)!r} is damaged: {error!r}") from error

    def _identity(self) -> dict[str, Any]:
        return {"model": self.model, "parameters": self.parameters, "data": self.data}


def _run(document: dict[str, Any], arrays: dict[str, Any]) -> Run:
    parts: dict[str, dict[str, Any]] = {"state": {}, "best": {}}
    for name, array in arrays.items():
        part, _, key = name.partition("/")
        parts[part][key] = array
    score = document["best_score"]
    history = [Iteration(*record) for record in document["history"]]
    run = Run(
        parts["state"],
        history,
        parts["best"] or None,
        -np.inf if score is None else score,
        document["best_iteration"],
    )
    _refuse_unsound(run)
    return run


def _refuse_unsound(run: Run) -> None:
    """Refuse, with a ValueError, a run that cannot be one, whatever its checksum says."""
    bad = [name for name, a in run.state.items() if a.dtype.kind not in "biuf"]
    bad += [name for name, a in run.state.items() if not (name in bad or np.all(np.isfinite(a)))]
    for name, array in (run.best or {}).items():
        fits = array.dtype == run.state.get(name, array).dtype and array.dtype.kind in "biuf"
        if not fits or not np.all(np.isfinite(array)):
            bad.append(name)
    if bad:
        raise ValueError(f"the values of {', '.join(bad)}")
    for number, each in enumerate(run.history, start=1):
        numbers = [each.objective, each.seconds, each.validation or 0.0]
        if each.number != number or not all(type(n) in (int, float) for n in numbers):
            raise ValueError(f"what is said of iteration {number}")
    chosen = type(run.best_iteration) is int and 0 <= run.best_iteration <= len(run.history)
    if not chosen or not isinstance(run.best_score, int | float) or not run.state:
        raise ValueError("its best iteration")


def _alike(array: npt.NDArray[Any] | None, first: npt.NDArray[Any]) -> bool:
    """Tell whether an array may have become of one that a run started with; empty ones grow."""
    if array is None or array.dtype != first.dtype or array.ndim != first.ndim:
        return False
    grows = first.ndim > 0 and len(first) == 0
    return array.shape[grows:] == first.shape[grows:]


def _with_cells(run: Run, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Run:
    """Return a run whose arrays with an entry for each cell are changed."""

    def changed(state: State) -> State:
        return {name: change(a) if name.endswith("_N") else a for name, a in state.items()}

    best = None if run.best is None else changed(run.best)
    return replace(run, state=changed(run.state), best=best)


def fingerprint(tensor: CountTensor, group: ProcessGroup = ALONE) -> str:
    """Return a checksum of a tensor's axis names, cells and counts.

    Each cell is hashed by itself and the hashes are added up, so that it does not matter which
    process has which cells.
    """
    total = np.zeros(2, dtype=np.uint64)
    for start in range(0, tensor.nnz, CELLS_AT_ONCE):
        part = slice(start, start + CELLS_AT_ONCE)
        hash_N = _mixed(tensor.counts[part].astype(np.uint64))
        for m in range(tensor.indices.shape[1]):
            hash_N = _mixed(hash_N ^ tensor.indices[part, m].astype(np.uint64))
        total += np.array([hash_N.sum(), _mixed(hash_N).sum()], dtype=np.uint64)
    cells = group.all_gather(total[None]).sum(axis=0, dtype=np.uint64)
    return hashlib.sha256(repr((tensor.names, tensor.shape, cells.tolist())).encode()).hexdigest()


def _mixed(number_N: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble numbers (the last steps of SplitMix64); overflow is meant."""
    number_N = number_N + np.uint64(0x9E3779B97F4A7C15)
    number_N = (number_N ^ (number_N >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number_N = (number_N ^ (number_N >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number_N ^ (number_N >> np.uint64(31))
