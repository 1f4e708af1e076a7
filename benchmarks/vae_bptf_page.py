"""The page docs/results/vae-bptf.md, from rows of results_vae_bptf.py and check_vae_bptf.py."""

import math
from pathlib import Path

import numpy as np

TEXT = Path(__file__).with_name("vae_bptf_page.md")
BASELINES = ("BPTF, tuned", "main effects", "constant, negative binomial", "constant, Poisson")
FLAGSHIP = "VAE-BPTF"


def page(rows: list[dict], tensors: list[str], models: list[str]) -> str:
    """Fill the tables into the text."""
    scored = list({key(row): row for row in rows if "check" not in row}.values())
    tables = {
        "GAINS": gains(scored, tensors),
        "SCORES": scores(scored, tensors, models),
        "BESIDE": beside(scored, tensors, models),
        "STABILITY": stability([row for row in rows if row.get("check") == "stability"]),
        "FOLD_IN": fold_in([row for row in rows if row.get("check") == "fold-in"]),
        "RECOVERY": recovery([row for row in rows if row.get("check") == "recovery"]),
    }
    text = TEXT.read_text()
    for name, table in tables.items():
        text = text.replace("{" + name + "}", table)
    return text


def key(row: dict) -> tuple:
    return row["tensor"], row["split"], row["model"]


def by_split(rows: list[dict], tensor: str, model: str, column: str) -> dict[int, float]:
    chosen = [row for row in rows if row["tensor"] == tensor and row["model"] == model]
    return {row["split"]: row[column] for row in chosen}


def gains(rows: list[dict], tensors: list[str]) -> str:
    """Paired differences between the flagship and the best baseline of each tensor."""
    lines = [
        "| tensor | cells | best baseline | gain in log pmf | error | gain in errors "
        "| gain in median's MAE | error | splits |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for tensor in tensors:
        ours = by_split(rows, tensor, FLAGSHIP, "log_pmf")
        if len(ours) < 2:
            continue
        best = max(BASELINES, key=lambda m: mean(by_split(rows, tensor, m, "log_pmf")))
        gain, error, n = paired(ours, by_split(rows, tensor, best, "log_pmf"))
        steadiest = min(BASELINES, key=lambda m: mean(by_split(rows, tensor, m, "mae_median"), 9))
        better, wobble, _ = paired(
            by_split(rows, tensor, steadiest, "mae_median"),
            by_split(rows, tensor, FLAGSHIP, "mae_median"),
        )
        cells = next(row["cells"] for row in rows if row["tensor"] == tensor)
        lines.append(
            f"| {tensor} | {cells:,} | {best} | {gain:+.4f} | {error:.4f} | {gain / error:+.1f} "
            f"| {better:+.4f} (over {steadiest}) | {wobble:.4f} | {n} |"
        )
    return "\n".join(lines)


def mean(values: dict[int, float], missing: float = -9.0) -> float:
    return float(np.mean(list(values.values()))) if values else missing


def paired(ours: dict[int, float], theirs: dict[int, float]) -> tuple[float, float, int]:
    """Return the mean difference over common splits, its standard error and their number."""
    both = sorted(set(ours) & set(theirs))
    difference = np.array([ours[split] - theirs[split] for split in both])
    error = difference.std(ddof=1) / math.sqrt(len(both)) if len(both) > 1 else math.nan
    return float(difference.mean()), float(error), len(both)


def scores(rows: list[dict], tensors: list[str], models: list[str]) -> str:
    """Means over splits of the models that ran on all of them."""
    several = [m for m in models if any(row["model"] == m and row["split"] > 0 for row in rows)]
    return table(rows, tensors, several, None)


def beside(rows: list[dict], tensors: list[str], models: list[str]) -> str:
    """The first split of every model."""
    return table(rows, tensors, models, 0)


def table(rows: list[dict], tensors: list[str], models: list[str], split: int | None) -> str:
    lines = [
        "| tensor | model | log pmf \\| y ≥ 1 | MAE, median | MAE, mean | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for tensor in tensors:
        for model in models:
            part = [
                row
                for row in rows
                if (row["tensor"], row["model"]) == (tensor, model)
                and split in (None, row["split"])
            ]
            if part:
                cells = [np.mean([row[c] for row in part]) for c in COLUMNS]
                numbers = " | ".join(f"{value:.4f}" for value in cells[:-1])
                lines.append(f"| {tensor} | {model} | {numbers} | {cells[-1]:.0f} |")
    return "\n".join(lines)


COLUMNS = ("log_pmf", "mae_median", "mae_mean", "seconds")


def stability(rows: list[dict]) -> str:
    lines = [
        "| tensor | share | form | fits | failed | not finite | worst difference to the constant "
        "| median difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    keys = dict.fromkeys((row["tensor"], row["share"], row["form"]) for row in rows)
    for tensor, share, form in sorted(keys):
        part = [r for r in rows if (r["tensor"], r["share"], r["form"]) == (tensor, share, form)]
        ended = [row for row in part if not row["error"]]
        gain = [row["score"] - row["constant"] for row in ended] or [math.nan]
        odd = sum(not row["finite"] for row in ended)
        lines.append(
            f"| {tensor} | {share:.0%} | {form} | {len(part)} | {len(part) - len(ended)} | {odd} "
            f"| {min(gain):+.4f} | {np.median(gain):+.4f} |"
        )
    return "\n".join(lines)


def fold_in(rows: list[dict]) -> str:
    lines = [
        "| seed | new authors | hidden cells | constant | axis mean | fold-in | refit "
        "| way from constant to refit | ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        way = (row["fold-in"] - row["constant"]) / (row["refit"] - row["constant"])
        lines.append(
            f"| {row['seed']} | {row['authors']} | {row['hidden']:,} | {row['constant']:.4f} "
            f"| {row['axis mean']:.4f} | {row['fold-in']:.4f} | {row['refit']:.4f} | {way:.0%} "
            f"| {row['milliseconds']:.0f} |"
        )
    return "\n".join(lines)


def recovery(rows: list[dict]) -> str:
    ranks = sorted({row["n_components"] for row in rows})
    lines = [
        "| seed | " + " | ".join(f"K={k}" for k in ranks) + " |",
        "|---" * (1 + len(ranks)) + "|",
    ]
    for seed in sorted({row["seed"] for row in rows}):
        by_rank = {row["n_components"]: row["score"] for row in rows if row["seed"] == seed}
        best = max(by_rank.values())
        cells = [f"{by_rank[k]:.4f}" if k in by_rank else "–" for k in ranks]
        cells = [
            f"**{c}**" if by_rank.get(k) == best else c for k, c in zip(ranks, cells, strict=True)
        ]
        lines.append(f"| {seed} | " + " | ".join(cells) + " |")
    names = ["correlation", "rate coverage", "mean-field rate coverage", "factor coverage"]
    names.append("predictive coverage")
    lines += ["", "| seed | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    for row in rows:
        if "correlation" in row:
            lines.append(f"| {row['seed']} | " + " | ".join(f"{row[n]:.3f}" for n in names) + " |")
    return "\n".join(lines)
