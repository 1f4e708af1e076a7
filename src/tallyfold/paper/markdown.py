"""Frames as Markdown tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

SE = ", se"


def markdown_table(frame: pd.DataFrame, digits: int = 4) -> str:
    r"""Return a frame as a Markdown table; a standard error stands behind its mean.

    A column called like another with ``, se`` behind it holds its standard errors. Numbers are
    rounded, missing ones are dashes.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"model": ["a|b"], "mae": [0.51234], "mae, se": [0.002]})
    >>> print(markdown_table(frame))
    | model | mae |
    |---|---:|
    | a\|b | 0.5123 ± 0.0020 |
    """
    columns, rows = table_cells(frame, digits)
    rule = "|".join("---:" if name.endswith(">") else "---" for name in columns)
    heads = [_escaped(name.removesuffix(">")) for name in columns]
    lines = ["| " + " | ".join(heads) + " |", f"|{rule}|"]
    lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def table_cells(frame: pd.DataFrame, digits: int = 4) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells as text; the head of a column of numbers ends in ``>``."""
    columns = [name for name in frame.columns if not str(name).endswith(SE)]
    heads = [f"{name}>" if frame[name].dtype.kind in "iuf" else str(name) for name in columns]
    rows = [
        [_cell(row.get(name), row.get(f"{name}{SE}"), digits) for name in columns]
        for row in frame.to_dict("records")
    ]
    return heads, rows


def _cell(value: Any, error: Any, digits: int) -> str:
    import pandas as pd

    if value is None or value is pd.NA or value != value:
        return "–"
    if isinstance(value, float):
        text = _number(value, digits)
        known = isinstance(error, float) and error == error
        return f"{text} ± {error:.{digits}f}" if known else text
    return f"{value:,}" if isinstance(value, int) else str(value)


def _number(value: float, digits: int) -> str:
    """Return a number with some digits behind its point; tiny and huge ones by their exponent."""
    if value and not 10.0**-digits <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.{digits}f}"


def _escaped(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
