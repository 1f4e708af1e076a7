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
from tallyfold.inference.folder import read_folder, write_folder
from tallyfold.inference.loop import Iteration, Run, State
from tallyfold.inference.training import TrainingCells
from tallyfold.inference.world import ALONE, World

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
        return self.cells.world.told(lambda: os.path.exists(place))

    def keep(self, run: Run) -> None:
        """Save the run; of several processes the first one does."""
        world = self.cells.world
        whole = _with_cells(run, world.joined)
        world.told(lambda: self._write(whole))

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

    def load(self) -> Run:
        """Read the run back; refuse one of another model, other parameters or other data."""
        return _with_cells(self.cells.world.told(self._read), self._own_part)

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
    return Run(
        parts["state"],
        [Iteration(*record) for record in document["history"]],
        parts["best"] or None,
        -np.inf if score is None else score,
        document["best_iteration"],
    )


def _with_cells(run: Run, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Run:
    """Return a run whose arrays with an entry for each cell are changed."""

    def changed(state: State) -> State:
        return {name: change(a) if name.endswith("_N") else a for name, a in state.items()}

    best = None if run.best is None else changed(run.best)
    return replace(run, state=changed(run.state), best=best)


def fingerprint(tensor: CountTensor, world: World = ALONE) -> str:
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
    cells = world.joined(total[None]).sum(axis=0, dtype=np.uint64)
    return hashlib.sha256(repr((tensor.names, tensor.shape, cells.tolist())).encode()).hexdigest()


def _mixed(number_N: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble numbers (the last steps of SplitMix64); overflow is meant."""
    number_N = number_N + np.uint64(0x9E3779B97F4A7C15)
    number_N = (number_N ^ (number_N >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number_N = (number_N ^ (number_N >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number_N ^ (number_N >> np.uint64(31))
