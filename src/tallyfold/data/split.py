"""Parts of a tensor for training and testing. Every part keeps the parent's axes.

A tensor's cells stand in one order whatever the order of the rows it came from, so a split depends
only on the cells and the seed. With ``cells="all"`` it depends, cell by cell, on the labels and the
seed alone: empty cells are hidden as well, and parts know which.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing
from tallyfold.data.groups import CellGroups
from tallyfold.data.hashing import mixed
from tallyfold.data.markup import tensor_html
from tallyfold.data.part import HashRule, LabelRule, Part, Rule, with_rule
from tallyfold.data.seeds import Seed, generator
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError

Hidden = Literal["nonzero", "all"]


class Split(NamedTuple):
    """A tensor's cells in two parts, on the same axes."""

    train: CountTensor
    test: CountTensor

    def _repr_html_(self) -> str:
        return tensor_html(self.train, "train") + tensor_html(self.test, "test")


def split(
    tensor: CountTensor,
    test_size: float = 0.2,
    *,
    cells: Hidden = "nonzero",
    random_state: Seed = 0,
    groups: npt.ArrayLike | CellGroups | None = None,
) -> Split:
    """Hold out a share of the cells, at random.

    Parameters
    ----------
    tensor
        What to split.
    test_size
        The share of cells that go to the test part, between 0 and 1.
    cells
        ``"nonzero"`` draws among the cells with a count: for models that take the others as
        missing. ``"all"`` hides a share of all cells, empty ones too: for models whose zeros are
        observed, which then take no hidden cell for a zero; `score` counts the hidden zeros.
    random_state
        A seed, a NumPy generator, or None for a fresh one.
    groups
        A number for each non-zero cell, such as those of `near_copies`: cells with the same number
        go to the same part. `test_size` then is a share of the groups. With ``cells="all"`` it must
        be what `near_copies` returned: that knows the groups of empty cells.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((20, 30, 5), n_components=3, density=0.1).tensor
    >>> train, test = tf.split(tensor, test_size=0.2, random_state=0)
    >>> train.nnz + test.nnz == tensor.nnz, train.axes == tensor.axes
    (True, True)
    >>> train, test = tf.split(tensor, test_size=0.2, cells="all")
    >>> bool(train.part.contains(train.axes, [[0, 0, 0]]) ^ test.part.contains(test.axes, [[0, 0, 0]]))
    True
    """  # noqa: E501
    if _hides_all(cells):
        _check_share(test_size, "test_size")
        parts = split_cells(tensor, 0.0, float(test_size), random_state, groups)
        return _with_counts_in_both(parts, tensor, f"a share of {test_size:g}")
    if groups is not None:
        drawn_N = drawn_groups(checked_groups(groups, tensor), test_size, random_state)
        return _in_two(tensor, drawn_N)
    return _in_two(tensor, drawn_cells(tensor.nnz, test_size, random_state))


def k_folds(
    tensor: CountTensor,
    n_folds: int = 5,
    *,
    cells: Hidden = "nonzero",
    random_state: Seed = 0,
    groups: npt.ArrayLike | CellGroups | None = None,
) -> list[Split]:
    """Cut the cells into ``n_folds`` parts, each of which is the test part once.

    Parameters
    ----------
    tensor
        What to split.
    n_folds
        How many parts, at least two.
    cells
        Cut the cells with a count, or all; see `split`.
    random_state
        A seed, a NumPy generator, or None for a fresh one.
    groups
        Cells with the same number are in the same fold; see `split`.
    """
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise ParameterError(f"`n_folds` must be an integer of at least 2; got {n_folds!r}.")
    if n_folds > tensor.nnz:
        raise DataError(f"{tensor.nnz:,} cells cannot be cut into {n_folds:,} folds.")
    if _hides_all(cells):
        seed = int(generator(random_state).integers(2**62))
        ends = pairwise(fold / n_folds for fold in range(n_folds + 1))
        folds = [split_cells(tensor, low, high, seed, groups) for low, high in ends]
        return [_with_counts_in_both(fold, tensor, f"1 of {n_folds} folds") for fold in folds]
    group_N = np.arange(tensor.nnz)
    if groups is not None:
        distinct, group_N = np.unique(checked_groups(groups, tensor), return_inverse=True)
        if n_folds > len(distinct):
            raise DataError(f"{len(distinct):,} groups cannot be cut into {n_folds:,} folds.")
    fold_G = np.arange(group_N.max() + 1) % n_folds
    generator(random_state).shuffle(fold_G)
    fold_N = fold_G[group_N]
    return [_in_two(tensor, fold_N == fold) for fold in range(n_folds)]


