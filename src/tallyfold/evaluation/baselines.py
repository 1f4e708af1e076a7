"""What every model has to beat, fitted beside it."""

from __future__ import annotations

from typing import Literal

from tallyfold.models.base import CountModel
from tallyfold.models.constant import Constant
from tallyfold.models.main_effects import MainEffects


def floors(zeros: Literal["missing", "observed"] = "missing") -> dict[str, CountModel]:
    """Return, by name, models that know nothing of how entities go together.

    Parameters
    ----------
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.

    Examples
    --------
    >>> list(floors())
    ['constant Poisson', 'constant negative binomial', 'main effects']
    """
    return {
        "constant Poisson": Constant(likelihood="poisson", zeros=zeros),
        "constant negative binomial": Constant(zeros=zeros),
        "main effects": MainEffects(zeros=zeros),
    }
