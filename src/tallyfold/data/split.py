"""Parts of a tensor for training and testing. Every part keeps the parent's axes.

A tensor's cells stand in one order whatever the order of the rows it came from, so a split depends
only on the cells and the seed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing
from tallyfold.data.seeds import Seed, generator
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError


class Split(NamedTuple):
    """A tensor's cells in two parts, on the same axes."""

    train: CountTensor
    test: CountTensor


def split(
    tensor: CountTensor,
    test_size: float = 0.2,
    *,
    random_state: Seed = 0,
    groups: npt.ArrayLike | None = None,
) -> Split:
    """Hold out a share of the non-zero cells, at random.

    Parameters
    ----------
    tensor
        What to split.
    test_size
        The share of non-zero cells that go to the test part, between 0 and 1.
    random_state
        A seed, or a NumPy generator.
    groups
        A number for each non-zero cell, such as those of `near_copies`: cells with the same number
        go to the same part. `test_size` then is a share of the groups.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((20, 30, 5), n_components=3, density=0.1).tensor
    >>> train, test = tf.split(tensor, test_size=0.2, random_state=0)
    >>> train.nnz + test.nnz == tensor.nnz, train.axes == tensor.axes
    (True, True)
    """
    if groups is not None:
        return _in_two(
            tensor, drawn_groups(checked_groups(groups, tensor), test_size, random_state)
        )
    return _in_two(tensor, drawn_cells(tensor.nnz, test_size, random_state))


def k_folds(tensor: CountTensor, n_folds: int = 5, *, random_state: Seed = 0) -> list[Split]:
    """Cut the non-zero cells into ``n_folds`` parts, each of which is the test part once.

    Parameters
    ----------
    tensor
        What to split.
    n_folds
        How many parts, at least two.
    random_state
        A seed, or a NumPy generator.
    """
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise ParameterError(f"`n_folds` must be an integer of at least 2; got {n_folds!r}.")
    if n_folds > tensor.nnz:
        raise DataError(f"{tensor.nnz:,} cells cannot be cut into {n_folds:,} folds.")
    fold_N = np.arange(tensor.nnz) % n_folds
    generator(random_state).shuffle(fold_N)
    return [_in_two(tensor, fold_N == fold) for fold in range(n_folds)]


def subsample(tensor: CountTensor, share: float, *, random_state: Seed = 0) -> CountTensor:
    """Keep a share of the non-zero cells, at random, on the same axes.

    Parameters
    ----------
    tensor
        What to thin.
    share
        The share of non-zero cells to keep, above 0 and at most 1.
    random_state
        A seed, or a NumPy generator.
    """
    if share == 1:
        return tensor
    return tensor.with_cells(drawn_cells(tensor.nnz, share, random_state, "share"))


def split_entities(
    tensor: CountTensor, axis: str, test_size: float = 0.2, *, random_state: Seed = 0
) -> Split:
    """Hold out whole entities of one axis: all their cells go to the test part.

    Parameters
    ----------
    tensor
        What to split.
    axis
        The axis whose entities are held out. Only entities with a cell are drawn.
    test_size
        The share of entities that go to the test part, between 0 and 1.
    random_state
        A seed, or a NumPy generator.
    """
    number = tensor.axis_number(axis)
    present = np.flatnonzero(tensor.marginal(axis, "nonzeros"))
    drawn = drawn_cells(len(present), test_size, random_state, what=f"{axis} labels")
    held_out = np.zeros(tensor.shape[number], bool)
    held_out[present[drawn]] = True
    return _in_two(tensor, held_out[tensor.indices[:, number]])


def split_time(tensor: CountTensor, axis: str, *, after: Any) -> Split:
    """Train on what came up to a moment, test on what came after it.

    Parameters
    ----------
    tensor
        What to split.
    axis
        The axis of time. Labels are compared by value: numbers by size, dates by time, text by
        its letters, so that ISO dates come out right.
    after
        The last moment of the training part; it need not be a label itself.

    Examples
    --------
    >>> import tallyfold as tf, pandas as pd
    >>> events = pd.DataFrame({"who": ["ann", "bob", "ann"], "year": [2003, 2004, 2005]})
    >>> tensor = tf.CountTensor.from_frame(events, axes=["who", "year"])
    >>> tf.split_time(tensor, "year", after=2004).test.to_frame()
       who  year  count
    0  ann  2005      1
    """
    labels = tensor.axis(axis).labels
    try:
        later = pc.greater(labels, _comparable(after, labels.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise LabelError(
            f"`after` must be comparable with the labels of axis {axis!r}, which are "
            f"{labels.type} such as {listing(labels[:2].to_pylist())}; got {after!r}."
        ) from error
    is_later = later.to_numpy(zero_copy_only=False)
    parts = _in_two(tensor, is_later[tensor.indices[:, tensor.axis_number(axis)]])
    for name, part in zip(("train", "test"), parts, strict=True):
        if part.nnz == 0:
            raise DataError(
                f"splitting axis {axis!r} after {after!r} leaves the {name} part empty; its labels "
                f"run from {listing([pc.min(labels).as_py()])} to "
                f"{listing([pc.max(labels).as_py()])}."
            )
    return parts


def _comparable(after: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a moment in the type of the labels; a date is the beginning of its day."""
    if after is None:
        raise TypeError("None cannot be compared")
    if pa.types.is_temporal(kind):
        return pa.array(np.array([after]) if isinstance(after, np.generic) else [after])[0].cast(
            kind
        )
    return pa.scalar(after, kind)


def _in_two(tensor: CountTensor, is_test: npt.NDArray[np.bool_]) -> Split:
    return Split(tensor.with_cells(~is_test), tensor.with_cells(is_test))


def drawn_cells(
    number: int, share: float, random_state: Seed, parameter: str = "test_size", what: str = "cells"
) -> npt.NDArray[np.bool_]:
    """Draw a share of `number` cells without replacement, at least one and not all, as a mask."""
    if not isinstance(share, float | int | np.floating) or not 0 < share < 1:
        raise ParameterError(f"`{parameter}` must be between 0 and 1; got {share!r}.")
    if number < 2:
        raise DataError(f"at least two {what} are needed to split; there are {number}.")
    size = min(max(round(number * float(share)), 1), number - 1)
    drawn = np.zeros(number, bool)
    drawn[generator(random_state).permutation(number)[:size]] = True
    return drawn


def drawn_groups(
    groups_N: npt.NDArray[np.int64], share: float, random_state: Seed
) -> npt.NDArray[np.bool_]:
    """Draw a share of the groups; return which cells belong to them."""
    distinct, number_N = np.unique(groups_N, return_inverse=True)
    return drawn_cells(len(distinct), share, random_state, what="groups")[number_N]


def checked_groups(groups: npt.ArrayLike, tensor: CountTensor) -> npt.NDArray[np.int64]:
    """Return a number for each cell; refuse what is none."""
    groups_N = np.asarray(groups)
    if groups_N.shape != (tensor.nnz,) or groups_N.dtype.kind not in "iu":
        raise ParameterError(
            f"`groups` must be a whole number for each of the {tensor.nnz:,} non-zero cells; got "
            f"shape {groups_N.shape} of type {groups_N.dtype}. `near_copies` makes them."
        )
    return groups_N.astype(np.int64)
