"""The figures of the paper's experiments, drawn from their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tallyfold.evaluation.paper.setting import Reproduction
from tallyfold.evaluation.paper.synthetic_rank import MORE
from tallyfold.evaluation.paper.synthetic_recipe import TRUE_COMPONENTS
from tallyfold.report.plots.curves import score_curves
from tallyfold.report.plots.dots import score_bars
from tallyfold.report.plots.entities import top_entities_bars
from tallyfold.report.plots.map_of_entities import entity_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Drawn = dict[str, "Axes"]
MOST_LINES = 8


def _bars(*wanted: tuple[str, str, str, bool]) -> Callable[[Reproduction], Drawn]:
    """Return a function that draws columns of the first table: title, column, label, published."""

    def draw(result: Reproduction) -> Drawn:
        table = next(iter(result.tables.values()))
        drawn = {}
        for title, column, label, published in wanted:
            if column not in table:
                continue
            part = table[table[column].notna()]
            panels = score_bars(
                part,
                column,
                error=_if_there(part, f"{column}, se"),
                published=_if_there(part, "published") if published else None,
                xlabel=label,
                title=title,
            )
            drawn[title] = panels.ravel()[0]
        return drawn

    return draw


def subsample_figures(result: Reproduction) -> Drawn:
    """Draw scores against the share of the data, a figure for each data set and score."""
    paper, same = result.tables.values()
    drawn = {}
    for table, score, label in (
        (paper, "MAE of the mean", "MAE of the mean, as the paper ran it"),
        (same, "log pmf given y >= 1", "log pmf given y ≥ 1, zeros missing"),
    ):
        for dataset, part in table.dropna(subset=score).groupby("dataset", sort=False):
            lines = part[part["model"].isin(_first_models(part))]
            lines = lines.assign(share=lines["share"].str.rstrip("%").astype(float))
            drawn[f"{dataset} {score}"] = score_curves(
                lines,
                "share",
                score,
                "model",
                _if_there(lines, f"{score}, se"),
                log="x",
                xlabel="share of the cells, %",
                ylabel=label,
                title=f"{dataset}: {label}",
            )
    return drawn


def rank_figures(result: Reproduction) -> Drawn:
    """Draw the negative log-likelihood against the number of components, less that at the truth."""
    import pandas as pd

    table, _ = result.tables.values()
    kinds = {cells: MORE.format(cells) for cells in ("fitted cells", "held-out cells")}
    long = pd.concat(
        table.assign(cells=cells, more=table[column], se=table[f"{column}, se"])
        for cells, column in kinds.items()
    )
    return {
        f"{data} {model}": score_curves(
            part,
            "components",
            "more",
            "cells",
            _if_there(part, "se"),
            ylabel=f"negative log-likelihood per cell, less that of {TRUE_COMPONENTS}",
            title=f"{model}, {data} (truly {TRUE_COMPONENTS})",
        )
        for (data, model), part in long.groupby(["dataset", "model"], sort=False)
    }


def recovery_figures(result: Reproduction) -> Drawn:
    """Draw correlations with the truth against the share of the data."""
    (table,) = result.tables.values()
    table = table.assign(share=table["share"].str.rstrip("%").astype(float))
    return {
        str(kind): score_curves(
            part,
            "share",
            "mean",
            "model",
            "standard_error",
            xlabel="share of the cells, %",
            ylabel="correlation with the truth",
            title=f"Correlation with the truth: {kind}",
        )
        for kind, part in table.dropna(subset="mean").groupby("correlation of", sort=False)
    }


def complexity_figures(result: Reproduction) -> Drawn:
    """Draw the time of an iteration against cells, components and units."""
    table = next(iter(result.tables.values()))
    most = table.groupby("dataset")["cells"].transform("max")
    parts = {
        "cells": table[(table["components"] == 10) & (table["units"] == 20)],
        "components": table[(table["cells"] == most) & (table["units"] == 20)],
        "units": table[(table["cells"] == most) & (table["components"] == 10)],
    }
    return {
        f"{dataset} {x}": score_curves(
            rows,
            x,
            "seconds",
            "model",
            log="xy",
            xlabel={"cells": "cells", "components": "components", "units": "hidden units"}[x],
            ylabel="seconds an iteration",
            title=f"{dataset}: seconds an iteration by {x}",
        )
        for x, part in parts.items()
        for dataset, rows in part.groupby("dataset", sort=False)
    }


def qualitative_figures(result: Reproduction) -> Drawn:
    """Draw profiles and strongest entities of each pair, and the maps."""
    drawn: Drawn = {}
    for title, table in result.tables.items():
        if is_map(table):
            drawn[title] = entity_map(table, "component", title=title)
            continue
        who = table.columns[-1]
        for entity, part in table.groupby(who, sort=False):
            drawn[f"{title} {entity}"] = _entity_bars(f"{title}: {entity}", part)
    return drawn


def is_map(table: pd.DataFrame) -> bool:
    """Tell the places of entities on a map from other tables."""
    return {"x", "y", "label"} <= set(table)


def _entity_bars(title: str, part: pd.DataFrame) -> Axes:
    if "component" not in part:
        return top_entities_bars(part, title=title)
    scale = part["share"] / part["mean"].clip(lower=1e-300)
    shares = part.assign(
        label="component " + part["component"].astype(str),
        mean=part["share"],
        low=part["low"] * scale,
        high=part["high"] * scale,
    )
    ax = top_entities_bars(shares, top=len(shares), title=title)
    ax.set_xlabel("rate of the component over the mean rate of all (90 % intervals)")
    return ax


def _if_there(table: pd.DataFrame, column: str) -> str | None:
    return column if column in table and table[column].notna().any() else None


def _first_models(table: pd.DataFrame) -> list[Any]:
    """Return the models to draw, as many as can be told apart; the plain constant is left out."""
    return [name for name in table["model"].unique() if name != "constant"][:MOST_LINES]


LOWER, HIGHER = "lower is better", "higher is better"
FIGURES: dict[str, Callable[[Reproduction], Drawn]] = {
    "synthetic-rank": rank_figures,
    "synthetic-recovery": recovery_figures,
    "mae": _bars(
        ("MAE as the paper ran it", "as the paper ran it", f"MAE ({LOWER})", True),
        ("MAE with zeros missing", "zeros missing", f"MAE of the mean ({LOWER})", False),
        ("Log score", "log pmf given y >= 1", f"log pmf given y ≥ 1 ({HIGHER})", False),
    ),
    "loglik": _bars(
        (
            "Log-likelihood as the paper ran it",
            "as the paper ran it",
            f"y ln λ - λ per cell ({HIGHER})",
            True,
        ),
        ("Log score", "log pmf given y >= 1", f"log pmf given y ≥ 1 ({HIGHER})", False),
    ),
    "ablation": _bars(("MAE", "MAE", f"MAE of the mean ({LOWER})", True)),
    "subsample": subsample_figures,
    "coherence": _bars(
        ("NPMI as the paper ran it", "as the paper ran it", f"NPMI ({HIGHER})", True),
        ("NPMI with zeros missing", "zeros missing", f"NPMI ({HIGHER})", False),
        (
            "NPMI by component as the paper ran it",
            "as the paper ran it, by component",
            f"NPMI ({HIGHER})",
            False,
        ),
        (
            "NPMI by component with zeros missing",
            "zeros missing, by component",
            f"NPMI ({HIGHER})",
            False,
        ),
    ),
    "qualitative": qualitative_figures,
    "complexity": complexity_figures,
}
"""Functions that draw an experiment's figures, by its name: titles and axes."""
