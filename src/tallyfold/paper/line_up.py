"""The models that the paper compares: as it ran them, and all under the same zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tallyfold as tf
from tallyfold.models.base import CountModel
from tallyfold.paper.published import STANDS_FOR

PAPER_FORM = "VAE-BPTF, the paper's form"
FLAGSHIP = "VAE-BPTF"
BASELINES = ("BPTF", "Online-Gibbs", "PTF-KL", "NTF-LS", "MLP-TF")
CONSTANTS = ("main effects", "constant", "constant, negative binomial")
SQUARED_ERRORS = ("NTF-LS", "MLP-TF")
"""Models that the paper gives no likelihood for: squared errors have none."""
PUBLISHED_NAME = {PAPER_FORM: "VAE-BPTF"} | {name: name for name in BASELINES}
"""What the paper calls a model of ours; the default VAE-BPTF is not the paper's."""


def paper_form(dataset: str, *, subsampled: bool = False, **changes: object) -> CountModel:
    """Return the paper's form with its hyper-parameters for the data set that a tensor stands for.

    One hidden layer everywhere: the paper has two for Rating, for which there is no fast kernel.
    """
    name = STANDS_FOR.get(dataset)
    preset = None if name is None else name.lower() + ("-subsampled" if subsampled else "")
    return tf.VAEBPTF.paper(preset, **({"hidden_layers": 1} | changes))


def as_the_paper_ran_them(dataset: str, *, subsampled: bool = False) -> dict[str, CountModel]:
    """Return the six models with the paper's treatment of zeros: VAE-BPTF alone leaves them out."""
    return {
        PAPER_FORM: paper_form(dataset, subsampled=subsampled),
        "BPTF": tf.BPTF(zeros="observed", validation=None),
        "Online-Gibbs": tf.OnlineGibbsBPTF(zeros="observed"),
        "PTF-KL": tf.PTFKL(zeros="observed"),
        "NTF-LS": tf.NTFLS(zeros="observed"),
        "MLP-TF": tf.MLPTF(zeros="observed"),
    }


def under_the_same_zeros(dataset: str, *, subsampled: bool = False) -> dict[str, CountModel]:
    """Return all models with zeros missing, and the predictors that know no structure."""
    return {
        FLAGSHIP: tf.VAEBPTF(zeros="missing", amount="negative-binomial"),
        PAPER_FORM: paper_form(dataset, subsampled=subsampled, truncated=True),
        "BPTF": tf.BPTF(),
        "Online-Gibbs": tf.OnlineGibbsBPTF(),
        "PTF-KL": tf.PTFKL(),
        "NTF-LS": tf.NTFLS(),
        "MLP-TF": tf.MLPTF(loss="poisson"),
        **constants(),
    }


def constants() -> dict[str, CountModel]:
    """Return the predictors that know no structure, with zeros missing."""
    fitted = [tf.Constant(likelihood=family) for family in ("poisson", "negative-binomial")]
    return dict(zip(CONSTANTS, [tf.MainEffects(), *fitted], strict=True))


class Regime(NamedTuple):
    """A treatment of zeros: where its fits are kept, and its models of a data set."""

    folder: str
    models: Callable[..., dict[str, CountModel]]


REGIMES = {
    "as the paper ran it": Regime("as-the-paper", as_the_paper_ran_them),
    "zeros missing": Regime("same-zeros", under_the_same_zeros),
}