def subsample(
    tensor: CountTensor, share: float, *, cells: Hidden = "nonzero", random_state: Seed = 0
) -> CountTensor:
    """Keep a share of the cells, at random, on the same axes.

    Parameters
    ----------
    tensor
        What to thin.
    share
        The share of cells to keep, above 0 and at most 1.
    cells
        Draw among the cells with a count, or among all; see `split`.
    random_state
        A seed, a NumPy generator, or None for a fresh one.
    """
    if share == 1:
        return tensor
    if _hides_all(cells):
        _check_share(share, "share")
        kept = split_cells(tensor, 0.0, float(share), random_state)
        return _with_counts_in_both(kept, tensor, f"a share of {share:g}").test
    return tensor.with_cells(drawn_cells(tensor.nnz, share, random_state, "share"))


def split_cells(
    tensor: CountTensor,
    low: float,
    high: float,
    random_state: Seed,
    groups: npt.ArrayLike | CellGroups | None = None,
) -> Split:
    """Hide the cells, empty ones too, whose hash lies from `low` to `high` in [0, 1).

    Nothing is drawn: any process that has the cell, and any later one, hides it too. A split of a
    part with the same seed is another one. A part may be without a non-zero cell.
    """
    if groups is not None and not isinstance(groups, CellGroups):
        raise ParameterError(
            f"with cells='all', `groups` must be those that near_copies returned, which know the "
            f"group of any cell; got {type(groups).__name__}. Give those, or use cells='nonzero'."
        )
    before = 0 if tensor.part is None else tensor.part.n_hash_rules
    drawn = int(generator(random_state).integers(2**62))
    seed = int(mixed(np.array([drawn + before], np.uint64))[0])
    rule = HashRule(seed, low, high, groups=None if groups is None else groups.fibres)
    return _by_rule(tensor, rule, replace(rule, inside=False))


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
        A seed, a NumPy generator, or None for a fresh one.
    """
    number = tensor.axis_number(axis)
    present = np.flatnonzero(tensor.marginal(axis, "nonzeros"))
    drawn = drawn_cells(len(present), test_size, random_state, what=f"{axis} labels")
    held_out_D = np.zeros(tensor.shape[number], bool)
    held_out_D[present[drawn]] = True
    return _by_labels(tensor, axis, held_out_D)


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
    parts = _by_labels(tensor, axis, is_later)
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
    """Split the non-zero cells; what was hidden from the whole still is from the train part."""
    return Split(tensor.with_cells(~is_test, tensor.part), tensor.with_cells(is_test))


def _by_labels(tensor: CountTensor, axis: str, is_test_D: npt.NDArray[np.bool_]) -> Split:
    one = LabelRule.of(tensor.axis(axis), is_test_D, keep=True)
    return _by_rule(tensor, one, replace(one, keep=False))


def _by_rule(tensor: CountTensor, test: Rule, train: Rule) -> Split:
    """Split by a rule and its opposite."""
    fixed = () if tensor.part is None else tensor.part.fixed
    is_test_N = Part((test,), fixed).contains(tensor.axes, tensor.indices)
    return Split(
        tensor.with_cells(~is_test_N, with_rule(tensor, train)),
        tensor.with_cells(is_test_N, with_rule(tensor, test)),
    )


def _hides_all(cells: Hidden) -> bool:
    if cells not in ("nonzero", "all"):
        raise ParameterError(f"`cells` must be 'nonzero' or 'all'; got {cells!r}.")
    return cells == "all"


def _with_counts_in_both(parts: Split, tensor: CountTensor, share: str) -> Split:
    if min(parts.train.nnz, parts.test.nnz) > 0:
        return parts
    name = "train" if parts.train.nnz == 0 else "test"
    raise DataError(
        f"{share} of all cells leaves the {name} part without a cell that has a count: the tensor "
        f"has {tensor.nnz:,} such cells. Choose another share or random_state, or "
        "cells='nonzero', which draws among those."
    )


def _check_share(share: float, parameter: str) -> None:
    if not isinstance(share, float | int | np.floating) or not 0 < share < 1:
        raise ParameterError(f"`{parameter}` must be between 0 and 1; got {share!r}.")


def drawn_cells(
    number: int, share: float, random_state: Seed, parameter: str = "test_size", what: str = "cells"
) -> npt.NDArray[np.bool_]:
    """Draw a share of `number` cells without replacement, at least one and not all, as a mask."""
    _check_share(share, parameter)
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


def checked_groups(
    groups: npt.ArrayLike | CellGroups, tensor: CountTensor
) -> npt.NDArray[np.int64]:
    """Return a number for each cell; refuse what is none."""
    groups_N = np.asarray(groups)
    if groups_N.shape != (tensor.nnz,) or groups_N.dtype.kind not in "iu":
        raise ParameterError(
            f"`groups` must be a whole number for each of the {tensor.nnz:,} non-zero cells; got "
            f"shape {groups_N.shape} of type {groups_N.dtype}. `near_copies` makes them."
        )
    return groups_N.astype(np.int64)
