"""The recipes of save-and-serve, run as they stand against real servers on this machine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import tallyfold as tf

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "how-to" / "save-and-serve.md").read_text("utf-8")
AXES = ["user", "page", "week"]
SECONDS = 60


def block(words):
    """Return the one block of Python on the page that has some words in it."""
    (found,) = [b for b in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if words in b]
    return found


@pytest.fixture(scope="module")
def model():
    tensor = tf.simulate((40, 30, 10), n_components=2, density=0.2, axes=AXES).tensor
    return tf.BPTF(n_components=2, max_iter=10).fit(tensor)


@pytest.fixture(scope="module")
def cells(model):
    rng = np.random.default_rng(0)
    drawn = [axis.labels.take(rng.integers(0, len(axis), 50)).to_pylist() for axis in model.axes_]
    return [dict(zip(AXES, labels, strict=True)) for labels in zip(*drawn, strict=True)]


def positions_of(model, cells):
    columns = [axis.positions([cell[axis.name] for cell in cells]) for axis in model.axes_]
    return np.stack(columns, axis=1)


def free_port():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def environment():
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    more = {"TALLYFOLD_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, **more, "PYTHONPATH": paths, "PATH": tools}


@contextmanager
def served(command, folder, ready):
    """Run a server; give its address once it answers, and end it."""
    port = free_port()
    own = {"cwd": folder, "env": environment(), "start_new_session": True}
    with (folder / "server.log").open("w") as log:
        given = [sys.executable, "-m", *command, "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(given, stdout=log, stderr=log, **own)
    try:
        address, until = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
        while True:
            try:
                urlopen(address + ready).close()
                break
            except (URLError, OSError):
                told = (folder / "server.log").read_text()
                assert process.poll() is None, told
                assert time.monotonic() < until, told
                time.sleep(0.1)
        yield address
    finally:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(process.pid, signal.SIGTERM)  # a server may have started others
        process.wait(SECONDS)


def asked(url, document):
    head = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(document).encode(), head)) as reply:
        return json.load(reply)


def test_fastapi(model, cells, tmp_path):
    pytest.importorskip("fastapi", reason="fastapi is missing: install the dev extra")
    pytest.importorskip("uvicorn", reason="uvicorn is missing: install the dev extra")
    model.save(tmp_path / "model")
    (tmp_path / "app.py").write_text(block("FastAPI()"))
    with served(["uvicorn", "app:app"], tmp_path, "/card") as address:
        found = asked(f"{address}/predict?level=0.5", cells)
        with urlopen(f"{address}/card") as reply:
            card = json.load(reply)
        problems = {}
        for wrong in ([{**cells[0], "user": "nobody"}], [{"user": "user-01"}], []):
            with pytest.raises(HTTPError) as refused:
                asked(f"{address}/predict", wrong)
            problems[refused.value.code] = json.load(refused.value)["detail"]
    positions = positions_of(model, cells)
    assert [row["mean"] for row in found] == model.predict(positions).tolist()
    limits = [[row["low"], row["high"]] for row in found]
    assert limits == model.interval(positions, 0.5).tolist()
    assert [{name: row[name] for name in AXES} for row in found] == cells
    assert card["data"]["fingerprint"] == model.fitted_.record.data
    assert problems.keys() == {400, 413}
    assert "the table has no column" in problems[400]


@pytest.mark.skipif(
    find_spec("mlflow") is None, reason="mlflow is missing: pip install tallyfold[mlflow]"
)
def test_mlflow(model, cells, tmp_path):
    model.save(tmp_path / "model")
    (tmp_path / "tallyfold_pyfunc.py").write_text(block("set_model"))
    (tmp_path / "save.py").write_text(block("save_model"))
    saved = subprocess.run(
        [sys.executable, "save.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert saved.returncode == 0, saved.stderr
    assert not list((tmp_path / "pyfunc").rglob("*.pkl"))
    command = ["mlflow", "models", "serve", "-m", "pyfunc", "--env-manager", "local"]
    with served(command, tmp_path, "/ping") as address:
        found = asked(f"{address}/invocations", {"dataframe_records": cells})["predictions"]
    positions = positions_of(model, cells)
    assert [row["mean"] for row in found] == model.predict(positions).tolist()
    assert [{name: row[name] for name in AXES} for row in found] == cells
