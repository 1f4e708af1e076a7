"""Which cells are held out to score a model: those with a count, or all, as its zeros ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tallyfold.data.split import Hidden
from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel


def zeros_of(models: Iterable[CountModel], tensor: CountTensor) -> Literal["missing", "observed"]:
    """Return ``"observed"`` if cells without an entry are zeros to any of the models."""
    observed = any(model.zeros_for(tensor) == "observed" for model in models)
    return "observed" if observed else "missing"


def hidden_from(models: Iterable[CountModel], tensor: CountTensor) -> Hidden:
    """Return which cells of a tensor `split` is to hold out to compare models.

    If zeros are observed by any of them, a share of all cells, so that no hidden cell is taught as
    a zero; a model whose zeros are missing fits and predicts cells with a count all the same.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.load_demo()
    >>> hidden_from([tf.BPTF(zeros="missing"), tf.BPTF(zeros="observed")], tensor)
    'all'
    """
    return "all" if zeros_of(models, tensor) == "observed" else "nonzero"
