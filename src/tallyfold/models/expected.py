"""What a function expects to be given."""

from __future__ import annotations

from typing import Any

from tallyfold.errors import ParameterError
from tallyfold.models.base import CountModel
from tallyfold.models.cells import checked_tensor, counts_like

__all__ = ["checked_model", "checked_tensor", "counts_like"]


def checked_model(model: Any) -> CountModel:
    """Refuse what is no model, with what to do about it."""
    if not isinstance(model, CountModel):
        raise ParameterError(
            f"`model` must be a fitted model; got {type(model).__name__}. Read a saved one with "
            "tallyfold.load(folder)."
        )
    return model
