"""What kept results are results of: they must not be gone on with under other settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tallyfold.errors import StorageError

SHOWN = 100
"""Characters of a setting that a message shows."""


def name_of(settings: Mapping[str, Any], model: str) -> str:
    """Return a name that settings have to themselves, beginning with the model's."""
    text = json.dumps(settings, sort_keys=True)
    return f"{model}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def refuse_other(known: Any, wanted: Mapping[str, Any], where: str, instead: str) -> None:
    """Refuse results kept under other settings; say which setting differs.

    Parameters
    ----------
    known, wanted
        The settings the results were kept with, and those of this call.
    where, instead
        What to call the place they are kept in, and what to choose another of.
    """
    had, has = _flat(known), _flat(wanted)
    other = [key for key in {**has, **had} if had.get(key) != has.get(key)]
    if other:
        before, now = (json.dumps(flat.get(other[0]))[:SHOWN] for flat in (had, has))
        raise StorageError(
            f"{where} is of another call: its {other[0]} was {before}; here it is {now}. Make the "
            f"same call to go on with it, or choose another {instead}."
        )


def _flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Return settings within settings as one level, named ``parameters.max_iter``."""
    if not isinstance(settings, Mapping):
        return {}
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return flat
