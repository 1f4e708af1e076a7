"""Every model on real tensors, under both treatments of zeros: docs/results/models.md.

    python benchmarks/results_models.py --data FOLDER --out docs/results/models.md

FOLDER holds tidy Parquet tensors: a text column per axis, and `count`. One 80-20 split (seed 0),
10 components. Rows are kept in --rows as they come, so that an interrupted run goes on.
"""

import argparse
import json
from pathlib import Path

import tallyfold as tf
from tallyfold.evaluation.compare import compare

TENSORS = {
    "nips": ["author", "word", "year"],
    "movie_rating": ["user", "movie", "day"],
    "aiv5_rating": ["user", "video"],
    "grocery": ["household", "category", "day"],
}

MISSING = {
    "constant, Poisson": ("constant", {"likelihood": "poisson"}),
    "constant, negative binomial": ("constant", {}),
    "main effects": ("main-effects", {}),
    "main effects, negative binomial": ("main-effects", {"likelihood": "negative-binomial"}),
    "BPTF, the literature's form": (
        "bptf",
        {"truncated": False, "validation": None, "max_iter": 30},
    ),
    "BPTF": ("bptf", {}),
    "BPTF, negative binomial": ("bptf", {"likelihood": "negative-binomial"}),
    "BPTF by Gibbs": ("bptf-gibbs", {}),
    "Online-Gibbs": ("online-gibbs", {}),
    "PTF-KL": ("ptf-kl", {}),
    "NTF-LS": ("ntf-ls", {}),
    "MLP-TF, squared": ("mlp-tf", {}),
    "MLP-TF, Poisson": ("mlp-tf", {"loss": "poisson"}),
}
OBSERVED = {
    "constant, Poisson": ("constant", {"likelihood": "poisson"}),
    "main effects": ("main-effects", {}),
    "BPTF": ("bptf", {}),
    "BPTF by Gibbs": ("bptf-gibbs", {}),
    "Online-Gibbs": ("online-gibbs", {}),
    "PTF-KL": ("ptf-kl", {}),
    "NTF-LS": ("ntf-ls", {}),
    "MLP-TF, squared": ("mlp-tf", {}),
}
INTRODUCTION = """\
# Every model on real tensors

Made by `python benchmarks/results_models.py --data FOLDER --out docs/results/models.md`: one 80-20
split of the non-zero cells (seed 0), 10 components, defaults where nothing is said. One seed:
differences in the third digit are noise.

- **log pmf | y ≥ 1** is the proper score when zeros are missing: the mean log probability of a
  held-out count given that it is not zero. Read models by it.
- **log pmf** is the same with zeros possible. Models that never saw a zero do not know how many
  there are, so it says little about them.
- **y ln λ - λ** is the paper's log-likelihood, without ln y!, at the predicted rate. The rate of a
  truncated or calibrated model is not the mean of a seen count: compare it only among plain Poisson
  fits (*the literature's form*, and zeros observed).
- **MAE** is of the predicted mean and of the predicted median, both given that the cell is seen
  when zeros are missing.
- With zeros observed a model is asked about cells that it was taught are mostly zero. That, not the
  model, is what makes its error large.
- Seconds are of one fit on two cores, compiling included where a kernel is met first, and rough:
  other work ran at times."""
HEAD = (
    "| model | MAE, mean | MAE, median | log pmf \\| y ≥ 1 | log pmf | y ln λ - λ | iterations "
    "| seconds |"
)
COLUMNS = ["mae-mean", "mae-median", "log-pmf-positive", "log-pmf", "paper-form"]


def run(folder: Path, rows_file: Path, names: list[str]) -> list[dict]:
    kept = rows_file.read_text().splitlines() if rows_file.exists() else []
    rows = [json.loads(line) for line in kept]
    done = {(row["tensor"], row["zeros"], row["model"]) for row in rows}
    for name in names:
        tensor = tf.read_counts(folder / f"{name}.parquet", axes=TENSORS[name], value="count")
        train, test = tf.split(tensor, 0.2, random_state=0)
        for zeros, models in (("missing", MISSING), ("observed", OBSERVED)):
            for label, (kind, parameters) in models.items():
                if (name, zeros, label) in done or kind not in tf.MODELS:
                    continue
                print(f"{name}, zeros {zeros}: {label} ...", flush=True)
                model = tf.MODELS[kind](zeros=zeros, **parameters)
                table = compare({label: model}, train, test, COLUMNS)
                row = {
                    "tensor": name,
                    "zeros": zeros,
                    **json.loads(table.to_json(orient="records"))[0],
                }
                rows.append(row)
                with rows_file.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
    return rows


def written(rows: list[dict]) -> str:
    lines = [INTRODUCTION]
    for name in dict.fromkeys(row["tensor"] for row in rows):
        for zeros in ("missing", "observed"):
            order = list(MISSING if zeros == "missing" else OBSERVED)
            part = [row for row in rows if row["tensor"] == name and row["zeros"] == zeros]
            part.sort(key=lambda row: order.index(row["model"]))
            if part:
                lines += [f"\n## {name}, zeros {zeros}\n", HEAD, "|---" * 8 + "|"]
                lines += [line_of(row) for row in part]
    return "\n".join(lines) + "\n"


def line_of(row: dict) -> str:
    if row["error"]:
        return f"| {row['model']} | failed: {row['error']} | | | | | | {row['seconds']:.1f} |"
    scores = " | ".join("–" if row[c] is None else f"{row[c]:.4f}" for c in COLUMNS)
    return f"| {row['model']} | {scores} | {row['iterations']:.0f} | {row['seconds']:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=Path, help="default: beside --out, ending in .jsonl")
    parser.add_argument("--tensors", nargs="*", default=list(TENSORS))
    given = parser.parse_args()
    rows = run(given.data, given.rows or given.out.with_suffix(".jsonl"), given.tensors)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(written(rows))


if __name__ == "__main__":
    main()
