"""Where components stand on the map: close together if they are strong at the same labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def map_places(weights: Sequence[Floats]) -> tuple[Floats, float]:
    """Return places of components on a plane, and the share of their distances it shows.

    Classical scaling of Hellinger distances: squared, they are one minus the overlap
    sum_d sqrt(p_dk p_dl) of two components on an axis, averaged over the axes. Such distances are
    those of points in a space, so that nothing is lost but the further dimensions.

    Parameters
    ----------
    weights
        Per axis, the labels' shares of each component (labels x components).
    """
    overlap_KK = np.mean([np.sqrt(w_DK).T @ np.sqrt(w_DK) for w_DK in weights], axis=0)
    centred_KK = overlap_KK - overlap_KK.mean(axis=0) - overlap_KK.mean(axis=1)[:, None]
    values_K, vectors_KK = np.linalg.eigh(centred_KK + overlap_KK.mean())
    values_K = np.maximum(values_K[::-1], 0.0)
    n_shown = min(2, len(values_K))
    places_K2 = np.zeros((len(values_K), 2))
    places_K2[:, :n_shown] = vectors_KK[:, ::-1][:, :n_shown] * np.sqrt(values_K[:n_shown])
    farthest_2 = np.abs(places_K2).argmax(axis=0)
    sign_2 = np.where(places_K2[farthest_2, [0, 1]] < 0, -1.0, 1.0)  # the same map every time
    total = float(values_K.sum())
    return places_K2 * sign_2, float(values_K[:n_shown].sum() / total) if total > 0 else 1.0
