"""The models that the paper compares: as it ran them, and all under the same zeros."""

from __future__ import annotations

from tallyfold.evaluation.paper.published import STANDS_FOR
from tallyfold.models.base import CountModel
from tallyfold.models.bptf import BPTF
from tallyfold.models.constant import Constant
from tallyfold.models.main_effects import MainEffects
from tallyfold.models.mlp_tf import MLPTF
from tallyfold.models.ntf_ls import NTFLS
from tallyfold.models.online_gibbs_bptf import OnlineGibbsBPTF
from tallyfold.models.ptf_kl import PTFKL
from tallyfold.models.vae_bptf import VAEBPTF

PAPER_FORM = "VAE-BPTF, the paper's form"
FLAGSHIP = "VAE-BPTF"
BASELINES = ("BPTF", "Online-Gibbs", "PTF-KL", "NTF-LS", "MLP-TF")
CONSTANTS = ("main effects", "constant", "constant, negative binomial")
PUBLISHED_NAME = {PAPER_FORM: "VAE-BPTF"} | {name: name for name in BASELINES}
"""What the paper calls a model of ours; the default VAE-BPTF is not the paper's."""


def paper_form(dataset: str, *, subsampled: bool = False, **changes: object) -> VAEBPTF:
    """Return the paper's form with its hyper-parameters for the data set that a tensor stands for.

    One hidden layer everywhere: the paper has two for Rating, for which there is no fast kernel.
    """
    name = STANDS_FOR.get(dataset)
    preset = None if name is None else name.lower() + ("-subsampled" if subsampled else "")
    return VAEBPTF.paper(preset, **({"hidden_layers": 1} | changes))


def as_the_paper_ran_them(dataset: str, *, subsampled: bool = False) -> dict[str, CountModel]:
    """Return the six models with the paper's treatment of zeros: VAE-BPTF alone leaves them out."""
    return {
        PAPER_FORM: paper_form(dataset, subsampled=subsampled),
        "BPTF": BPTF(zeros="observed"),
        "Online-Gibbs": OnlineGibbsBPTF(zeros="observed"),
        "PTF-KL": PTFKL(zeros="observed"),
        "NTF-LS": NTFLS(zeros="observed"),
        "MLP-TF": MLPTF(zeros="observed"),
    }


def under_the_same_zeros(dataset: str, *, subsampled: bool = False) -> dict[str, CountModel]:
    """Return all models with zeros missing, and the predictors that know no structure."""
    return {
        FLAGSHIP: VAEBPTF(),
        PAPER_FORM: paper_form(dataset, subsampled=subsampled, truncated=True),
        "BPTF": BPTF(),
        "Online-Gibbs": OnlineGibbsBPTF(),
        "PTF-KL": PTFKL(),
        "NTF-LS": NTFLS(),
        "MLP-TF": MLPTF(loss="poisson"),
        **constants(),
    }


def constants() -> dict[str, CountModel]:
    """Return the predictors that know no structure, with zeros missing."""
    models = MainEffects(), Constant(likelihood="poisson"), Constant()
    return dict(zip(CONSTANTS, models, strict=True))
