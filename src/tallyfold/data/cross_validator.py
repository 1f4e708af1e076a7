"""Folds of a tensor's cells as scikit-learn's searches want them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.part import Part
from tallyfold.data.seeds import Seed
from tallyfold.data.split import Hidden, Split, k_folds
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError

FOLD = -7_305_119_822
"""What the numbers of a fold begin with; no row has this number."""

Numbers = npt.NDArray[np.int64]


def numbers_of(part: CountTensor, tensor: CountTensor) -> Numbers:
    """Return a part of a tensor as integers: scikit-learn hands on nothing else.

    They hold the size of the tensor, the text that says which of all cells, empty ones too, are in
    the part, and the positions of those with a count.
    """
    text = b"" if part.part is None else part.part.to_text().encode()
    both = np.concatenate([tensor.indices, part.indices])
    positions_N = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)[tensor.nnz :]
    head = np.array([FOLD, tensor.nnz, len(text), *text], np.int64)
    return np.concatenate([head, positions_N.astype(np.int64)])


def part_of(tensor: CountTensor, key: Any) -> CountTensor:
    """Return the part of a tensor that `numbers_of` has made a key of; refuse any other key."""
    key = key[0] if isinstance(key, tuple) and len(key) == 2 and key[1] is ... else key
    numbers = key if isinstance(key, np.ndarray) else np.empty(0)
    if numbers.ndim != 1 or len(numbers) < 3 or numbers[0] != FOLD or numbers[1] != tensor.nnz:
        raise ParameterError(
            "a tensor is not taken apart by numbers. Choose labels with sel(axis=[...]), cells "
            "with split or with_cells, and in scikit-learn's searches cv=tf.cross_validator(5)."
        )
    end = 3 + int(numbers[2])
    text = bytes(numbers[3:end].tolist()).decode()
    return tensor.with_cells(numbers[end:], Part.from_text(text) if text else None)


class cross_validator:
    """Folds for scikit-learn: what ``cv=`` of `GridSearchCV` and the like takes.

    Parameters
    ----------
    folds
        How many parts the cells are cut into, or pairs of a training and a test part of your own,
        such as ``[tf.split_time(tensor, "year", after=2004)]``.
    cells
        Cut all cells, empty ones too, or those with a count; see `split`. Has no effect on parts
        of your own.
    random_state
        A seed; None draws other folds each time.

    Examples
    --------
    >>> import tallyfold as tf
    >>> from sklearn.model_selection import GridSearchCV
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> grid = {"n_components": [1, 2]}
    >>> search = GridSearchCV(tf.BPTF(), grid, cv=tf.cross_validator(3)).fit(tensor)
    >>> search.best_params_
    {'n_components': 2}
    """

    def __init__(
        self, folds: int | Sequence[Split] = 5, *, cells: Hidden = "all", random_state: Seed = 0
    ) -> None:
        self.folds, self.cells, self.random_state = folds, cells, random_state

    def split(
        self, tensor: CountTensor, y: object = None, groups: object = None
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the training and the test part of each fold."""
        if not isinstance(tensor, CountTensor):
            raise ParameterError(
                f"cross_validator splits a CountTensor; got {type(tensor).__name__}. Make one "
                "with CountTensor.from_frame."
            )
        if y is not None or groups is not None:
            raise ParameterError(
                "a tensor has neither `y` nor `groups` here; to hold out copies together, give "
                "folds=[tf.split(tensor, groups=tf.near_copies(tensor, axis))]."
            )
        for train, test in self._parts(tensor):
            if train.axes != tensor.axes or test.axes != tensor.axes:
                raise DataError("`folds` must be parts of the tensor that is split; axes differ.")
            yield numbers_of(train, tensor), numbers_of(test, tensor)

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of folds."""
        return len(self.folds) if isinstance(self.folds, Sequence) else self.folds

    def _parts(self, tensor: CountTensor) -> Sequence[Split]:
        if isinstance(self.folds, Sequence):
            return self.folds
        return k_folds(tensor, self.folds, cells=self.cells, random_state=self.random_state)
