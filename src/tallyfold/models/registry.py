"""Every model by its name."""

from __future__ import annotations

from typing import Any

from tallyfold.models.bptf import BPTF
from tallyfold.models.constant import Constant
from tallyfold.models.forecasting import SmoothedPast
from tallyfold.models.gibbs_bptf import GibbsBPTF
from tallyfold.models.last_periods import LastValue, MovingAverage, SeasonalNaive
from tallyfold.models.main_effects import MainEffects
from tallyfold.models.margins import Margins
from tallyfold.models.mlp_tf import MLPTF
from tallyfold.models.ntf_ls import NTFLS
from tallyfold.models.online_gibbs_bptf import OnlineGibbsBPTF
from tallyfold.models.paper_vae_bptf import PaperVAEBPTF
from tallyfold.models.ptf_kl import PTFKL
from tallyfold.models.vae_bptf import VAEBPTF

MODELS: dict[str, Any] = {
    "vae-bptf": VAEBPTF,
    "vae-bptf-paper": PaperVAEBPTF,
    "bptf": BPTF,
    "bptf-gibbs": GibbsBPTF,
    "online-gibbs": OnlineGibbsBPTF,
    "ptf-kl": PTFKL,
    "ntf-ls": NTFLS,
    "mlp-tf": MLPTF,
    "margins": Margins,
    "main-effects": MainEffects,
    "constant": Constant,
    "smoothed-past": SmoothedPast,
    "moving-average": MovingAverage,
    "seasonal-naive": SeasonalNaive,
    "last-value": LastValue,
}
"""Names and classes; the order is that of tables."""
