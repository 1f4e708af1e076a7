"""`qualitative`: what the factors say of single entities (the paper's Figures 10 and 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tallyfold as tf
from tallyfold.evaluation.profiles import profile, top
from tallyfold.evaluation.scaling import scaling
from tallyfold.models.base import CountModel
from tallyfold.paper.published import notes
from tallyfold.paper.setting import Reproduction, Setting

if TYPE_CHECKING:
    import pandas as pd

BUSIEST = 200
"""Entities among which the two that differ most are looked for."""


def qualitative(setting: Setting) -> Reproduction:
    """Profiles of two entities, what is strongest for them, and a map of their axis."""
    tables: dict[str, pd.DataFrame] = {}
    for name in setting.tensors:
        tables |= _of_tensor(setting, name)
    return Reproduction(tables, notes("qualitative"))


def _of_tensor(setting: Setting, name: str) -> dict[str, pd.DataFrame]:
    import pandas as pd

    tensor, seed = setting.tensor(name), setting.seeds[0]
    who = tensor.names[0]
    what = max(tensor.names[1:], key=lambda axis: len(tensor.axis(axis)))
    models: dict[str, CountModel] = {
        "zeros observed": tf.BPTF(zeros="observed", validation=None, random_state=seed),
        "zeros missing": tf.VAEBPTF(zeros="missing", amount="negative-binomial", random_state=seed),
    }
    tables: dict[str, pd.DataFrame] = {}
    pair: tuple[Any, Any] | None = None
    for zeros, model in models.items():
        setting.announce(f"{name}, {zeros}: {type(model).__name__}")
        model.fit(tensor)
        pair = pair or different_pair(model, tensor, who)
        each = [{who: one} for one in pair]
        points = scaling(model, what, _busiest(tensor, what))
        points["component"] = np.argmax(_weights(model, what, list(points["label"])), axis=1)
        tables |= {
            f"{name}, {zeros}: profiles of two {who}s": pd.concat(
                [profile(model, who, one[who]).assign(**one) for one in each]
            ),
            f"{name}, {zeros}: their top 10 {what}s": pd.concat(
                [top(model, what, one, by="factors").assign(**one) for one in each]
            ),
            f"{name}, {zeros}: map of the busiest {what}s": points,
        }
    return tables


def different_pair(model: CountModel, tensor: tf.CountTensor, axis: str) -> tuple[Any, Any]:
    """Return the two busiest entities whose shares of components differ most."""
    labels = _busiest(tensor, axis)
    weight_DK = _weights(model, axis, labels)
    share_DK = weight_DK / weight_DK.sum(axis=1, keepdims=True)
    distance = np.abs(share_DK[:, None] - share_DK[None]).sum(axis=2)
    first, second = np.unravel_index(np.argmax(distance), distance.shape)
    return labels[int(first)], labels[int(second)]


def _busiest(tensor: tf.CountTensor, axis: str) -> list[Any]:
    cells = tensor.marginal(axis, "nonzeros")
    places = np.sort(np.argsort(-cells, kind="stable")[:BUSIEST])
    return list(tensor.axis(axis).labels.take(places).to_pylist())


def _weights(model: CountModel, axis: str, labels: list[Any]) -> Any:
    """Return factors times what the other axes make of a component: scales do not matter."""
    factors = model.posterior_
    positions = model.axes_[factors.axis_number(axis)].positions(labels)
    others = [name for name in factors.names if name != axis]
    rest_K = np.prod([factors.mean(name).mean(axis=0) for name in others], axis=0)
    return factors.mean(axis)[positions] * rest_K
