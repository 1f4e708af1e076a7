"""Axes that know their order: steps, gaps, what follows, and that nothing loses it."""

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallyfold as tf
from tallyfold import Axis, AxisOrder
from tallyfold.data.formats import writing
from tallyfold.data.time_units import CYCLES, UNITS, starts_of, written
from tallyfold.errors import FormatError, LabelError, ParameterError

BEGINNINGS = {
    "year": ["1969", "1970", "2024"],
    "quarter": ["1969-Q4", "1970-Q1", "2024-Q2"],
    "month": ["1969-12", "1970-01", "2024-05"],
    "week": ["1969-W52", "1970-W01", "2024-W07"],
    "day": ["1969-12-31", "1970-01-01", "2024-02-29"],
    "hour": ["1969-12-31T23", "1970-01-01T00", "2024-02-29T13"],
}


@pytest.mark.parametrize("unit", UNITS)
def test_bins_are_counted_from_1970(unit):
    labels = BEGINNINGS[unit]
    steps = Axis("t", labels, AxisOrder.of_unit(unit)).steps()
    assert steps.dtype == np.int64
    assert steps[:2].tolist() == [-1, 0]
    assert written(starts_of(steps, unit).tolist(), unit).to_pylist() == labels


@pytest.mark.parametrize("unit", UNITS)
@given(moment=st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9990, 1, 1)))
def test_the_next_bin_is_the_one_that_begins_when_this_ends(unit, moment):
    label = UNITS[unit].write(moment)
    axis = Axis("t", [label], AxisOrder.of_unit(unit))
    (follower,) = axis.following(1).to_pylist()
    assert follower > label
    (step,) = axis.steps()
    start, end = starts_of(np.array([step, step + 1]), unit)
    assert start <= np.datetime64(moment, "us") < end
    assert written([end.item()], unit).to_pylist() == [follower]


def test_steps_without_a_label_are_counted():
    axis = Axis("month", ["2024-01", "2024-03", "2023-11"], AxisOrder.of_unit("month"))
    first = axis.steps()[2]
    assert (axis.steps() - first).tolist() == [2, 4, 0]
    assert axis.gaps() == 2
    assert axis.between().to_pylist() == ["2023-12", "2024-02"]
    assert axis.following(2).to_pylist() == ["2024-04", "2024-05"]  # after the latest, not the last


def test_whole_numbers_are_steps_and_others_have_ranks():
    ordered = AxisOrder("ordered")
    year = Axis("year", [2003, 2001, 2006], ordered)
    assert year.steps().tolist() == [2003, 2001, 2006]
    assert (year.gaps(), year.between().to_pylist()) == (3, [2002, 2004, 2005])
    assert year.following(2).equals(pa.array([2007, 2008]))
    days = Axis("day", [dt.date(2024, 5, 9), dt.date(2024, 5, 1)], ordered)
    assert days.steps().tolist() == [1, 0]
    sizes = Axis("size", ["S", "M", "L"], ordered)
    assert sizes.steps().tolist() == [0, 1, 2]
    for axis in (days, sizes):
        assert axis.gaps() == 0
        with pytest.raises(LabelError, match=f"'{axis.name}'.*only whole numbers and bins of time"):
            axis.following(1)


def test_cycles_count_from_their_beginning_and_do_not_go_on():
    axis = Axis("day", ["Sun", "Mon", "Wed"], AxisOrder.of_unit("weekday"))
    assert axis.steps().tolist() == [6, 0, 2]
    assert axis.between().to_pylist() == ["Tue", "Thu", "Fri", "Sat"]
    with pytest.raises(LabelError, match="'day' .weekday.*come back"):
        axis.following(1)
    assert [len(labels) for labels in CYCLES.values()] == [7, 24, 12]


def test_axes_without_an_order_say_what_to_do():
    axis = Axis("user", ["ann", "bob"])
    assert axis.order is None
    for ask in (axis.steps, axis.gaps, axis.between, lambda: axis.following(1)):
        with pytest.raises(LabelError, match=r"'user' has no order.*'ann'.*ordered=\['user'\]"):
            ask()


def test_labels_outside_the_order_are_named():
    axis = Axis("month", ["2024-01", "2024-13", "(missing)"], AxisOrder.of_unit("month"))
    with pytest.raises(LabelError, match="'month'.*'2024-13' is no month, nor are 1 other"):
        axis.steps()
    with pytest.raises(LabelError, match="years 1 to 9999"):
        Axis("year", ["9999"], AxisOrder.of_unit("year")).following(1)
    with pytest.raises(LabelError, match="int8 end there"):
        Axis("n", pa.array([127], pa.int8()), AxisOrder("ordered")).following(1)


@pytest.mark.parametrize("horizon", [0, -1, 1.0, True, None])
def test_a_horizon_is_a_whole_number_of_at_least_one(horizon):
    with pytest.raises(ParameterError, match="`horizon` must be a whole number of at least 1"):
        Axis("year", [2003], AxisOrder("ordered")).following(horizon)


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "other"},
        {"kind": "time"},
        {"kind": "time", "unit": "weekday"},
        {"kind": "ordered", "unit": "month"},
        {"kind": "time", "unit": "month", "tz": 3},
    ],
)
def test_orders_that_make_no_sense_are_refused(given):
    with pytest.raises(ParameterError, match="of an AxisOrder"):
        AxisOrder(**given)
    with pytest.raises(ParameterError, match="must be an AxisOrder"):
        Axis("x", ["a"], order="month")


