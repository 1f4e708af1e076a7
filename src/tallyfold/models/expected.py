"""What a function expects to be given: a fitted model, a tensor."""

from __future__ import annotations

from typing import Any

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.models.base import CountModel


def checked_model(model: Any) -> CountModel:
    """Refuse what is no model, with what to do about it."""
    if not isinstance(model, CountModel):
        raise ParameterError(
            f"`model` must be a fitted model; got {type(model).__name__}. Read a saved one with "
            "tallyfold.load(folder)."
        )
    return model


def checked_tensor(tensor: Any, name: str = "tensor") -> CountTensor:
    """Refuse what is no tensor, with what to do about it."""
    if not isinstance(tensor, CountTensor):
        raise ParameterError(
            f"`{name}` must be a CountTensor; got {type(tensor).__name__}. Make one with "
            "CountTensor.from_frame(frame, axes=[...]) or tallyfold.read_counts(path, axes=[...])."
        )
    return tensor
