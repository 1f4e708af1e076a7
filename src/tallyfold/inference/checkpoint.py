"""A run saved on its way, and taken up again."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import StorageError
from tallyfold.inference.folder import read_folder, write_folder
from tallyfold.inference.loop import Iteration, Run

KIND = "tallyfold-checkpoint"
VERSION = 1


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
    """

    folder: str | os.PathLike[str]
    model: str
    parameters: dict[str, Any]
    data: str

    def keep(self, run: Run) -> None:
        """Save the run."""
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


def fingerprint(tensor: CountTensor) -> str:
    """Return a checksum of a tensor's cells, counts and axis names."""
    digest = hashlib.sha256(repr((tensor.names, tensor.shape)).encode())
    for array in (*tensor.indices.T, tensor.counts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
