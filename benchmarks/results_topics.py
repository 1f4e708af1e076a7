"""Whether components can be read: words that stand together, models beside topic models.

    python benchmarks/results_topics.py --data FOLDER --out ROWS

FOLDER holds nips.parquet: author, word, year and `count`; the demo comes with the library. Every
model sees the same counts, the topic models as documents x words. The ten words of a component are
those of the highest probability in it, or of the highest relevance (LDAvis, 0.6); they are scored
by the mean NPMI of their pairs in these documents, and by how many of all words listed are
distinct. Rows are kept in ROWS as in results_complete_logs.py.
"""

import argparse
from pathlib import Path

import numpy as np

import tallyfold as tf
from kept_rows import installed, limited_to, listed, run_missing, timed
from results_topic_words import NEEDS, RELEVANCE, TOP, library, topics
from results_topic_words import prepare as texts
from rivals.topics import fit_lda, fit_nmf, fit_tomotopy, normalised
from tallyfold.evaluation.words.coherence import coherence_by_component

SEEDS = 3

N_TOPICS = {"nips": 20, "demo": 10}
"""How many topics a text gets; its rows are those of "nips topics", "demo topics"."""
NAMES = [f"{text} topics" for text in N_TOPICS]
MODELS = {
    "NMF (scikit-learn)": topics(fit_nmf),
    "LDA (scikit-learn)": topics(fit_lda),
    "LDA (tomotopy)": topics(fit_tomotopy),
    "BPTF": library(lambda **given: tf.BPTF(zeros="observed", **given)),
    "VAE-BPTF": library(lambda **given: tf.VAEBPTF(zeros="observed", **given)),
}


def prepare(folder, name, seed):
    """Return the tensor, its documents x words, where words stand together, and what to fit."""
    text = name.removesuffix(" topics")
    tensor, documents_DV, reference, _ = texts(text, folder)
    return tensor, documents_DV, reference, N_TOPICS[text], seed


def measure(label, tensor, documents_DV, reference, n_topics, seed, threads):
    """Fit one model, by the clock, and score its words."""
    fitted, row = timed(lambda: MODELS[label](tensor, documents_DV, n_topics, seed), threads)
    scores = {}
    if isinstance(fitted, np.ndarray):
        probability_KV = fitted
    else:
        probability_KV = normalised(fitted.posterior_.mean("word").T)
        with limited_to(threads):
            listed_words = coherence_by_component(fitted, "word", reference, top=TOP)
        scores["npmi-listed"] = listed_words.mean
        scores["n-listed"] = len(listed_words.scores)
        show(label, listed_words.scores["words"])
    overall_V = np.asarray(documents_DV.sum(axis=0)).ravel() / documents_DV.sum()
    for name, value_KV in (
        ("probability", probability_KV),
        ("relevance", relevance(probability_KV, overall_V)),
    ):
        words_KT = np.argsort(-value_KV, axis=1, kind="stable")[:, :TOP]
        labels = np.array(tensor.axis("word").labels.to_pylist())[words_KT]
        scores[f"npmi-{name}"] = float(np.mean([reference.npmi(words) for words in labels]))
        scores[f"distinct-{name}"] = len(np.unique(words_KT)) / words_KT.size
        show(f"{label}, by {name}", labels)
    return row | {"train_cells": tensor.nnz, "test_cells": 0, "scores": scores}


def relevance(probability_KV, overall_V):
    """Return how relevant words are to topics, as LDAvis (Sievert and Shirley, 2014) has it."""
    log_KV = np.log(np.maximum(probability_KV, 1e-300))
    return log_KV - (1 - RELEVANCE) * np.log(np.maximum(overall_V, 1e-300))


def show(title, lists):
    print(f"  {title}")
    for words in lists:
        print("   ", *words)


def run(folder, rows, texts, models, seeds, threads):
    """Fit and score what has no rows yet."""
    models = installed(models, NEEDS)
    run_missing(
        rows,
        [(name, seed) for seed in seeds for name in texts],
        lambda name: models,
        lambda name, seed: prepare(folder, name, seed),
        lambda label, *data: measure(label, *data, threads),
        {"split": "none", "zeros": "observed"},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=listed(NAMES), default=NAMES)
    parser.add_argument("--models", type=listed(MODELS), default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    run(given.data, given.out, given.texts, given.models, range(given.seeds), given.threads)


if __name__ == "__main__":
    main()
