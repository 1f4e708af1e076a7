"""Rows of fits that are kept as they come, and what else the scripts of docs/results share."""

import argparse
import time
import traceback
from contextlib import ExitStack
from importlib.util import find_spec

import tallyfold as tf
from tallyfold.evaluation.fit_and_score import peak_memory
from tallyfold.evaluation.row_folder import RowFolder
from tallyfold.kernels.threads import use_threads


def run_missing(rows, cases, models_of, prepare, measure, key):
    """Measure what has no rows yet; what fails is shown, has no rows, and is tried again.

    `cases` are pairs of a data set's name and a seed, `prepare` makes their data, and `measure`
    takes a model's name and the data and returns a row with a dict of `scores`.
    """
    kept = RowFolder(rows)
    for name, seed in cases:
        missing = [label for label in models_of(name) if kept.read((name, seed, label)) is None]
        if not missing:
            continue
        data = prepare(name, seed)
        for label in missing:
            case = f"{name}, {seed}, {label}"
            try:
                row = measure(label, *data)
            except Exception:
                print(f"{case}: failed", flush=True)
                traceback.print_exc()
                continue
            scores = row.pop("scores")
            row |= key | {"dataset": name, "model": label, "seed": seed, "version": tf.__version__}
            kept.write(
                (name, seed, label),
                [row | {"metric": metric, "value": value} for metric, value in scores.items()],
            )
            told = [
                f"{metric} {value:.4f}" for metric, value in scores.items() if value is not None
            ]
            print(f"{case}: {', '.join(told)}, {row['seconds']:.1f} s", flush=True)


def installed(models, needs):
    """Return the models whose packages are there; say which are not."""
    absent = {label: needs[label] for label in models if label in needs}
    absent = {label: name for label, name in absent.items() if find_spec(name) is None}
    for label, name in absent.items():
        print(f"{label} is left out: pip install {name}", flush=True)
    return [label for label in models if label not in absent]


def timed(fit, threads):
    """Fit with so many threads; return what it gave, and what it cost in time and memory."""
    with limited_to(threads), peak_memory() as peak:
        begin = time.perf_counter(), time.process_time()
        fitted = fit()
        seconds = time.perf_counter() - begin[0]
        processor = time.process_time() - begin[1]
    cost = {"seconds": seconds, "processor_seconds": processor, "peak_mib": peak.mib}
    return fitted, cost


def limited_to(threads):
    """Hold BLAS, torch and our own kernels to so many threads."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    stack = ExitStack()
    stack.enter_context(threadpool_limits(threads))
    stack.enter_context(use_threads(threads))
    return stack


def listed(known, kind=str):
    """Return a reader of a list with commas of known things."""

    def read(text):
        chosen = [kind(word.strip()) for word in text.split(",")]
        unknown = [word for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{unknown[0]!r} is none of {', '.join(map(str, known))}"
            )
        return chosen

    return read
