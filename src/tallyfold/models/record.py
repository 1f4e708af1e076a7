"""What a model remembers of its fit beside its result: shown, never computed with."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tallyfold.data.fingerprint import cell_sums, labelled_fingerprint
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.distributed.process_group import ProcessGroup
from tallyfold.version import __version__

Scores = Mapping[str, Mapping[str, float | None]]
"""Scores by the model, then by the metric; None where a model has none."""


@dataclass(frozen=True)
class HeldOut:
    """Scores on cells that a fit has not seen.

    Attributes
    ----------
    cells
        How many cells with a count.
    scores
        By model: the model itself, and what it was compared with.
    refitted
        Whether the scores are those of a fit to the other cells alone, and the model is one of all
        cells.
    """

    cells: int
    scores: Scores
    refitted: bool = False

    def __post_init__(self) -> None:
        require_whole(self.cells)
        if type(self.refitted) is not bool:
            raise ValueError("it has a record that cannot be")
        for each in self.scores.values():
            for value in each.values():
                if value is not None and not math.isfinite(value):
                    raise ValueError("it has scores that are no numbers")


@dataclass(frozen=True)
class Record:
    """What a fit was made of, and by what.

    Attributes
    ----------
    data, cells, total
        The fingerprint of the tensor, `CountTensor.fingerprint`; its cells with a count, and their
        sum. An empty text where it is not known.
    versions
        Of tallyfold, NumPy and Python, at the time of the fit.
    held_out
        Scores on held-out cells, if there are any.
    taken_in
        The number of cells that were taken in after the fit.
    updates
        The fingerprints of what was taken in.
    """

    data: str = ""
    cells: int = 0
    total: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    held_out: HeldOut | None = None
    taken_in: int = 0
    updates: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_whole(self.cells, self.total, self.taken_in)
        texts = [self.data, *self.versions, *self.versions.values(), *self.updates]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("it has a record that cannot be")

    @classmethod
    def of(cls, tensor: CountTensor, group: ProcessGroup) -> Record:
        """Return the record of a fit to a tensor, of which each process of a group has a part."""
        sums = group.all_gather(cell_sums(tensor, by_label=True)[None]).sum(axis=0, dtype=np.uint64)
        cells, total = group.all_gather(np.array([[tensor.nnz, tensor.total]])).sum(axis=0).tolist()
        versions = {
            "tallyfold": __version__, "numpy": np.__version__, "python": platform.python_version(),
        }  # fmt: skip
        return cls(labelled_fingerprint(tensor, sums), cells, total, versions)

    def with_update(self, counts: CountTensor, again: bool) -> Record:
        """Return the record with counts that were taken in; refuse those that are in already."""
        found = counts.fingerprint()
        if found in (self.data, *self.updates) and not again:
            raise ParameterError(
                f"these counts were given to this model before (fingerprint {found}): each would "
                "count twice. If they are new events that happen to be the same, again=True takes "
                "them in."
            )
        updates = (*self.updates, found)
        return replace(self, taken_in=self.taken_in + counts.nnz, updates=updates)

    def document(self) -> dict[str, Any]:
        """Return what goes into a model's JSON."""
        return asdict(self)

    @classmethod
    def restored(cls, document: dict[str, Any] | None) -> Record:
        """Build from what `document` returned; of older models nothing is known.

        Raises
        ------
        AttributeError, TypeError, ValueError
            If it cannot be one.
        """
        if document is None:
            return cls()
        held_out, updates = document["held_out"], tuple(document.get("updates", ()))
        held_out = None if held_out is None else HeldOut(**held_out)
        return cls(**document | {"held_out": held_out, "updates": updates})


def require_whole(*numbers: object) -> None:
    """Refuse what is no number of things."""
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("it has a record of numbers that cannot be")
