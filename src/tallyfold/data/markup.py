"""HTML for notebooks: tables and small drawings, in which every text of the data is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import python_values
from tallyfold.data.axis_course import order_words
from tallyfold.data.summary import count_bands, percent
from tallyfold.errors import printable

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor

LONGEST = 40
"""Characters of a label that are shown."""
COLOUR = "#3b6ea8"


def escaped(text: object) -> str:
    """Return a text as HTML: nothing in it is read as markup, and long ones are cut.

    Examples
    --------
    >>> escaped("<b>&")
    '&lt;b&gt;&amp;'
    """
    shown = printable(text)
    return html.escape(shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…")


def html_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; numbers are set to the right."""
    head = "".join(f'<th style="text-align:left">{escaped(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    number = isinstance(value, int | float)
    text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if number else escaped(value)
    return f'<td style="text-align:{"right" if number else "left"}">{text}</td>'


def html_facts(facts: dict[str, str]) -> str:
    """Return a table of names and what there is to say of them."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escaped(name)}</th>'
        f'<td style="text-align:left">{html.escape(printable(text))}</td></tr>'
        for name, text in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def titled(title: str, *parts: str) -> str:
    """Return parts under a title."""
    return f'<div class="tallyfold"><p><strong>{escaped(title)}</strong></p>{"".join(parts)}</div>'


def frame_html(title: str, frame: Any) -> str:
    """Return a frame of pandas, at most twenty rows of it, under a title."""
    return titled(title, frame.to_html(index=False, max_rows=20, float_format="{:.4g}".format))


def histogram(tensor: CountTensor) -> str:
    """Return a drawing of how many cells have which counts."""
    bands = [(name, share) for name, share in count_bands(tensor) if share]
    most = max((share for _, share in bands), default=1.0)
    bars = "".join(
        f'<text x="56" y="{18 * n + 13}" text-anchor="end" font-size="11" fill="currentColor">'
        f"{escaped(name)}</text>"
        f'<rect x="62" y="{18 * n + 3}" width="{200 * share / most:.1f}" height="12" '
        f'fill="{COLOUR}"/>'
        f'<text x="{68 + 200 * share / most:.1f}" y="{18 * n + 13}" font-size="11" '
        f'fill="currentColor">{percent(share)}</text>'
        for n, (name, share) in enumerate(bands)
    )
    return _drawing(320, 18 * len(bands) + 4, "counts of cells", bars)


def heat(values_KD: npt.NDArray[Any], rows: Sequence[str], columns: Sequence[str]) -> str:
    """Return a drawing of a table of numbers from 0 on, darker where they are larger."""
    most = float(values_KD.max(initial=0.0)) or 1.0
    squares = []
    for k, d in np.ndindex(values_KD.shape):
        told = f"{escaped(rows[k])}, {escaped(columns[d])}: {values_KD[k, d]:.3g}"
        squares.append(
            f'<rect x="{14 * d}" y="{14 * k}" width="13" height="13" fill="{COLOUR}" '
            f'fill-opacity="{values_KD[k, d] / most:.3f}"><title>{told}</title></rect>'
        )
    n_rows, n_columns = values_KD.shape
    return _drawing(14 * n_columns, 14 * n_rows, "weights of labels", "".join(squares))


def _drawing(width: int, height: int, what: str, inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(what)}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">{inside}</svg>'
    )


def tensor_html(tensor: CountTensor, title: str = "CountTensor") -> str:
    """Return axes, sizes and the spread of counts of a tensor."""
    rows = []
    for axis in tensor.axes:
        kind = str(axis.labels.type).removeprefix("large_")
        if axis.order is not None:
            kind = axis.unit or axis.order.kind
        total_D = tensor.marginal(axis.name)
        first = int(np.argmax(total_D)) if tensor.nnz else 0
        busiest = python_values(axis.labels[first : first + 1]) if tensor.nnz else []
        rows.append((axis.name, len(axis), kind, ", ".join(map(str, busiest))))
    facts = {
        "cells with a count": f"{tensor.nnz:,}, {percent(tensor.density)} of all",
        "total": f"{tensor.total:,}",
    }
    facts |= {f"order of {a.name}": order_words(a) for a in tensor.axes if a.order is not None}
    if tensor.part is not None:
        facts["part"] = tensor.part.words()
    facts |= {f"left out ({n})": str(each) for n, each in enumerate(tensor.dropped, start=1)}
    axes = html_table(["axis", "labels", "type", "busiest"], rows)
    return titled(title, axes, html_facts(facts), histogram(tensor))
