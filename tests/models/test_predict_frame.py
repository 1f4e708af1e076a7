"""predict(output="frame"): predictions beside the cells, rows and index as they were given."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallyfold as tf
from tallyfold.errors import ParameterError

AXES = ["user", "page", "week"]
TENSOR = tf.simulate((12, 10, 6), n_components=2, density=0.3, axes=AXES).tensor
MODEL = tf.BPTF(n_components=2, max_iter=5).fit(TENSOR)
CELLS = TENSOR.to_frame().drop(columns="count").sample(20, random_state=1)


def test_a_pandas_frame_keeps_its_index_its_order_and_its_columns():
    cells = CELLS.assign(note="x")[["week", "note", "page", "user"]]
    cells.index = pd.MultiIndex.from_arrays([range(20), list("ab") * 10], names=["n", "l"])
    found = MODEL.predict(cells, output="frame")
    pd.testing.assert_frame_equal(found.drop(columns="mean"), cells)
    np.testing.assert_array_equal(found["mean"], MODEL.predict(cells))
    assert "mean" not in cells.columns


def test_an_index_with_repeated_labels_stays():
    cells = CELLS.set_axis([7] * 20, axis=0)
    found = MODEL.predict(cells, "median", output="frame")
    assert found.index.tolist() == [7] * 20
    np.testing.assert_array_equal(found["median"], MODEL.predict(CELLS, "median"))


@pytest.mark.parametrize("make", [pl.DataFrame, pa.Table.from_pandas, pl.LazyFrame])
def test_other_frames_come_back_as_they_were(make):
    cells = make(CELLS.reset_index(drop=True))
    found = MODEL.predict(cells, output="frame")
    assert type(found) is (pa.Table if isinstance(cells, pa.Table) else pl.DataFrame)
    np.testing.assert_array_equal(np.asarray(found["mean"]), MODEL.predict(CELLS))
    assert np.asarray(found["user"]).tolist() == CELLS["user"].tolist()


def test_a_tensor_and_positions_become_frames_of_labels():
    of_tensor = MODEL.predict(TENSOR, output="frame")
    wanted = TENSOR.to_frame().drop(columns="count")
    pd.testing.assert_frame_equal(of_tensor[AXES], wanted)
    of_positions = MODEL.predict(np.asarray(TENSOR.indices), output="frame")
    pd.testing.assert_frame_equal(of_positions, of_tensor)


def test_unknown_labels_stay_as_they_were_given():
    cells = CELLS.assign(user="nobody")
    found = MODEL.predict(cells, unknown="prior", output="frame")
    assert set(found["user"]) == {"nobody"}


def test_no_column_is_written_over():
    cells = CELLS.assign(mean=1.0)
    with pytest.raises(ParameterError, match="have a column 'mean' already.*output='array'"):
        MODEL.predict(cells, output="frame")
    MODEL.predict(cells.rename(columns={"mean": "before"}), output="frame")
    assert len(MODEL.predict(cells, output="array")) == 20


def test_other_outputs_are_refused():
    with pytest.raises(ParameterError, match="`output` must be 'array' or 'frame'"):
        MODEL.predict(CELLS, output="pandas")


def test_components_profile_and_top_are_at_hand():
    pd.testing.assert_frame_equal(
        tf.components(MODEL, "page", 3, by="probability"),
        MODEL.components("page", 3, by="probability"),
    )
    assert tf.profile(MODEL, "user", "user-01")["component"].size == 2
    beside_nothing = tf.top(MODEL, "page", top=4)
    pd.testing.assert_frame_equal(beside_nothing, tf.top(MODEL, "page", {}, top=4))
    with pytest.raises(ParameterError, match=r"tallyfold.load\(folder\)"):
        tf.components("model", "page")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_where_zeros_are_observed_the_probability_stands_beside(make):
    model = tf.BPTF(zeros="observed", n_components=2, max_iter=5).fit(TENSOR)
    cells = CELLS.reset_index(drop=True)
    found = model.predict(make(cells), output="frame", level=0.8)
    columns = found.column_names if isinstance(found, pa.Table) else list(found.columns)
    assert columns == [*AXES, "probability", "mean", "low", "high"]
    np.testing.assert_allclose(found["probability"], model.probability(cells))
    limits = np.column_stack([found["low"], found["high"]])
    np.testing.assert_array_equal(limits, model.interval(cells, 0.8))
    given = model.predict(cells, given="nonzero", output="frame")
    np.testing.assert_allclose(given["mean"], model.predict(cells, given="nonzero"))
    np.testing.assert_allclose(given["probability"], found["probability"])


def test_an_interval_is_for_frames():
    with pytest.raises(ParameterError, match="`level` is for output='frame'"):
        MODEL.predict(CELLS, level=0.9)
    with pytest.raises(ParameterError, match="`level` must be"):
        MODEL.predict(CELLS, level=90, output="frame")
