"""What the logger is told of a fit."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import printable
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.models.card import amount_words, fit_words, forecast_words, gate_words, whether_words

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel

_log = logging.getLogger("tallyfold")


def tell_begin(model: CountModel, tensor: CountTensor, seed: int) -> None:
    """Tell what is fitted, in the first process."""
    shape = " x ".join(f"{axis.name} {len(axis):,}" for axis in tensor.axes)
    zeros = model.zeros_for(tensor)
    _tell(model, f"fit to {tensor.nnz:,} cells of {shape}, zeros {zeros}, seed {seed}")


def tell_end(model: CountModel) -> None:
    """Tell what a fit chose, and how it went, in the first process."""
    fitted = model.fitted_
    chosen = {
        "gate": gate_words(model),
        "whether there is a count": whether_words(fitted),
        "how many": amount_words(fitted),
        "forecasts": forecast_words(fitted),
        "validation score": fitted.validation_score,
    }
    for what, value in chosen.items():
        if value is not None:
            _tell(model, f"{what}: {value}")
    _tell(model, f"fit ended after {fit_words(model)}")


def _tell(model: CountModel, words: str) -> None:
    if current_group().first:
        _log.info("%s: %s", type(model).__name__, printable(words))
