"""Every model by its name."""

from __future__ import annotations

from typing import Any

from tallyfold.models.bptf import BPTF
from tallyfold.models.constant import Constant
from tallyfold.models.main_effects import MainEffects

MODELS: dict[str, Any] = {
    "bptf": BPTF,
    "main-effects": MainEffects,
    "constant": Constant,
}
"""Names and classes; the order is that of tables."""
