"""Which cells, zeros included, a part of a tensor holds: rules by label, not by position."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tallyfold.data.axis import Axis
from tallyfold.data.groups import FibreGroups, hash_of_labels
from tallyfold.data.hashing import Hashes, label_texts, mixed
from tallyfold.data.summary import percent

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor

Cells = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class HashRule:
    """Cells whose hash, of their labels and a seed, lies in a range of [0, 1), or does not.

    Attributes
    ----------
    seed
        Another seed gives other cells.
    low, high
        The range; `low` is in it, `high` is not.
    inside
        Whether the cells are those in the range, or all others.
    groups
        Fibres whose cells have the hash of one of them, so that copies are not torn apart.

    Examples
    --------
    >>> rule = HashRule(seed=3, low=0.0, high=0.2)
    >>> cells = np.stack(np.unravel_index(np.arange(400), (20, 20)), axis=1)
    >>> axes = [Axis.numbered("user", 20), Axis.numbered("item", 20)]
    >>> int(rule.contains(axes, cells).sum())  # about a fifth
    72
    """

    seed: int
    low: float
    high: float
    inside: bool = True
    groups: FibreGroups | None = None

    @property
    def width(self) -> float:
        """The share of all cells that it holds."""
        return self.high - self.low if self.inside else 1 - (self.high - self.low)

    def contains(self, axes: Sequence[Axis], indices_NM: Cells) -> Mask:
        """Return whether each cell is one of its."""
        number_N = self._hashes(axes, indices_NM) >> np.uint64(11)
        at_N = number_N.astype(np.float64) * 2.0**-53
        return np.asarray(((at_N >= self.low) & (at_N < self.high)) == self.inside)

    def _hashes(self, axes: Sequence[Axis], indices_NM: Cells) -> Hashes:
        seed = mixed(np.array([self.seed], np.uint64))[0]
        if self.groups is not None:
            return self.groups.hashes(axes, indices_NM, seed)
        return hash_of_labels(axes, indices_NM, np.full(len(indices_NM), seed))

    def document(self) -> dict[str, Any]:
        """Return what JSON can keep."""
        groups = self.groups and self.groups.document()
        return {"kind": "hash"} | self.__dict__ | {"groups": groups}


@dataclass(frozen=True)
class LabelRule:
    """Cells with certain labels on an axis, or without them.

    Attributes
    ----------
    labels
        The axis's name and those labels, as text.
    keep
        Whether the cells are those with these labels, or all others.
    """

    labels: Axis
    keep: bool

    @classmethod
    def of(cls, axis: Axis, chosen_D: Mask, *, keep: bool) -> LabelRule:
        """Make a rule of some labels of an axis."""
        texts = label_texts(axis.take(np.flatnonzero(chosen_D)).labels)
        return cls(Axis.of_distinct(axis.name, texts), keep)

    @property
    def axis(self) -> str:
        """The axis's name."""
        return self.labels.name

    def allows(self, axis: Axis) -> Mask:
        """Return which labels of the axis cells may have."""
        chosen = pc.is_in(label_texts(axis.labels), value_set=self.labels.labels)
        return np.asarray(chosen.to_numpy(zero_copy_only=False) == self.keep)

    def contains(self, axes: Sequence[Axis], indices_NM: Cells) -> Mask:
        """Return whether each cell is one of its."""
        number = [axis.name for axis in axes].index(self.axis)
        return self.allows(axes[number])[indices_NM[:, number]]

    def document(self) -> dict[str, Any]:
        """Return what JSON can keep."""
        labels = self.labels.labels.to_pylist()
        return {"kind": "labels", "axis": self.axis, "labels": labels, "keep": self.keep}


Rule = HashRule | LabelRule


