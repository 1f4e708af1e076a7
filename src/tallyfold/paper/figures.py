"""The figures of the paper's experiments, drawn from their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tallyfold.paper.descriptions import described
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