@pytest.mark.parametrize("ending", [".parquet", ".npz", ".csv", ".tns", ".jsonl"])
def test_files_keep_the_order(ending, tmp_path):
    orders = [
        AxisOrder.of_unit("month", "Europe/Berlin", "time"),
        AxisOrder("ordered"),
        AxisOrder.of_unit("weekday"),
        None,
    ]
    labels = [["2024-01"], [2003], ["Mon"], ["ann"]]
    axes = [
        Axis(f"a{n}", pair[0], pair[1]) for n, pair in enumerate(zip(labels, orders, strict=True))
    ]
    tensor = tf.CountTensor(axes, [[0, 0, 0, 0]], [3])
    file = tmp_path / f"counts{ending}"
    tf.write_counts(tensor, file)
    again = tf.read_counts(file)
    assert [axis.order for axis in again.axes] == orders
    assert [axis.order for axis in pickle.loads(pickle.dumps(again)).axes] == orders


def test_parts_and_models_keep_the_order(tmp_path):
    rng = np.random.default_rng(0)
    order = AxisOrder.of_unit("month", "Europe/Berlin")
    months = Axis("month", [f"2024-{month:02}" for month in range(1, 9)], order)
    tensor = tf.CountTensor.from_array(rng.poisson(1.0, (12, 9, 8)), ["user", "item", months])
    parts = [
        tensor.filter(top={"month": 5}),
        tensor.compact(),
        tensor.sel(month=["2024-03", "2024-01"]),
        tensor.collapse("item"),
        *tf.split(tensor),
        *tf.split(tensor, cells="all"),
        *tf.split_time(tensor, "month", after="2024-05"),
        tf.subsample(tensor, 0.5),
    ]
    assert {part.axis("month").order for part in parts} == {order}
    assert months.renamed("m").order == months.take(np.array([1, 0])).order == order
    model = tf.BPTF(n_components=2, max_iter=5).fit(tensor)
    model.save(tmp_path / "model")
    assert tf.load(tmp_path / "model").axes_[2].order == order
    margins = tf.Margins().fit(tensor)
    later = tensor.sel(month=["2024-08"])
    new = tf.CountTensor(
        [*later.axes[:2], Axis("month", ["2024-09"], order)], later.indices, later.counts
    )
    for grown in (margins.fold_in(new, "month"), margins.update(new)):
        assert grown.axes_[2].order == order
        assert grown.axes_[2].following(1).to_pylist() == ["2024-10"]


def test_files_of_earlier_versions_have_a_unit_alone(monkeypatch):
    axes = [Axis("month", ["2024-01"], AxisOrder.of_unit("month")), Axis("who", ["x"])]
    monkeypatch.setattr(writing, "_order_facts", lambda order: order and {"unit": order.unit})
    found = writing.axes_from_bytes(writing.axes_to_bytes(axes), "counts.npz")
    assert [axis.order for axis in found] == [AxisOrder("time", "month"), None]


@pytest.mark.parametrize(
    "text",
    ["", "3", "[]", "null", '{"kind": "other"}', '{"kind": []}', '{"kind": "time", "more": 1}'],
)
def test_damaged_orders_are_refused(text, monkeypatch):
    monkeypatch.setattr(writing, "_order_facts", lambda order: {"order": text})
    data = writing.axes_to_bytes([Axis("who", ["x"])])
    with pytest.raises(FormatError, match="axes recorded with 'counts.npz' are damaged"):
        writing.axes_from_bytes(data, "counts.npz")


def test_zones_that_a_machine_does_not_know_are_named():
    axis = Axis("day", ["2024-05-01"], AxisOrder.of_unit("day", "Moon/Crater"))
    frame = pa.table({"day": pa.array([dt.datetime(2024, 5, 1)], pa.timestamp("us", "UTC"))})
    with pytest.raises(LabelError, match="'Moon/Crater', which this machine does not know"):
        tf.CountTensor.from_frame(frame.append_column("who", [["x"]]), [axis, "who"])


def test_courses_follow_a_declared_order():
    rng = np.random.default_rng(0)
    sizes = Axis("size", ["S", "M", "L"], AxisOrder("ordered"))
    tensor = tf.CountTensor.from_array(rng.poisson(1.0, (12, 3)), ["user", sizes])
    model = tf.BPTF(n_components=2, max_iter=5).fit(tensor)
    assert model.course(0, "size")["label"].tolist() == ["S", "M", "L"]
    axes = ["user", sizes.with_order(None)]
    plain = tf.CountTensor.from_array(rng.poisson(1.0, (12, 3)), axes)
    model = tf.BPTF(n_components=2, max_iter=5).fit(plain)
    with pytest.raises(LabelError, match=r"ordered=\['size'\]"):
        model.course(0, "size")
