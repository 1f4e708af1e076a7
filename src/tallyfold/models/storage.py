"""Fitted models in folders."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from tallyfold.errors import ParameterError, StorageError
from tallyfold.inference.fit.folder import read_folder, write_folder
from tallyfold.models.base import CountModel
from tallyfold.models.fitted import Fitted
from tallyfold.models.load_checks import check_loaded
from tallyfold.models.parameters import check_parameters
from tallyfold.posterior.named_arrays import Arrays
from tallyfold.version import __version__

KIND = "tallyfold-model"
VERSION = 4
EARLIEST = {"vae-bptf": 2}
"""The first version of the format that a kind of model can be read from; 1 if not here."""


def save(model: CountModel, folder: str | os.PathLike[str]) -> None:
    """Save a fitted model; see `CountModel.save`."""
    document = {
        "format": KIND,
        "version": VERSION,
        "tallyfold": __version__,
        "model": model.name,
        "parameters": model.fitted_.parameters,
        "fitted": model.fitted_.document(),
    }
    write_folder(folder, document, model.fitted_.arrays())


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model back from the folder it was saved in.

    No code runs on loading: a folder holds a JSON document and plain arrays. Its predictions are
    the same, bit for bit.

    Parameters
    ----------
    folder
        Where `CountModel.save` put it.
    """
    from tallyfold.models.registry import MODELS

    document, arrays = read_folder(folder, KIND, VERSION)
    kind = MODELS.get(str(document.get("model")))
    if kind is None:
        raise StorageError(
            f"{str(folder)!r} holds a model of an unknown kind, {document.get('model')!r}; known "
            f"are {', '.join(MODELS)}."
        )
    if document["version"] < EARLIEST.get(kind.name, 1):
        raise StorageError(
            f"{str(folder)!r} holds a {kind.name} of version {document['version']} of the format, "
            f"written by tallyfold {document.get('tallyfold')}, which kept its encoders and "
            "intervals in another form. Fit the model again."
        )
    try:
        parameters = _current(document["parameters"], kind, document["version"])
        model = kind(**parameters)
        check_parameters(model.get_params(), kind.rules)
        if model.get_params()["zeros"] == "auto":
            raise ParameterError("`zeros` must be what a fit decided on; got 'auto'.")
    except (KeyError, TypeError, OverflowError, ParameterError) as error:
        raise StorageError(f"{str(folder)!r} is damaged: its parameters: {error}") from error
    given = {"parameters": model.get_params() | parameters}
    fitted = _restored(document.get("fitted") or {}, arrays, str(folder), kind.name)
    others = tuple(replace(other, **given) for other in fitted.others)
    model._fitted = replace(fitted, others=others, **given)
    return model


def _current(parameters: dict[str, Any], kind: Any, version: int) -> dict[str, Any]:
    """Return the parameters that a model of an earlier version of the format has today."""
    if version < 3 and "amount" in kind.rules:
        parameters = {"amount": "negative-binomial"} | parameters
        parameters.pop("weight_variance", None)
    if version < 4 and kind.name == "vae-bptf":
        parameters = {name: value for name, value in parameters.items() if name != "hidden_units"}
    return parameters


def _restored(document: dict[str, Any], arrays: Arrays, folder: str, model: str) -> Fitted:
    try:
        fitted = Fitted.restored(document, arrays, folder)
        check_loaded(fitted, model)
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        problem = str(error) if isinstance(error, ValueError) else repr(error)
        raise StorageError(f"{folder!r} is damaged, or not ours: {problem[:400]}.") from error
    return fitted
