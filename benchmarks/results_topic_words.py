"""Words of components beside those of topic models: coherence, distinct words, stability, time.

    python benchmarks/results_topic_words.py --data FOLDER --lists LISTS --out ROWS.jsonl

FOLDER holds nips, acl and hotel_review (benchmarks/results_models.py says where they come from);
the demo comes with the library. Every model sees the same counts, the topic models as documents x
words. A list is the ten first words of a topic: by probability, by relevance (LDAvis, 0.6), and
for our models as `components` lists them. Lists are scored by the mean NPMI of their pairs in these
documents, by how many of all words listed are distinct, and by stability: the mean share of words
that two fits with different seeds have in common (topics matched so that it is largest). Two fits
in the same job take their turns: seconds are of one thread each. The lists are kept in LISTS, and a
line in ROWS for each fit, as they come; what is there is not measured again.
"""

import argparse
import json
import logging
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linear_sum_assignment

import tallyfold as tf
from kept_rows import installed, listed, timed
from rivals.topics import fit_lda, fit_nmf, fit_tomotopy, normalised
from tallyfold.evaluation.words.cooccurrence import Cooccurrence

TOP, RELEVANCE = 10, 0.6


class Texts(NamedTuple):
    """A tensor with words, and which of its axes make up a document."""

    tensor: object
    document: list[str]


def parquet(name, *axes):
    return lambda folder: tf.read_counts(
        folder / f"{name}.parquet", axes=["word", *axes], value="count"
    )


TEXTS = {
    "demo": Texts(lambda folder: tf.load_demo(), ["module"]),
    "nips": Texts(parquet("nips", "author", "year"), ["author", "year"]),
    "hotel_review": Texts(parquet("hotel_review", "user", "hotel"), ["user", "hotel"]),
    "acl": Texts(parquet("acl", "author", "venue", "year"), ["author", "venue", "year"]),
}


def library(make):
    return lambda tensor, documents_DV, n, seed: make(n_components=n, random_state=seed).fit(tensor)


def topics(fit):
    return lambda tensor, documents_DV, n, seed: fit(documents_DV, n, seed)


MODELS = {
    "LDA (scikit-learn)": topics(fit_lda),
    "NMF (scikit-learn)": topics(fit_nmf),
    "LDA (tomotopy)": topics(fit_tomotopy),
    "VAE-BPTF": library(lambda **given: tf.VAEBPTF(zeros="observed", **given)),
    "VAE-BPTF, background": library(
        lambda n_components, **given: tf.VAEBPTF(
            zeros="observed", n_components=n_components + 1, background=True, **given
        )
    ),
}
NEEDS = {"LDA (tomotopy)": "tomotopy"}


def documents_of(tensor, axes):
    """Return documents x words, a row for each combination of labels that has counts."""
    columns = tensor.indices[:, [tensor.axis_number(axis) for axis in axes]]
    document_N = pd.DataFrame(columns).groupby([*range(columns.shape[1])]).ngroup().to_numpy()
    shape = (document_N.max() + 1, len(tensor.axis("word")))
    word_N = tensor.indices[:, tensor.axis_number("word")]
    return sparse.csr_matrix((tensor.counts, (document_N, word_N)), shape)


def lists_of(fitted, tensor, documents_DV):
    """Return the words of every topic by position, by what they are ranked by."""
    if isinstance(fitted, np.ndarray):
        probability_KV, lists = fitted, {}
    else:
        table = fitted.components("word", top=TOP)
        table = table[table["name"] != "background"]
        position_N = tensor.axis("word").positions(table["label"])
        lists = {"listed": position_N.reshape(-1, TOP)}
        on = table["component"].unique()
        probability_KV = normalised(fitted.posterior_.mean("word").T[on])
    overall_V = np.asarray(documents_DV.sum(axis=0)).ravel() / documents_DV.sum()
    log_KV = np.log(np.maximum(probability_KV, 1e-300))
    relevance_KV = log_KV - (1 - RELEVANCE) * np.log(np.maximum(overall_V, 1e-300))
    for by, value_KV in (("probability", probability_KV), ("relevance", relevance_KV)):
        lists[by] = np.argsort(-value_KV, axis=1, kind="stable")[:, :TOP]
    return lists


def scores_of(lists, labels, reference):
    """Return coherence and the share of distinct words of every kind of list."""
    scores = {"topics_listed": len(next(iter(lists.values())))}
    for by, words_KT in lists.items():
        scores[f"npmi-{by}"] = float(np.mean([reference.npmi(words) for words in labels[words_KT]]))
        scores[f"distinct-{by}"] = len(np.unique(words_KT)) / words_KT.size
    return scores


def common_words(one_KT, other_KT):
    """Return the mean share of words that the topics of two fits have in common, best matched."""
    share_KL = np.array([[len(np.intersect1d(a, b)) for b in other_KT] for a in one_KT]) / TOP
    rows, columns = linear_sum_assignment(share_KL, maximize=True)
    return float(share_KL[rows, columns].sum() / max(share_KL.shape))


def stability_of(fits):
    """Return the mean share of words in common of all pairs of fits, by what lists are ranked by."""
    return {
        f"stability-{by}": float(np.mean([common_words(a[by], b[by]) for a, b in pairs]))
        for pairs in [list(combinations(fits, 2))]
        for by in fits[0]
    }


def run(given):
    """Fit and score what is not there yet; then the stability of what is."""
    given.lists.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)  # that components are switched off
    for name in given.texts:
        prepared = None
        for n_topics in given.topics:
            for seed in range(given.seeds):
                for model in installed(given.models, NEEDS):
                    file = given.lists / f"{name}-{n_topics}-{model}-{seed}.npz"
                    if file.exists():
                        continue
                    prepared = prepared or prepare(name, given.data)
                    tensor, documents_DV, reference, labels = prepared
                    fitted, cost = timed(
                        lambda fit=MODELS[model], n=n_topics, s=seed: fit(
                            tensor, documents_DV, n, s  # noqa: B023
                        ),
                        1,
                    )
                    lists = lists_of(fitted, tensor, documents_DV)
                    np.savez_compressed(file, **lists)
                    scores = scores_of(lists, labels, reference)
                    keep(given.out, name, n_topics, model, seed=seed, **cost, **scores)
            for model in given.models:
                found = sorted(given.lists.glob(f"{name}-{n_topics}-{model}-[0-9]*.npz"))
                fits = [dict(np.load(each)) for each in found]
                if len(fits) > 1:
                    keep(given.out, name, n_topics, model, fits=len(fits), **stability_of(fits))


def prepare(name, folder):
    texts = TEXTS[name]
    tensor = texts.tensor(folder)
    labels = np.array(tensor.axis("word").labels.to_pylist())
    reference = Cooccurrence.from_tensor(tensor, "word", texts.document)
    return tensor, documents_of(tensor, texts.document), reference, labels


def keep(out, name, n_topics, model, **found):
    """Add a line."""
    plain = {k: round(v, 5) if isinstance(v, float) else v for k, v in found.items()}
    line = {"text": name, "topics": n_topics, "model": model, **plain, "version": tf.__version__}
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lists", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=listed(TEXTS), default=list(TEXTS))
    parser.add_argument("--models", type=lambda text: text.split(";"), default=list(MODELS))
    parser.add_argument("--topics", type=listed((10, 20, 50), int), default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=5)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
