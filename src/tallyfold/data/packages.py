"""Packages that are optional, imported where they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tallyfold.errors import MissingPackageError


def imported(module: str, user: str, install: str = "") -> Any:
    """Import a module of an optional package, or say what needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise MissingPackageError(
            f"{user} needs the package {package}: pip install {install or package}."
        ) from error
