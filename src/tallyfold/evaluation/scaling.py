"""Entities as points in few dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import check_parameters, integer

if TYPE_CHECKING:
    import pandas as pd


COORDINATES = ("x", "y", "z")


def scaling(
    model: CountModel, axis: str, labels: Sequence[Any] | None = None, *, dimensions: int = 2
) -> pd.DataFrame:
    """Place entities so that their distances are as near as can be to those of their factors.

    Classical multidimensional scaling of the Euclidean distances between posterior mean factors,
    R's ``cmdscale``. These distances come from centred factors, so that a decomposition of
    entities x components gives what that of entities x entities would.

    Parameters
    ----------
    model
        A fitted model with factors.
    axis, labels
        Which entities; None takes all of the axis.
    dimensions
        One to three.

    Returns
    -------
    pandas.DataFrame
        label, x, y (and z); ``attrs["explained"]`` is the share of the squared distances that is
        kept. Signs are such that the entity farthest out in a dimension is on its positive side.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
    >>> scaling(model, "axis_1", ["axis_1-03", "axis_1-05", "axis_1-08"]).columns.tolist()
    ['label', 'x', 'y']
    """
    import pandas as pd

    check_parameters({"dimensions": dimensions}, {"dimensions": integer(1)})
    factors = checked_model(model).posterior_
    mean_DK, own = factors.mean(axis), model.axes_[factors.axis_number(axis)]
    rows = np.arange(len(own)) if labels is None else own.positions(labels)
    possible = min(len(rows) - 1, mean_DK.shape[1], len(COORDINATES))
    if len(rows) < 2:
        raise ParameterError(f"a map needs at least two labels of {axis!r}; got {len(rows)}.")
    if dimensions > possible:
        raise ParameterError(
            f"{len(rows):,} entities with {mean_DK.shape[1]} components can be placed in at most "
            f"{possible} dimensions; got {dimensions}."
        )
    point_DX, explained = scaled(mean_DK[rows], dimensions)
    columns = dict(zip(COORDINATES, point_DX.T, strict=False))
    frame = pd.DataFrame({"label": own.labels.take(rows).to_pandas(), **columns})
    frame.attrs["explained"] = explained
    return frame


def scaled(factor_DK: Floats, dimensions: int) -> tuple[Floats, float]:
    """Return coordinates in few dimensions, and the share of the squared distances they keep."""
    left, size, _ = np.linalg.svd(factor_DK - factor_DK.mean(axis=0), full_matrices=False)
    point_DX = (left * size)[:, :dimensions]
    farthest = np.abs(point_DX).argmax(axis=0)
    sign_X = np.where(point_DX[farthest, np.arange(dimensions)] < 0, -1.0, 1.0)
    total = float((size**2).sum())
    return point_DX * sign_X, float((size[:dimensions] ** 2).sum()) / total if total else 1.0


def component_places(weights: Sequence[Floats]) -> tuple[Floats, float]:
    """Return places of components on a plane, and the share of their distances it shows.

    Classical scaling of Hellinger distances: squared, they are one minus the overlap
    sum_d sqrt(p_dk p_dl) of two components on an axis, averaged over the axes. They are Euclidean
    distances between the square roots of the shares of all axes.

    Parameters
    ----------
    weights
        Per axis, the labels' shares of each component (labels x components).
    """
    root_DK = np.concatenate([np.sqrt(weight_DK / len(weights)) for weight_DK in weights])
    place_KX, shown = scaled(root_DK.T, min(2, *root_DK.shape))
    return np.pad(place_KX, ((0, 0), (0, 2 - place_KX.shape[1]))), shown