@dataclass(frozen=True)
class Part:
    """Which cells of a whole, zeros included, a tensor holds: those for which all rules hold.

    Attributes
    ----------
    rules
        By hash (`HashRule`) or by label (`LabelRule`).
    fixed
        Axes that were taken away by selecting one label, with that label as text.
    whole
        The tensor that was split, if it is known.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.load_demo(), 0.2, cells="all")
    >>> round(train.part.share, 2), round(test.part.share, 2)
    (0.8, 0.2)
    >>> bool(train.part.contains(train.axes, test.indices).any())
    False
    """

    rules: tuple[Rule, ...]
    fixed: tuple[Axis, ...] = ()
    whole: CountTensor | None = field(default=None, compare=False, repr=False)

    @property
    def share(self) -> float:
        """The share of all cells that the rules by hash leave; rules by label do not count."""
        widths = [rule.width for rule in self.rules if isinstance(rule, HashRule)]
        return float(np.prod(widths))

    @property
    def n_hash_rules(self) -> int:
        """How many of the rules are by hash."""
        return sum(isinstance(rule, HashRule) for rule in self.rules)

    def contains(self, axes: Sequence[Axis], indices_NM: Cells) -> Mask:
        """Return whether each cell, by its positions on the axes, is in the part."""
        indices_NM = np.asarray(indices_NM)
        fixed_NF = np.zeros((len(indices_NM), len(self.fixed)), np.int32)
        all_NM = np.hstack([indices_NM, fixed_NF]) if self.fixed else indices_NM
        inside_N = np.ones(len(indices_NM), bool)
        for rule in self.rules:
            inside_N &= rule.contains([*axes, *self.fixed], all_NM)
        return inside_N

    def allowed(self, axes: Sequence[Axis]) -> list[Mask]:
        """Return, for each axis, the labels that the rules by label leave."""
        allowed = [np.ones(len(axis), bool) for axis in axes]
        for rule in self.rules:
            for axis, allowed_D in zip(axes, allowed, strict=True):
                if isinstance(rule, LabelRule) and rule.axis == axis.name:
                    allowed_D &= rule.allows(axis)
        return allowed

    def known(self, axes: Sequence[Axis]) -> npt.NDArray[np.int32] | None:
        """Return the positions, on these axes, of the whole's non-zero cells, if it is known."""
        if self.whole is None or {a.name for a in (*axes, *self.fixed)} != set(self.whole.names):
            return None
        if self.whole.axes == tuple(axes):
            return self.whole.indices
        keep_N, columns = np.ones(self.whole.nnz, bool), []
        for axis in (*axes, *self.fixed):
            number = self.whole.axis_number(axis.name)
            column_N = _places(self.whole.axes[number], axis)[self.whole.indices[:, number]]
            keep_N &= column_N >= 0
            columns.append(column_N)
        return np.stack([column_N[keep_N] for column_N in columns[: len(axes)]], axis=1)

    def with_fixed(self, axis: Axis) -> Part:
        """Return the part on axes of which this one, with one label, was taken away."""
        return replace(self, fixed=(*self.fixed, Axis(axis.name, label_texts(axis.labels))))

    def words(self) -> str:
        """Describe the rules in a few words."""
        told = [percent(self.share)] if self.n_hash_rules else []
        for rule in self.rules:
            if isinstance(rule, LabelRule):
                sign = "" if rule.keep else "without "
                told.append(f"{sign}{len(rule.labels):,} of {rule.axis}")
        return f"part of all cells: {', '.join(told)}"

    def to_text(self) -> str:
        """Return the rules as JSON; the whole is not kept."""
        fixed = [[axis.name, axis.labels.to_pylist()] for axis in self.fixed]
        return json.dumps({"rules": [rule.document() for rule in self.rules], "fixed": fixed})

    @classmethod
    def from_text(cls, text: str) -> Part:
        """Build from what `to_text` returned."""
        document = json.loads(text)
        rules = tuple(_rule(dict(rule)) for rule in document["rules"])
        return cls(rules, tuple(Axis(name, labels) for name, labels in document["fixed"]))


def with_rule(tensor: CountTensor, rule: Rule) -> Part:
    """Return the part of a tensor, which may be a part itself, for which one more rule holds."""
    before = tensor.part
    if before is None:
        return Part((rule,), whole=tensor)
    return Part((*before.rules, rule), before.fixed, tensor)


def _places(axis: Axis, target: Axis) -> npt.NDArray[np.int32]:
    """Return where the labels of an axis stand on another; -1 where they do not."""
    places = pc.index_in(label_texts(axis.labels), value_set=label_texts(target.labels))
    return np.asarray(pc.fill_null(places, -1).to_numpy(zero_copy_only=False), np.int32)


def _rule(document: dict[str, Any]) -> Rule:
    kind = document.pop("kind")
    if kind == "labels":
        return LabelRule(Axis(document["axis"], document["labels"]), bool(document["keep"]))
    if kind != "hash":
        raise ValueError(f"{kind!r} as a kind of rule")
    groups = document["groups"] and FibreGroups.of_document(document["groups"])
    return HashRule(**document | {"groups": groups})
