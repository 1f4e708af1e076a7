"""How long an answer takes: one cell and ten thousand, in the process and over HTTP.

    python benchmarks/bench_serving.py [--data FOLDER] [--model NAME] [--repeats N]

FOLDER holds nips.parquet (author, word, year, count); without it, the demo serves. HTTP is that of
the FastAPI app on the page save-and-serve, with one worker on this machine; it is left out where
fastapi or uvicorn is not installed.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from urllib.request import Request, urlopen

import pandas as pd

import tallyfold as tf

ROOT = Path(__file__).parent.parent
SIZES = (1, 10_000)
SECONDS = 60


def latency(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median time of a work and the 95th percentile, in seconds; the first warms up."""
    work()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return median(taken), sorted(taken)[int(0.95 * (repeats - 1))]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run the app of the documentation on a model in a folder; give its address."""
    page = (ROOT / "docs" / "how-to" / "save-and-serve.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (folder / "app.py").write_text(next(b for b in blocks if "FastAPI()" in b))
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    command += ["--log-level", "error"]
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": source})
    try:
        address, until = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
        while True:
            try:
                urlopen(f"{address}/card").close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield f"{address}/predict"
    finally:
        process.terminate()
        process.wait()


def over_http(url: str, cells: pd.DataFrame) -> Callable[[], object]:
    body = json.dumps(cells.to_dict("records")).encode()
    head = {"Content-Type": "application/json"}

    def ask() -> object:
        with urlopen(Request(url, body, head)) as reply:
            return json.load(reply)

    return ask


def report(way: str, work: Callable[[], object], number: int, repeats: int) -> None:
    typical, slow = latency(work, repeats if number == 1 else max(repeats // 10, 3))
    print(f"{way:34} {number:7,} cells: {1e3 * typical:9.2f} ms, 95 %: {1e3 * slow:9.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", default="vae-bptf", choices=tf.MODELS)
    parser.add_argument("--repeats", type=int, default=100)
    given = parser.parse_args()
    tensor = tf.load_demo()
    if given.data is not None:
        axes = ["author", "word", "year"]
        tensor = tf.read_counts(given.data / "nips.parquet", axes, "count")
    model = tf.MODELS[given.model]().fit(tensor, verbose=True)
    frame = tensor.to_frame().drop(columns="count").sample(max(SIZES), replace=True, random_state=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "model")
        report("tf.load", lambda: tf.load(folder / "model"), 0, 30)
        served_model = tf.load(folder / "model")
        for number in SIZES:
            cells = frame.head(number)
            for way, ask in {
                "predict, mean": lambda c=cells: served_model.predict(c),
                "predict, median": lambda c=cells: served_model.predict(c, "median"),
                "interval": lambda c=cells: served_model.interval(c),
            }.items():
                report(way, ask, number, given.repeats)
        if find_spec("fastapi") is None or find_spec("uvicorn") is None:
            print("fastapi or uvicorn is not installed: nothing over HTTP")
            return
        with served(folder) as url:
            for number in SIZES:
                ask = over_http(url, frame.head(number))
                report("HTTP, mean and interval", ask, number, given.repeats)


if __name__ == "__main__":
    main()
