"""Writes down what every model gives, to show that a change of the code changed no number.

    python benchmarks/same_numbers.py record before.json [--data FOLDER] [--only WORD]
    python benchmarks/same_numbers.py compare before.json after.json

`record` fits every model on small and middling tensors, under both treatments of zeros, in one
process and in two, and keeps scores and hashes of predictions. `compare` lists what differs by more
than 1e-9, relative; how iterations are counted is listed, but is no difference. Only names that
users have are used, so that the script outlives the inside. `same_numbers_0_1.json` is what version
0.1 gave, with `--data` a folder of the real tensors. Last digits depend on the machine, and fits by
L-BFGS may turn them into the third (a negative binomial VAE-BPTF, fold-in): where such a fit
differs, record version 0.1 on the same machine and compare with that.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import tallyfold as tf
from tallyfold.errors import ParameterError, TallyfoldError

TOLERANCE = 1e-9
DRAWS = {"burn_in": 6, "n_draws": 5, "thin": 1}


def small():
    return tf.simulate((40, 30, 8), n_components=3, density=0.25, random_state=4).tensor


def pairs():
    return tf.simulate((120, 80), n_components=4, density=0.2, random_state=5).tensor


def four():
    return tf.simulate((25, 20, 6, 5), n_components=3, density=0.2, random_state=6).tensor


def middling():
    truth = tf.simulate((600, 300, 24), n_components=5, density=0.02, random_state=7)
    return truth.tensor


TENSORS = {"small": small, "pairs": pairs, "four": four, "middling": middling}

OBSERVED = {"zeros": "observed"}
PAPER = {"n_components": 3, "max_iter": 12}

FITS = {
    "vae-bptf": lambda: tf.VAEBPTF(zeros="missing", amount="negative-binomial", n_components=4),
    "vae-bptf, few iterations": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=12
    ),
    "vae-bptf, no validation": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, validation=None, max_iter=20
    ),
    "vae-bptf, zeros observed": lambda: tf.VAEBPTF(
        amount="negative-binomial", n_components=3, max_iter=20, **OBSERVED
    ),
    "vae-bptf, chosen likelihood": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=16, likelihood="auto"
    ),
    "vae-bptf, negative binomial": lambda: tf.VAEBPTF(
        zeros="missing",
        amount="negative-binomial",
        n_components=3,
        max_iter=16,
        likelihood="negative-binomial",
    ),
    "vae-bptf, no interactions": lambda: tf.VAEBPTF(
        zeros="missing",
        amount="negative-binomial",
        n_components=3,
        max_iter=30,
        interactions="none",
    ),
    "vae-bptf, not truncated": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=16, truncated=False
    ),
    "vae-bptf, members": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=2, max_iter=12, n_members=2
    ),
    "vae-bptf, batches": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=16, batch_entities=10
    ),
    "vae-bptf, numpy": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=12, backend="numpy"
    ),
    "vae-bptf, torch": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=12, backend="torch"
    ),
    "paper": lambda: tf.VAEBPTF.paper(**PAPER),
    "paper, zeros observed": lambda: tf.VAEBPTF.paper(**PAPER, **OBSERVED),
    "paper, truncated": lambda: tf.VAEBPTF.paper(**PAPER, truncated=True),
    "paper, by error": lambda: tf.VAEBPTF.paper(**PAPER, reweight="error"),
    "paper, numpy": lambda: tf.VAEBPTF.paper(**PAPER, backend="numpy"),
    "bptf": lambda: tf.BPTF(n_components=4),
    "bptf, zeros observed": lambda: tf.BPTF(n_components=4, max_iter=40, **OBSERVED),
    "bptf, negative binomial": lambda: tf.BPTF(
        n_components=3, max_iter=20, likelihood="negative-binomial"
    ),
    "bptf, torch": lambda: tf.BPTF(n_components=3, max_iter=12, backend="torch"),
    "bptf-gibbs": lambda: tf.GibbsBPTF(n_components=3, **DRAWS),
    "bptf-gibbs, zeros observed": lambda: tf.GibbsBPTF(n_components=3, **DRAWS, **OBSERVED),
    "online-gibbs": lambda: tf.OnlineGibbsBPTF(n_components=3, **DRAWS),
    "online-gibbs, zeros observed": lambda: tf.OnlineGibbsBPTF(n_components=3, **DRAWS, **OBSERVED),
    "ptf-kl": lambda: tf.PTFKL(n_components=3, max_iter=10),
    "ptf-kl, zeros observed": lambda: tf.PTFKL(n_components=3, max_iter=10, **OBSERVED),
    "ntf-ls": lambda: tf.NTFLS(n_components=3, max_iter=20),
    "ntf-ls, zeros observed": lambda: tf.NTFLS(n_components=3, max_iter=20, **OBSERVED),
    "mlp-tf": lambda: tf.MLPTF(max_iter=3),
    "main-effects": lambda: tf.MainEffects(),
    "main-effects, zeros observed": lambda: tf.MainEffects(**OBSERVED),
    "constant": lambda: tf.Constant(likelihood="negative-binomial"),
    "constant, zeros observed": lambda: tf.Constant(likelihood="negative-binomial", **OBSERVED),
}
FITS_OF_TWO = [
    *["vae-bptf, few iterations", "vae-bptf, zeros observed", "vae-bptf, batches"],
    *["vae-bptf, chosen likelihood", "paper", "paper, by error", "bptf", "bptf, zeros observed"],
]
"""Fits that two processes make together."""
SLOW_ON_REAL = ("torch", "numpy", "members", "chosen")


def real_tensors(folder):
    """Return parts of real tensors, small enough for every model."""
    parts = {}
    for name, share in [("nips", 0.08), ("movie_rating", 0.3)]:
        file = folder / f"{name}.parquet"
        if file.exists():
            axes = {"nips": ["author", "word", "year"], "movie_rating": ["user", "movie", "day"]}
            whole = tf.read_counts(file, axes=axes[name], value="count")
            parts[name] = lambda whole=whole, share=share: tf.subsample(whole, share).compact()
    return parts


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def projection(array):
    """Return one number that depends on every entry."""
    flat = np.asarray(array, dtype=float).ravel()
    return float(np.dot(flat, np.cos(np.arange(1, len(flat) + 1))))


def numbers_of(model, test):
    """Return scores, hashes and projections of what a fitted model says."""
    found = {"n_iter": model.n_iter_, "objective": list(model.history_["objective"])[-1:]}
    mean = model.predict(test)
    found |= {"mean": projection(mean), "mean hash": digest(mean)}
    try:
        found["score"] = model.score(test)
        found["interval"] = digest(model.interval(test, 0.8))
        found["median"] = digest(model.predict(test, "median"))
    except ParameterError:
        found["score"] = None  # predicts means only
    try:
        posterior = model.posterior_
    except ParameterError:
        return found
    for axis in posterior.names:
        found[f"mean of {axis}"] = projection(posterior.mean(axis))
        sd = getattr(posterior, "sd", None)
        if sd is not None:
            found[f"sd of {axis}"] = projection(sd(axis))
    return found


def fold_in_numbers(counts):
    """Fit without some entities and cells, take them in, and return what the model then says."""
    axis, labels = counts.names[0], counts.axes[0].labels.to_pylist()
    is_new = np.isin(counts.indices[:, 0], np.arange(len(labels) - 3, len(labels)))
    frame = counts.to_frame()
    of = {"axes": list(counts.names), "value": "count"}
    old = tf.CountTensor.from_frame(frame[~is_new], **of)
    new = tf.CountTensor.from_frame(frame[is_new], **of)
    model = tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=40
    ).fit(old)
    found = {f"fold-in {k}": v for k, v in numbers_of(model.fold_in(new, axis), counts).items()}
    early, late = tf.split(old, test_size=0.1, random_state=1)
    model = (
        tf.VAEBPTF(zeros="missing", amount="negative-binomial", n_components=3, max_iter=40)
        .fit(early)
        .partial(late)
    )
    return found | {f"partial {k}": v for k, v in numbers_of(model, old).items()}


def fitted(name, train):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FITS[name]().fit(train)


def record(data, only):
    found = {}
    tensors = TENSORS | (real_tensors(data) if data else {})
    for tensor_name, make in tensors.items():
        tensor = make()
        train, test = tf.split(tensor, test_size=0.2, random_state=3)
        for name in FITS:
            key = f"{tensor_name}: {name}"
            if only not in key or (make not in TENSORS.values() and _too_slow(name)):
                continue
            start = time.perf_counter()
            try:
                found[key] = numbers_of(fitted(name, train), test)
            except TallyfoldError as error:
                found[key] = {"error": type(error).__name__}
            print(f"{time.perf_counter() - start:7.1f} s  {key}", file=sys.stderr, flush=True)
        if only in f"{tensor_name}: fold-in" and make in TENSORS.values() and len(tensor.names) > 2:
            found[f"{tensor_name}: fold-in"] = fold_in_numbers(tensor)
    return found | in_two_processes(only)


def _too_slow(name):
    return any(word in name for word in SLOW_ON_REAL)


def in_two_processes(only):
    names = [name for name in FITS_OF_TWO if only in f"two processes: {name}"]
    if not names:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = [*[sys.executable, "-m", "torch.distributed.run", "--standalone"]]
        command += ["--nproc-per-node", "2", __file__, "two", str(file), *names]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return json.loads(file.read_text())


def record_in_two(file, names):
    """Run in each of two processes."""
    with tf.many_processes() as group:
        part = (tf.scatter if hasattr(tf, "scatter") else tf.dealt)(small)
        found = {f"two processes: {n}": numbers_of(fitted(n, part), small()) for n in names}
        if group.first:
            Path(file).write_text(json.dumps(found))


def compare(before, after):
    """List what differs; return how many fits differ."""
    differing = 0
    for key in before.keys() & after.keys():
        worst = {name: _difference(before[key].get(name), after[key].get(name))
                 for name in before[key].keys() | after[key].keys()}  # fmt: skip
        bits = any("hash" in name and size for name, size in worst.items())
        worst = {name: size for name, size in worst.items() if size > TOLERANCE}
        if "n_iter" in worst:
            print(f"counted  {key}: {before[key]['n_iter']} -> {after[key]['n_iter']} iterations")
        if {name for name in worst if "hash" not in name and "n_iter" not in name}:
            differing += 1
            print(f"DIFFERS  {key}: " + ", ".join(f"{n} {s:.1e}" for n, s in worst.items()))
        elif bits:
            print(f"to 1e-9  {key}")
    for key in sorted(before.keys() ^ after.keys()):
        print(f"only {'before' if key in before else 'after'}: {key}")
    print(f"{len(before.keys() & after.keys())} fits compared, {differing} differ")
    return differing


def _difference(one, two):
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return max((_difference(a, b) for a, b in zip(one, two, strict=True)), default=0.0)
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two) / max(abs(one), abs(two), 1e-300) if one != two else 0.0
    return 0.0 if one == two else math.inf


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["record", "compare", "two"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    if given.action == "two":
        record_in_two(given.files[0], given.files[1:])
    elif given.action == "record":
        found = record(given.data, given.only)
        Path(given.files[0]).write_text(json.dumps(found, indent=0, sort_keys=True))
    else:
        before, after = (json.loads(Path(file).read_text()) for file in given.files)
        sys.exit(compare(before, after) > 0)


if __name__ == "__main__":
    main()
