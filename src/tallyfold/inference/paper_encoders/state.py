"""How the paper's step names what it knows; see :mod:`tallyfold.inference.paper_encoders.step`.

Per axis there are ``net``, ``first`` and ``second`` (weights and Adam's memory of them), the
present ``shape``, ``rate`` and ``draw``, and ``mean`` and ``square``, averages over iterations of
the factors' first two moments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes.adam import Adam

Floats = npt.NDArray[np.float64]

PARTS = {"net": "values", "first": "first", "second": "second"}
"""Names in the state, and in Adam."""


def floats(state: State, name: str) -> Floats:
    """Return an array of the state."""
    return np.asarray(state[name], dtype=np.float64)


def every_axis(state: State, kind: str) -> list[Floats]:
    """Return one kind of array for all axes."""
    n_axes = sum(name.startswith("draw_") for name in state)
    return [floats(state, f"{kind}_{axis}") for axis in range(n_axes)]


def adam_named(adam: Adam, axis: int) -> State:
    """Name an axis's weights and Adam's memory of them."""
    state: State = {f"adam_steps_{axis}": np.array(adam.steps)}
    for prefix, part in PARTS.items():
        values: dict[str, Floats] = getattr(adam, part)
        state |= {f"{prefix}_{axis}_{name}": value for name, value in values.items()}
    return state


def adam_of(state: State, axis: int) -> Adam:
    """Return Adam as the state has it."""
    parts: dict[str, dict[str, Floats]] = {}
    for prefix, part in PARTS.items():
        start = f"{prefix}_{axis}_"
        named = {n.removeprefix(start): floats(state, n) for n in state if n.startswith(start)}
        parts[part] = named
    return Adam(**parts, steps=int(state[f"adam_steps_{axis}"]))


def averaged(state: State, known_M: Sequence[npt.NDArray[np.bool_]], share: float) -> State:
    """Move the averages of the factors' first two moments towards those of the present Gammas.

    A component may double on one axis and halve on another, which changes no rate; while it drifts
    so, the product of averages is far from the average product. So before it is averaged, each
    component is balanced: the entities of `known_M` get the same mean on every axis.
    """
    shapes, rates = every_axis(state, "shape"), every_axis(state, "rate")
    means = [shape_DK / rate_DK for shape_DK, rate_DK in zip(shapes, rates, strict=True)]
    size_MK = np.array([m[known].mean(axis=0) for m, known in zip(means, known_M, strict=True)])
    gauge_MK = np.exp(np.log(size_MK).mean(axis=0)) / size_MK
    now: State = {}
    for axis, (shape_DK, mean_DK, known_D) in enumerate(zip(shapes, means, known_M, strict=True)):
        balanced_DK = np.where(known_D[:, None], gauge_MK[axis], 1.0) * mean_DK
        now[f"mean_{axis}"] = balanced_DK
        now[f"square_{axis}"] = balanced_DK**2 * (1 + 1 / shape_DK)
    if share < 1:
        now = {n: (1 - share) * floats(state, n) + share * floats(now, n) for n in now}
    return now


def averaged_gammas(state: State) -> tuple[list[Floats], list[Floats]]:
    """Return shapes and rates of Gammas with the averaged first and second moments.

    Components are balanced over the axes, see :func:`averaged`.
    """
    shapes, rates = [], []
    moments = zip(every_axis(state, "mean"), every_axis(state, "square"), strict=True)
    for mean_DK, square_DK in moments:
        variance_DK = np.maximum(square_DK - mean_DK**2, 1e-8 * mean_DK**2)
        shapes.append(mean_DK**2 / variance_DK)
        rates.append(mean_DK / variance_DK)
    return shapes, rates
