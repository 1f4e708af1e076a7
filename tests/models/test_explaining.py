"""Examples of a component, components like it, their tree, and a course along an axis."""

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError

YEARS = (2012, 2010, 2011)


@pytest.fixture(scope="module")
def tensor():
    """Three groups of people and things; the third does what the second does, later."""
    rng = np.random.default_rng(0)
    rate = np.full((30, 24, 3), 0.002)
    rate[:10, :12, :] = 0.9
    rate[10:20, 12:, 1] = 0.9
    rate[20:, 12:, 0] = 0.9
    counts = rng.poisson(rate)
    cells = np.argwhere(counts)
    axes = [
        tf.Axis("who", [f"u{n}" for n in range(30)]),
        tf.Axis("what", [f"i{n}" for n in range(24)]),
        tf.Axis("year", YEARS),
    ]
    return tf.CountTensor(axes, cells, counts[tuple(cells.T)])


@pytest.fixture(scope="module")
def model(tensor):
    given = {"zeros": "observed", "validation": None, "prior_shape": 0.1, "random_state": 3}
    return tf.BPTF(n_components=3, gate="none", **given).fit(tensor)


def group_of(model, component):
    """Return which group of people a component is of."""
    return int(model.posterior_.mean("who")[:, component].argmax()) // 10


def test_examples_are_cells_that_a_component_accounts_for(model, tensor):
    for component in range(3):
        found = model.examples(component, tensor, top=5)
        assert list(found.columns) == ["who", "what", "year", "count", "share"]
        assert len(found) == 5
        assert (found["share"] > 0.9).all()
        assert {int(who[1:]) // 10 for who in found["who"]} == {group_of(model, component)}
        frame = tensor.to_frame().set_index(["who", "what", "year"])["count"]
        for row in found.itertuples():
            assert frame[row.who, row.what, row.year] == row.count


def test_shares_of_a_cell_sum_to_one(model, tensor):
    found = [
        model.examples(k, tensor, top=10**6).set_index(["who", "what", "year"])["share"]
        for k in range(3)
    ]
    np.testing.assert_allclose(sum(found), 1.0)


def test_combinations_are_sums_over_their_cells(model, tensor):
    found = model.examples(0, tensor, of=["who"], top=30)
    assert list(found.columns) == ["who", "count", "share"]
    totals = tensor.to_frame().groupby("who")["count"].sum()
    assert found["count"].tolist() == totals[found["who"]].tolist()
    assert group_of(model, 0) == int(found["who"].iloc[0][1:]) // 10
    for wrong in ("who", [], ["who", "who"]):
        with pytest.raises(ParameterError, match="`of` must be different axes"):
            model.examples(0, tensor, of=wrong)
    with pytest.raises(LabelError, match="no axis 'x'"):
        model.examples(0, tensor, of=["x"])
    with pytest.raises(ParameterError, match="as `counts`"):
        model.examples(0, None)


def test_similar_components_share_labels(model):
    by_group = {group_of(model, k): k for k in range(3)}
    found = model.similar(by_group[1]).set_index("component")
    assert sorted(found.index) == sorted([by_group[0], by_group[2]])
    on_what = found["on what"]
    assert on_what[by_group[2]] > 0.9 > 0.3 > on_what[by_group[0]]
    columns = [f"on {name}" for name in ("who", "what", "year")]
    np.testing.assert_allclose(found["overlap"], found[columns].prod(axis=1))
    back = model.similar(by_group[2]).set_index("component")["overlap"]
    assert back[by_group[1]] == pytest.approx(found["overlap"][by_group[2]])


def test_a_name_will_do(model, tensor):
    name = model.component_names_[1]
    assert model.similar(name).equals(model.similar(1))
    assert model.examples(name, tensor).equals(model.examples(1, tensor))
    with pytest.raises(ParameterError, match="no component called 'nobody'"):
        model.similar("nobody")


def test_the_tree_joins_those_alike_first(model):
    twin = model.edit(rename={0: "a", 1: "b", 2: "c"})
    tree = twin.tree()
    assert tree.numbers == (0, 1, 2)
    joins = tree.to_frame()
    assert joins["distance"].is_monotonic_increasing
    assert sorted(joins["left"].iloc[-1] + joins["right"].iloc[-1]) == [0, 1, 2]
    likest = max(range(3), key=lambda k: twin.similar(k)["overlap"].iloc[0])
    pair = sorted([likest, int(twin.similar(likest)["component"].iloc[0])])
    assert sorted(joins["left"].iloc[0] + joins["right"].iloc[0]) == pair
    assert pair in tree.groups(2)
    assert tree.groups(1) == [[0, 1, 2]]
    assert sorted(line[-1] for line in tree.lines()) == ["a", "b", "c"]
    with pytest.raises(ParameterError, match="a positive integer; got 0"):
        tree.groups(0)


def test_a_single_component_is_a_tree(tensor):
    model = tf.MainEffects(zeros="observed").fit(tensor)
    tree = model.tree()
    assert (tree.groups(3), tree.lines()) == ([[0]], ["0 everything"])
    assert tree.to_frame().empty
    assert model.similar(0).empty


def test_a_course_is_in_the_order_of_its_axis(model):
    second = next(k for k in range(3) if group_of(model, k) == 1)
    found = model.course(second, "year")
    assert found["label"].tolist() == [2010, 2011, 2012]
    assert found["weight"].sum() == pytest.approx(1.0)
    assert found["weight"].idxmax() == 0
    assert ((found["low"] < found["weight"]) & (found["weight"] < found["high"])).all()
    assert found["part"].idxmax() == 0
    parts = sum(model.course(k, "year")["part"] for k in range(3))
    np.testing.assert_allclose(parts, 1.0)
    narrow = model.course(second, "year", 0.5)
    assert (narrow["high"] - narrow["low"] < found["high"] - found["low"]).all()
    with pytest.raises(LabelError, match=r"'who' have no order.* components\('who'\)"):
        model.course(0, "who")
    with pytest.raises(ParameterError, match="level"):
        model.course(0, "year", 1.5)
