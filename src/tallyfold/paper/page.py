"""An experiment of the paper, written as tables (Markdown, CSV) and figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyfold.errors import StorageError
from tallyfold.inference.fit.folder import replace_file
from tallyfold.paper.experiments import EXPERIMENTS
from tallyfold.paper.figures import figures_of, is_map
from tallyfold.paper.setting import Reproduction

if TYPE_CHECKING:
    import pandas as pd

SE = ", se"

MAP_ROWS = 10
"""Places of a map that the page lists; all are in the table's file and in the figure."""


def write_reproduction(
    name: str, result: Reproduction, folder: Path, command: str, *, figures: bool = True
) -> list[Path]:
    """Write what an experiment gave, and return the files: the Markdown page first.

    Parameters
    ----------
    name
        The experiment.
    result
        What it gave.
    folder
        Where to write; files of an earlier run are replaced.
    command
        The command that made it, printed on the page.
    figures
        Whether to draw figures, too.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = _write_figures(name, result, folder) if figures else []
        page = folder / f"{name}.md"
        text = page_of(name, result, command, [file.name for file in drawn])
        replace_file(page, text.encode())
        tables = []
        for title, frame in result.tables.items():
            tables.append(folder / _table_file(name, title))
            replace_file(tables[-1], frame.to_csv(index=False).encode())
    except OSError as error:
        raise StorageError(
            f"{str(folder)!r} could not be written: {error.strerror or error}. Finished fits are "
            "kept; the same command in a folder that can be written goes on from them."
        ) from error
    return [page, *tables, *drawn]


def page_of(name: str, result: Reproduction, command: str, figures: list[str]) -> str:
    """Return the Markdown page of an experiment."""
    experiment = EXPERIMENTS[name]
    asks = experiment.asks if experiment.asks.endswith("?") else f"{experiment.asks}."
    lines = [f"# {name}", "", f"{asks} The paper's {experiment.place}.", ""]
    lines += [f"Made by `{command}`.", ""]
    lines += [f"- {note}" for note in result.notes]
    for title, frame in result.tables.items():
        shown = frame.head(MAP_ROWS) if is_map(frame) else frame
        lines += ["", f"## {title}", "", markdown_table(shown)]
        if len(shown) < len(frame):
            lines += ["", f"{len(frame) - len(shown)} more rows are in {_table_file(name, title)}."]
    lines += [f"\n![{name}]({file})" for file in figures]
    return "\n".join(lines) + "\n"


def _write_figures(name: str, result: Reproduction, folder: Path) -> list[Path]:
    import io

    files = []
    for title, axes in figures_of(name, result).items():
        figure, buffer = axes.get_figure(root=True), io.BytesIO()
        assert figure is not None
        figure.savefig(buffer, format="png", dpi=150)
        files.append(folder / f"{name}-{_slug(title)}.png")
        replace_file(files[-1], buffer.getvalue())
    return files


def _table_file(name: str, title: str) -> str:
    return f"{name}-{_slug(title)}.csv"


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


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
