"""`qualitative`: what the factors say of single entities (the paper's Figures 10 and 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.profiles import profile, top_entities
from tallyfold.evaluation.scaling import scaling
from tallyfold.models.base import CountModel
from tallyfold.models.bptf import BPTF
from tallyfold.models.vae_bptf import VAEBPTF

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.data.tensor import CountTensor

BUSIEST = 200
"""Entities among which the two that differ most are looked for."""


def qualitative(setting: Setting) -> Reproduction:
    """Profiles of two entities, what is strongest for them, and a map of their axis."""
    tables: dict[str, pd.DataFrame] = {}
    for name in setting.tensors:
        tables |= _of_tensor(setting, name)
    return Reproduction(
        tables,
        [
            "published: figures of two authors and of two users, and a map of videos. Ours are the "
            "two of the 200 busiest entities of the first axis whose profiles differ most when "
            "zeros are observed.",
            "zeros missing: VAE-BPTF; as in the paper, a high rate is a high count where there is "
            "one. zeros observed: BPTF, which VAE-BPTF then is; a high rate is a count at all.",
            "share: the part of an entity's rate that a component makes; low and high: the 90 % "
            "interval of its factor. sd: standard deviation over 50 posterior draws.",
        ],
    )


def _of_tensor(setting: Setting, name: str) -> dict[str, pd.DataFrame]:
    import pandas as pd

    tensor, seed = setting.tensor(name), setting.seeds[0]
    who, what = tensor.names[0], _richest(tensor)
    models: dict[str, CountModel] = {
        "zeros observed": BPTF(zeros="observed", random_state=seed),
        "zeros missing": VAEBPTF(random_state=seed),
    }
    tables: dict[str, pd.DataFrame] = {}
    pair: tuple[Any, Any] | None = None
    for zeros, model in models.items():
        setting.announce(f"{name}, {zeros}: {type(model).__name__}")
        model.fit(tensor)
        pair = pair or different_pair(model, tensor, who)
        each = [{who: one} for one in pair]
        points = scaling(model, what, _busiest(tensor, what))
        points["component"] = _dominant(model, what, points["label"])
        tables |= {
            f"{name}, {zeros}: profiles of two {who}s": pd.concat(
                [profile(model, who, one[who]).assign(**one) for one in each]
            ),
            f"{name}, {zeros}: their top 10 {what}s": pd.concat(
                [top_entities(model, what, one).assign(**one) for one in each]
            ),
            f"{name}, {zeros}: map of the busiest {what}s": points,
        }
    return tables


def different_pair(model: CountModel, tensor: CountTensor, axis: str) -> tuple[Any, Any]:
    """Return the two busiest entities whose shares of components differ most."""
    labels = _busiest(tensor, axis)
    positions = model.axes_[model.posterior_.axis_number(axis)].positions(labels)
    factor_DK = model.posterior_.mean(axis)[positions] * _rest(model, axis)
    share_DK = factor_DK / factor_DK.sum(axis=1, keepdims=True)
    distance = np.abs(share_DK[:, None] - share_DK[None]).sum(axis=2)
    first, second = np.unravel_index(np.argmax(distance), distance.shape)
    return labels[int(first)], labels[int(second)]


def _richest(tensor: CountTensor) -> str:
    """Return the axis, besides the first, with the most labels."""
    return max(tensor.names[1:], key=lambda name: tensor.shape[tensor.axis_number(name)])


def _busiest(tensor: CountTensor, axis: str) -> list[Any]:
    cells = tensor.marginal(axis, "nonzeros")
    places = np.sort(np.argsort(-cells, kind="stable")[:BUSIEST])
    return list(tensor.axis(axis).labels.take(places).to_pylist())


def _rest(model: CountModel, axis: str) -> Any:
    """Return what the other axes make of each component, so that scales do not matter."""
    others = [name for name in model.posterior_.names if name != axis]
    return np.prod([model.posterior_.mean(name).mean(axis=0) for name in others], axis=0)


def _dominant(model: CountModel, axis: str, labels: Any) -> Any:
    positions = model.axes_[model.posterior_.axis_number(axis)].positions(list(labels))
    return np.argmax(model.posterior_.mean(axis)[positions] * _rest(model, axis), axis=1)
