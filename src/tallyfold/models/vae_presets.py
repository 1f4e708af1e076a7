"""The hyper-parameters that the paper on VAE-BPTF found best for its five data sets.

Where the paper gives a range over sub-samples of 1 to 30 %, one value is taken and the range noted.
The prior's shape and rate are 1 everywhere.
"""

from __future__ import annotations

from typing import TypedDict


class PaperPreset(TypedDict):
    """One row of the paper's table."""

    n_components: int
    hidden_layers: int
    hidden_units: int
    output_activation: str
    hidden_activation: str
    theta: float
    eta: float
    weight_variance: float


def _row(
    n_components: int,
    hidden_layers: int,
    hidden_units: int,
    activations: tuple[str, str],
    reweighting: tuple[float, float],
    weight_variance: float,
) -> PaperPreset:
    """Name the entries of a row, in the order of the paper's columns: h comes before q."""
    return PaperPreset(
        n_components=n_components,
        hidden_layers=hidden_layers,
        hidden_units=hidden_units,
        output_activation=activations[0],
        hidden_activation=activations[1],
        theta=reweighting[0],
        eta=reweighting[1],
        weight_variance=weight_variance,
    )


_SOFT = ("softplus", "softplus")
_RELU = ("softplus", "relu")

PAPER_PRESETS: dict[str, PaperPreset] = {
    "dblp": _row(10, 1, 20, _SOFT, (5.0, 10.0), 1.0),
    "nips": _row(10, 1, 20, _SOFT, (5.0, 10.0), 5.0),
    "game": _row(5, 1, 10, _SOFT, (5.0, 10.0), 1.0),
    "review": _row(5, 1, 10, _SOFT, (10.0, 50.0), 1.0),
    "rating": _row(15, 2, 20, _RELU, (3.0, 10.0), 5.0),
    # Components 3 to 5, layers 0 to 1, variance 0.1 or 1: the larger network, the stronger penalty.
    "dblp-subsampled": _row(5, 1, 10, _SOFT, (5.0, 20.0), 0.1),
    "nips-subsampled": _row(5, 1, 10, _SOFT, (5.0, 20.0), 0.1),
    # Layers 0 to 1.
    "game-subsampled": _row(3, 1, 10, _SOFT, (5.0, 20.0), 0.1),
    # Components 3 to 5, layers 0 to 1, variance 0.1 or 1.
    "review-subsampled": _row(5, 1, 10, _SOFT, (10.0, 50.0), 0.1),
    # Components 3 to 10, layers 0 to 1.
    "rating-subsampled": _row(5, 1, 10, _RELU, (5.0, 10.0), 1.0),
}
"""By data set; ``-subsampled`` is for 1 to 30 % of its cells."""
