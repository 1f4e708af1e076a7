"""What empty cells are to models that are scored together, and which cells are then held out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from tallyfold.data.split import Hidden
from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel
from tallyfold.models.complete_logs import say_zeros

WORDS = ("missing", "observed")

_log = logging.getLogger("tallyfold")


def with_decided_zeros(
    models: Mapping[str, CountModel], tensor: CountTensor
) -> dict[str, CountModel]:
    """Return the models, copies of those with ``zeros="auto"`` among them, and say what these take.

    They take what all others have, so that one treatment of empty cells is compared; and what the
    tensor's counts look like, all of them the same, if there are no others or these differ.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> models = {"bptf": tf.BPTF(zeros="missing"), "vae-bptf": tf.VAEBPTF()}
    >>> with_decided_zeros(models, tensor)["vae-bptf"].zeros
    'missing'
    """
    undecided = {n: m for n, m in models.items() if m.get_params()["zeros"] == "auto"}
    if not undecided:
        return dict(models)
    others = {m.zeros_for(tensor) for name, m in models.items() if name not in undecided}
    zeros = others.pop() if len(others) == 1 else None
    if zeros in WORDS:
        _say(
            f"zeros='auto': {', '.join(undecided)} is compared with models whose zeros are {zeros},"
            " and takes them so, too."
        )
    else:
        looks = {model.zeros_for(tensor) for model in undecided.values()}
        zeros = "missing" if "missing" in looks else "observed"
        say_zeros(zeros, tensor.names)
    decided = {name: _copy(model, zeros) for name, model in undecided.items()}
    return {name: decided.get(name, model) for name, model in models.items()}


def _copy(model: CountModel, zeros: str) -> CountModel:
    return type(model)(**(model.get_params() | {"zeros": zeros}))


def say_different_zeros(models: Mapping[str, CountModel], tensor: CountTensor) -> None:
    """Say which models take empty cells for zeros if others do not: scores do not compare."""
    taken = {name: model.zeros_for(tensor) for name, model in models.items()}
    missing, observed = (", ".join(n for n in taken if taken[n] == zeros) for zeros in WORDS)
    if missing and observed:
        _say(
            "these models differ in what cells without an entry are, so their scores do not "
            f"compare: missing to {missing}; observed zeros to {observed}. Give all the same "
            "`zeros`."
        )


@cache
def _say(line: str) -> None:
    _log.warning("%s", line)


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
