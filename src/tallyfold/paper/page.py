"""An experiment of the paper, written as tables (Markdown, CSV) and figures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyfold.errors import StorageError
from tallyfold.inference.fit.folder import replace_file
from tallyfold.paper.experiments import EXPERIMENTS
from tallyfold.paper.published import described
from tallyfold.paper.setting import Reproduction
from tallyfold.paper.synthetic import MORE, TRUE_COMPONENTS
from tallyfold.report import plots

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_LINES = 8
SHARE = "share of the cells, %"

Curves = Iterator[tuple[str, tuple[Any, ...], dict[str, str]]]
"""The title of a figure, and what `score_curves` takes."""
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
        drawn = _pictures(name, result) if figures else {}
        page = page_of(name, result, command, [*drawn]).encode()
        tables = {
            _file(name, title, "csv"): frame.to_csv(index=False).encode()
            for title, frame in result.tables.items()
        }
        files = {f"{name}.md": page} | tables | drawn
        for file, content in files.items():
            replace_file(folder / file, content)
    except OSError as error:
        raise StorageError(
            f"{str(folder)!r} could not be written: {error.strerror or error}. Finished fits are "
            "kept; the same command in a folder that can be written goes on from them."
        ) from error
    return [folder / file for file in files]


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
            rest = f"{len(frame) - len(shown)} more rows are in {_file(name, title, 'csv')}."
            lines += ["", rest]
    lines += [f"\n![{name}]({file})" for file in figures]
    return "\n".join(lines) + "\n"


def _pictures(name: str, result: Reproduction) -> dict[str, bytes]:
    """Return the figures of an experiment as PNG, by the names of their files."""
    found = {}
    for title, axes in figures_of(name, result).items():
        figure: Any = axes.get_figure(root=True)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
        found[_file(name, title, "png")] = buffer.getvalue()
    return found


def _file(name: str, title: str, ending: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return f"{name}-{slug}.{ending}"


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


def figures_of(name: str, result: Reproduction) -> dict[str, Axes]:
    """Draw the figures of an experiment, by title; of several panels the first is given."""
    if name == "qualitative":
        return dict(_qualitative(result))
    if name in CURVES:
        lines = CURVES[name](result)
        return {title: plots.score_curves(*data, **words) for title, data, words in lines}  # type: ignore[arg-type]
    return dict(_dots(name, next(iter(result.tables.values()))))


def _dots(name: str, table: pd.DataFrame) -> Iterator[tuple[str, Axes]]:
    """Draw the columns of a table that `experiments.toml` names."""
    for one in described()[name]["dots"]:
        column = one["column"]
        if column not in table:
            continue
        part = table[table[column].notna()]
        panels = plots.score_bars(
            part,
            column,
            error=_if_there(part, f"{column}, se"),
            published=_if_there(part, "published") if one.get("published") else None,
            xlabel=one["label"],
            title=one["title"],
        )
        yield one["title"], panels.ravel()[0]


def _subsample(result: Reproduction) -> Curves:
    """Draw scores against the share of the data, a figure for each data set and score."""
    paper, same = result.tables.values()
    for table, score, label in (
        (paper, "MAE of the mean", "MAE of the mean, as the paper ran it"),
        (same, "log pmf given y >= 1", "log pmf given y ≥ 1, zeros missing"),
    ):
        for dataset, part in _with_shares(table, score).groupby("dataset", sort=False):
            models = [model for model in part["model"].unique() if model != "constant"]
            lines = part[part["model"].isin(models[:MOST_LINES])]  # that can be told apart
            data = lines, "share", score, "model", _if_there(lines, f"{score}, se")
            words = {"xlabel": SHARE, "ylabel": label, "title": f"{dataset}: {label}", "log": "x"}
            yield f"{dataset} {score}", data, words


def _rank(result: Reproduction) -> Curves:
    """Draw the negative log-likelihood against the number of components, less that at the truth."""
    import pandas as pd

    table, _ = result.tables.values()
    kinds = {cells: MORE.format(cells) for cells in ("fitted cells", "held-out cells")}
    long = pd.concat(
        table.assign(cells=cells, more=table[column], se=table[f"{column}, se"])
        for cells, column in kinds.items()
    )
    label = f"negative log-likelihood per cell, less that of {TRUE_COMPONENTS}"
    for (data, model), part in long.groupby(["dataset", "model"], sort=False):
        words = {"ylabel": label, "title": f"{model}, {data} (truly {TRUE_COMPONENTS})"}
        yield f"{data} {model}", (part, "components", "more", "cells", _if_there(part, "se")), words


def _recovery(result: Reproduction) -> Curves:
    """Draw correlations with the truth against the share of the data."""
    (table,) = result.tables.values()
    for kind, part in _with_shares(table, "mean").groupby("correlation of", sort=False):
        words = {"xlabel": SHARE, "ylabel": "correlation with the truth"}
        words["title"] = f"Correlation with the truth: {kind}"
        yield str(kind), (part, "share", "mean", "model", "standard_error"), words


def _complexity(result: Reproduction) -> Curves:
    """Draw the time of an iteration against cells, components and units."""
    table = next(iter(result.tables.values()))
    all_cells = table["cells"] == table.groupby("dataset")["cells"].transform("max")
    ten, twenty = table["components"] == 10, table["units"] == 20
    for x, label, rows in (
        ("cells", "cells", ten & twenty),
        ("components", "components", all_cells & twenty),
        ("units", "hidden units", all_cells & ten),
    ):
        for dataset, part in table[rows].groupby("dataset", sort=False):
            words = {"xlabel": label, "ylabel": "seconds an iteration", "log": "xy"}
            words["title"] = f"{dataset}: seconds an iteration by {x}"
            yield f"{dataset} {x}", (part, x, "seconds", "model"), words


def _qualitative(result: Reproduction) -> Iterator[tuple[str, Axes]]:
    """Draw profiles and strongest entities of each pair, and the maps."""
    for title, table in result.tables.items():
        if is_map(table):
            yield title, plots.entity_map(table, "component", title=title)
            continue
        for entity, part in table.groupby(table.columns[-1], sort=False):
            yield f"{title} {entity}", _entity_bars(f"{title}: {entity}", part)


def is_map(table: pd.DataFrame) -> bool:
    """Tell the places of entities on a map from other tables."""
    return {"x", "y", "label"} <= set(table)


def _entity_bars(title: str, part: pd.DataFrame) -> Axes:
    if "component" not in part:
        return plots.top_entities_bars(part, title=title)
    scale = part["share"] / part["mean"].clip(lower=1e-300)
    shares = part.assign(
        label="component " + part["component"].astype(str),
        mean=part["share"],
        low=part["low"] * scale,
        high=part["high"] * scale,
    )
    ax = plots.top_entities_bars(shares, top=len(shares), title=title)
    ax.set_xlabel("rate of the component over the mean rate of all (90 % intervals)")
    return ax


def _with_shares(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return the rows that have a score, with shares as numbers: per cent."""
    table = table.dropna(subset=score)
    return table.assign(share=table["share"].str.rstrip("%").astype(float))


def _if_there(table: pd.DataFrame, column: str) -> str | None:
    return column if column in table and table[column].notna().any() else None


CURVES: dict[str, Callable[[Reproduction], Curves]] = {
    "synthetic-rank": _rank,
    "synthetic-recovery": _recovery,
    "subsample": _subsample,
    "complexity": _complexity,
}
"""The lines of experiments that are drawn as such; `mae` and its like are dots."""
