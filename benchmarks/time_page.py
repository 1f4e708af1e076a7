"""The page of forecasts, from rows of `results_time.py`.

    python benchmarks/time_page.py --rows ROWS --out docs/results/time.md

ROWS is the folder of the runs, or the rows as the page's own .jsonl keeps them, which is written
beside the page. Its words are those of `time_page.md`.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from results_time import LOGS, MODELS

FLAGSHIP = "dynamic"
SHARING = ("dynamic", "LightGBM on lags")
"""Totals of labels are told from the memory that these share with the smoothed past."""
COLUMNS = ["log", "origin", "period", "ahead", "model", "combinations", "metric", "value", "cells",
           "new_labels", "seconds", "version"]  # fmt: skip


def rows_of(path: Path) -> pd.DataFrame:
    """Return all rows, of a folder of runs or of a file."""
    if path.suffix == ".jsonl":
        return pd.read_json(
            path, orient="records", lines=True, dtype={"origin": str, "period": str}
        )
    found = [
        pd.read_parquet(path / log).assign(log=log)
        for log in LOGS
        if list((path / log).glob("*.parquet"))
    ]
    rows = pd.concat(found, ignore_index=True)
    failed = rows[rows["error"].notna()]
    if len(failed):
        raise SystemExit(f"fits failed: {failed[['log', 'origin', 'model', 'error']].to_string()}")
    return rows[COLUMNS].sort_values(COLUMNS[:7], kind="stable", ignore_index=True)


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plural(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def cells_table(rows: pd.DataFrame) -> list[str]:
    """Return a line per model: log scores, and how far the flagship is above it."""
    whole = rows[rows["combinations"] == "all"].pivot_table("value", ["model", "origin"], "metric")
    sets = rows[rows["metric"] == "total"].pivot_table("value", "model", "combinations")
    base = whole.loc[FLAGSHIP, "total"]
    heads = ["model", "occurrence", "amount", "total", "seen", "new", "dynamic less it", "worst"]
    lines = [line(heads), "|---" * len(heads) + "|"]
    for model in [label for label in MODELS if label in sets.index]:
        own = whole.loc[model]
        off = (base - own["total"]).dropna()
        error = off.std(ddof=1) / np.sqrt(len(off))
        mean = f"{off.mean():+.4f} ± {error:.4f}"
        if off.mean() > 2 * error:
            mean = f"**{mean}**"
        cells = [model, *(f"{own[m].mean():.3f}" for m in ("occurrence", "amount", "total"))]
        cells += [f"{sets.loc[model, kind]:.3f}" for kind in ("seen", "new")]
        cells += ["", ""] if model == FLAGSHIP else [mean, f"{off.min():+.3f}"]
        lines.append(line(cells))
    return lines


def totals_table(rows: pd.DataFrame) -> list[str]:
    """Return a line per model: totals of periods."""
    whole = rows[rows["combinations"] == "all"].pivot_table("value", "model", "metric")
    heads = ["model", "MAE", "CRPS", "inside"]
    lines = [line(heads), "|---" * len(heads) + "|"]
    for model in [label for label in MODELS if label in whole.index]:
        own = whole.loc[model]
        cells = [model, f"{own['period absolute error']:,.0f}", f"{own['period crps']:,.0f}"]
        lines.append(line([*cells, f"{own['period inside']:.2f}"]))
    return lines


def labels_table(rows: pd.DataFrame) -> list[str]:
    """Return a line per model and axis: totals of its labels."""
    labels = rows[rows["metric"].str.startswith("label ") & ~rows["model"].isin(SHARING)]
    found = labels.pivot_table("value", ["combinations", "model"], "metric")
    heads = ["labels of", "model", "MAE", "CRPS", "inside"]
    lines = [line(heads), "|---" * len(heads) + "|"]
    for axis in dict.fromkeys(labels["combinations"]):
        for model in [label for label in MODELS if (axis, label) in found.index]:
            own = found.loc[axis, model]
            cells = [axis, model, f"{own['label absolute error']:.2f}", f"{own['label crps']:.2f}"]
            lines.append(line([*cells, f"{own['label inside']:.3f}"]))
    return lines


def section(log: str, rows: pd.DataFrame) -> list[str]:
    """Return what there is of a log."""
    about, origins = LOGS[log], sorted(set(rows["origin"]))
    thinned = "" if about.every == 1 else f", every third {about.thinned}"
    lines = [f"## {log}, by {about.unit}{thinned}", ""]
    lines += [f"{len(origins)} origins, {origins[0]} to {origins[-1]}.", ""]
    for ahead in (1, about.horizon):
        part = rows[rows["ahead"] == ahead]
        part = part[part["metric"] != "odd"]
        lines += [f"**{plural(ahead, about.unit)} ahead**", "", *cells_table(part), ""]
        lines += [*totals_table(part), "", *labels_table(part), ""]
    odd = rows[rows["metric"] == "odd"]["value"]
    if len(odd):
        lines += [
            f"Counts of the next {about.unit} with a `p` below 0.01 in `surprise`: "
            f"{odd.mean():.1%} ({odd.min():.1%} to {odd.max():.1%} over {len(odd)} origins).",
            "",
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = rows_of(given.rows)
    rows.to_json(given.out.with_suffix(".jsonl"), orient="records", lines=True)
    words = Path(__file__).with_name("time_page.md").read_text(encoding="utf-8")
    told = [section(log, rows[rows["log"] == log]) for log in LOGS if log in set(rows["log"])]
    text = words.replace("{logs}", "\n".join(each for part in told for each in part).strip())
    given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
