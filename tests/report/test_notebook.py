"""Tensors, models, splits, results and the explorer in notebooks; everything is escaped."""

import datetime as dt
import html
import json
import os
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.report.explorer_model import NASTY, SCRIPT, labelled_parts

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.report.explorer import Explorer

SRC = Path(tf.__file__).parent.parent
VOID = {"img", "br", "input", "meta", "link"}


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that they close."""

    def __init__(self, text):
        super().__init__()
        self.found, self.attributes, self.open = set(), {}, []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        self.attributes.setdefault(tag, []).append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def parts():
    return labelled_parts()


@pytest.fixture(scope="module")
def model(parts):
    return tf.BPTF(n_components=3, max_iter=10, random_state=3).fit(parts.train)


def shown(value):
    """Return the HTML that a notebook shows, once it is seen to be harmless."""
    text = value._repr_html_()
    tags = Tags(text)
    assert not {"script", "img", "b"} & tags.found
    for each in tags.attributes.values():
        for attributes in each:
            assert not any(name.startswith("on") for name in attributes)
    assert SCRIPT not in text
    assert "\x1b" not in text
    return text


def test_a_tensor_shows_its_axes_and_its_counts(parts):
    text = shown(parts.train)
    assert "<svg" in text
    assert f"{parts.train.nnz:,}" in text
    assert "busiest" in text


def test_names_and_labels_are_escaped():
    frame = pd.DataFrame({SCRIPT: [SCRIPT, "\x1b]0;x\x07"], "<img src=x onerror=y>": NASTY[:2]})
    tensor = tf.CountTensor.from_frame(frame, list(frame.columns))
    assert html.escape(SCRIPT[:20]) in shown(tensor)
    model = tf.BPTF(n_components=2, max_iter=2, validation=None).fit(tensor)
    assert html.escape(SCRIPT[:20]) in shown(model)
    shown(model.card())


def test_labels_of_any_type_are_shown():
    long_ago = pa.array([-(10**18), 5, 6], pa.timestamp("s"))  # beyond the years of Python
    axes = [tf.Axis("when", long_ago), tf.Axis("who", [1, 2]), tf.Axis("there", [True, False])]
    tensor = tf.CountTensor(axes, [[0, 0, 0], [1, 1, 1], [2, 0, 1]], [5, 1, 1])
    assert "timestamp[s]" in shown(tensor)
    days = [dt.date(2024, 1, day) for day in (1, 2, 3)]
    dated = tf.CountTensor([tf.Axis("day", days), *axes[1:]], tensor.indices, tensor.counts)
    model = tf.BPTF(n_components=1, max_iter=2, validation=None).fit(dated)
    assert "2024-01-01" in shown(model)
    assert "0, 0 % of all" in shown(dated.with_cells(np.zeros(3, dtype=bool)))


def test_a_split_shows_both_parts(parts):
    text = shown(parts)
    assert f"{parts.train.nnz:,}" in text
    assert f"{parts.test.nnz:,}" in text
    hidden = tf.split(parts.train, cells="all")
    assert html.escape(hidden.test.part.words()) in shown(hidden)


def test_a_model_shows_its_card_and_its_components(model):
    text = shown(model)
    assert f"fingerprint {model.fitted_.record.data}" in text
    first = model.components("item", 1)["label"].iloc[0]
    assert str(first) in text
    tags = Tags(text)
    assert len(tags.attributes["svg"]) == 3  # a drawing of every axis
    assert model._repr_mimebundle_()["text/html"] == text
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


@pytest.mark.parametrize("name", ["margins", "constant", "mlp-tf"])
def test_models_without_components_show_their_card(parts, name):
    given = {"max_iter": 2} if name == "mlp-tf" else {}
    text = shown(tf.MODELS[name](**given).fit(parts.train))
    assert f'<td style="text-align:left">{name}</td>' in text


def test_a_model_that_is_not_fitted_says_so():
    text = shown(tf.BPTF(n_components=7))
    assert "not fitted yet" in text
    assert "n_components=7" in text


def test_results_are_tables(parts, tmp_path):
    model = tf.BPTF(max_iter=2, validation=None)
    choice = tf.select_rank(parts.train, (1, 2), model, folds=2)
    assert "components by log-pmf-positive" in shown(choice)
    space = {"n_components": [1, 2]}
    search = tf.tune(model, parts.train, space, trials=2, folds=2, storage=tmp_path / "s.db")
    assert "bptf: log-pmf-positive, 2 folds" in shown(search)


def test_the_explorer_is_a_frame_that_reaches_nothing(model, parts, tmp_path, monkeypatch):
    page = model.explore(test=parts.test, train=parts.train, title="mine")
    assert isinstance(page, Explorer)
    tags = Tags(page._repr_html_())
    assert tags.found == {"iframe"}
    (frame,) = tags.attributes["iframe"]
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["srcdoc"] == page.page
    assert "Content-Security-Policy" in page.page
    file = page.save(tmp_path / "x.html")
    assert file.read_text("utf-8") == page.page
    direct = tf.write_report(
        model, tmp_path / "y.html", test=parts.test, train=parts.train, title="mine"
    )
    assert direct.read_text("utf-8") == page.page
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert opened == [page.open().as_uri()]
    assert repr(page).startswith("Explorer(")
    with pytest.raises(ParameterError, match=r"ends in \.html"):
        page.save(tmp_path / "x.txt")
    with pytest.raises(ParameterError, match="`test` must be a CountTensor"):
        tf.explore(model, test="test.csv")


CELLS = """
import logging, tallyfold as tf
from tallyfold.inference.fit import progress
progress.QUIET_SECONDS = -1.0
progress.REFRESH_SECONDS = 0.0
tensor = tf.simulate((30, 20, 8), 3, density=0.15, random_state=3).tensor
tensor
---
parts = tf.split(tensor)
parts
---
model = tf.BPTF(n_components=2, max_iter=4, tol=0.0, validation=None)
model
---
model.fit(parts.train);
---
model
---
model.card()
---
model.explore()
---
tf.components(model, "axis_1", top=2)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run a notebook in a real kernel; return the outputs of its cells."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is missing: install the dev extra")
    pytest.importorskip("ipykernel", reason="ipykernel is missing: install the dev extra")
    import nbformat

    folder = tmp_path_factory.mktemp("kernels")
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "own", "language": "python",
        "env": {"PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])},
    }  # fmt: skip
    (folder / "kernels" / "own").mkdir(parents=True)
    (folder / "kernels" / "own" / "kernel.json").write_text(json.dumps(spec))
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS.split("---\n")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="own").execute()
    return [cell["outputs"] for cell in notebook.cells]


@pytest.mark.filterwarnings("ignore")
def test_everything_is_shown_in_a_real_kernel(ran):
    tensor, parts, unfitted, fit, model, card, explorer, frame = ran
    for (output,), words in (
        (tensor, "cells with a count"),
        (parts, "<strong>test</strong>"),
        (unfitted, "not fitted yet"),
        (model, "fingerprint"),
        (card, "versions"),
        (explorer, "<iframe sandbox="),
        (frame, "<table"),
    ):
        assert words in output["data"]["text/html"]
    (bar,) = fit  # one display, redrawn; it ends with how the fit went
    assert "BPTF: 4 iterations" in bar["data"]["text/html"]
