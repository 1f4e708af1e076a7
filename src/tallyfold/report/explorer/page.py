"""`write_report`: the parts of the page put together into one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.report.explorer.payload import payload_of

SCRIPTS = (
    "elements",
    "numbers",
    "csv",
    "model",
    "state",
    "bars",
    "lines",
    "scatter",
    "places",
    "map",
    "list",
    "component",
    "entity",
    "search",
    "interactions",
    "scores",
    "forecast",
    "fit",
    "main",
)
"""The page's scripts, in the order they are put together."""

POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What a browser lets the page do: run its own script and style, and nothing else."""


def write_report(
    model: CountModel,
    path: str | os.PathLike[str],
    *,
    test: CountTensor | None = None,
    train: CountTensor | None = None,
    title: str | None = None,
    announce: Callable[[str], None] | None = None,
) -> Path:
    """Write a page to explore a fitted model: one HTML file that needs no network and no server.

    It shows the components on a map and in a list, what is strongest in each on every axis with
    90 % intervals, the profile of any label, and how the fit went. A model without factors gets a
    page of its fit alone.

    Parameters
    ----------
    model
        A fitted model.
    path
        The file to write. It is written whole or not at all.
    test
        Held-out cells, for scores and a calibration plot.
    train
        The cells the model was fitted on, to describe them, to take examples of components from,
        and to score constants beside it.
    title
        What stands at the top of the page.
    announce
        Called with the name of each simple model before it is fitted.

    Examples
    --------
    >>> import tallyfold as tf, tempfile
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> model = tf.BPTF(n_components=2, max_iter=10).fit(tensor)
    >>> write_report(model, tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    from tallyfold.report.explorer.shown import Explorer

    file = checked_target(path)
    return Explorer(checked_page(model, test, train, title, announce)).save(file)


def checked_page(
    model: CountModel,
    test: CountTensor | None,
    train: CountTensor | None,
    title: str | None,
    announce: Callable[[str], None] | None,
) -> str:
    """Return the whole page of a model; refuse what it cannot be made of."""
    checked_model(model)
    if title is not None and not isinstance(title, str):
        raise ParameterError(f"`title` must be text or None; got {title!r}.")
    for name, tensor in (("test", test), ("train", train)):
        if tensor is not None and not isinstance(tensor, CountTensor):
            raise ParameterError(
                f"`{name}` must be a CountTensor or None; got {type(tensor).__name__}."
            )
    return page_text(payload_of(model, test=test, train=train, title=title, announce=announce))


def page_text(payload: dict[str, Any]) -> str:
    """Return the whole page for what is to be shown."""
    style, script = _source("page.css"), _script()
    policy = POLICY.format(script=_digest(script), style=_digest(style))
    return Template(_source("page.html")).substitute(
        title=html.escape(payload["title"]),
        policy=policy,
        style=style,
        script=script,
        data=embedded(payload),
    )


def embedded(payload: dict[str, Any]) -> str:
    r"""Return JSON that can stand in a page: no label can end the element it is in.

    Examples
    --------
    >>> embedded({"label": "</script>"})
    '{"label":"\\u003c/script>"}'
    """
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a page may be written to; refuse what can be none."""
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"`path` must be a path; got {path!r}.")
    file = Path(path)
    if file.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(
            f"the page must be a file that ends in .html; got {str(file)!r}. Nothing was written."
        )
    if file.is_dir():
        raise ParameterError(f"{str(file)!r} is a folder; name a file in it.")
    if not file.parent.is_dir():
        raise ParameterError(f"there is no folder {str(file.parent)!r} to write to; make it first.")
    return file


def _script() -> str:
    """Return the scripts as one, with names of its own."""
    parts = [_source(f"script/{name}.js") for name in SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


def _source(name: str) -> str:
    return files("tallyfold.report.explorer").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the hash by which a policy knows the text of an element."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
