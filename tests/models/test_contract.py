"""What every model must do, whatever it is; a new model is picked up from the registry."""

import inspect
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from tests.models.quick import AS_IT_COMES, FORMS, REMEMBER, has, in_time, quick

import tallyfold as tf
from tallyfold import MODELS
from tallyfold.errors import (
    ConvergenceWarning,
    DataError,
    DivergedError,
    InterruptedWarning,
    LabelError,
    NotFittedError,
    ParameterError,
    ShapeError,
    StorageError,
)
from tallyfold.posterior.point_factors import PointFactors

pytestmark = pytest.mark.usefixtures("brief_heads")

NAMES = [*MODELS, *FORMS]
WITH_ZEROS = [(name, zeros) for name in NAMES for zeros in ("missing", "observed")]


@pytest.fixture(scope="module")
def parts():
    truth = tf.simulate((30, 20, 8), 2, density=0.25, axes=["user", "item", "day"], random_state=3)
    return tf.split(in_time(truth.tensor), 0.2, random_state=0)


@pytest.fixture(scope="module")
def fitted(parts):
    return {name: quick(name).fit(parts.train) for name in NAMES}


def distributes(model):
    return model.fitted_.likelihood is not None


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_keyword_only_and_only_stored(name):
    kind = MODELS[name]
    signature = inspect.signature(kind.__init__)
    own = [p for p in signature.parameters.values() if p.name != "self"]
    assert all(p.kind is p.KEYWORD_ONLY for p in own)
    model = kind()
    assert {p.name: p.default for p in own} == model.get_params()
    assert set(model.rules) == set(model.get_params())
    assert model.name == name
    assert kind.__name__ in tf.__all__


@pytest.mark.parametrize("name", NAMES)
def test_names_can_be_listed_before_and_after_a_fit(name, fitted):
    """As completion in a notebook does, which asks for every attribute."""
    assert "predict" in dir(MODELS[name]() if name in MODELS else quick(name))
    assert "n_iter_" in dir(fitted[name])


@pytest.mark.parametrize("name", NAMES)
def test_clone_repr_and_set_params(name):
    model = quick(name)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert type(model).__name__ in repr(model)
    assert clone(model).set_params(zeros="observed").zeros == "observed"


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_refuses_nonsense_by_name(name, parts):
    for parameter in quick(name).get_params():
        model = quick(name, **{parameter: object()})
        with pytest.raises(ParameterError, match=rf"`{parameter}` must be .*; got <object"):
            model.fit(parts.train)


@pytest.mark.parametrize(("name", "zeros"), WITH_ZEROS)
def test_fit_predict_under_both_treatments_of_zeros(name, zeros, parts):
    model = quick(name, zeros=zeros)
    assert model.fit(parts.train) is model
    mean = model.predict(parts.test)
    assert mean.shape == (parts.test.nnz,)
    assert np.all(np.isfinite(mean))
    assert np.all(mean >= 0)
    assert np.all(model.rate(parts.test) >= 0)
    if not distributes(model):
        with pytest.raises(ParameterError, match="predicts means only"):
            model.score(parts.test)
        return
    assert np.isfinite(model.score(parts.test))
    assert model.score(parts.test) <= 0
    low, high = model.interval(parts.test, 0.9).T
    median = model.predict(parts.test, "median")
    assert np.all((low <= median) & (median <= high))
    # the paper's likelihood is not truncated, whatever the zeros; with a part that tells whether
    # there is a count, the likelihood is that of how many
    apart = model.fitted_.occurrence is not None
    truncated = apart or (zeros == "missing" and "paper" not in name)
    assert model.fitted_.likelihood.truncated == truncated
    if model.fitted_.likelihood.truncated and not apart:
        assert mean.min() >= 1 - 1e-9
        assert low.min() >= 1
    draws = model.sample(parts.test, 3, random_state=1)
    assert draws.shape == (3, parts.test.nnz)
    assert np.array_equal(draws, model.sample(parts.test, 3, random_state=1))


@pytest.mark.parametrize("name", NAMES)
def test_history_and_counters(name, fitted):
    model = fitted[name]
    history = model.history_
    assert list(history.columns) == ["iteration", "objective", "seconds", "validation", "phase"]
    assert np.all(np.isfinite(history["objective"]))
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert 1 <= model.n_iter_ <= len(history)
    assert isinstance(model.converged_, bool)
    phases = history["phase"].tolist()
    assert all(phases)
    assert phases == sorted(phases, key=phases.index)  # one after the other


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits_and_a_second_fit_starts_afresh(name, parts, fitted, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # a quick fit has few iterations
        again = quick(name).fit(parts.train)
    assert capsys.readouterr() == ("", "")
    assert np.array_equal(again.predict(parts.test), fitted[name].predict(parts.test))
    other = tf.subsample(parts.train, 0.5)
    again.fit(other).fit(parts.train)
    assert np.array_equal(again.predict(parts.test), fitted[name].predict(parts.test))


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_fit_that_is_about_as_good(name, parts, fitted):
    if not has(name, "random_state"):
        return
    other = quick(name, random_state=7).fit(parts.train)
    assert not np.array_equal(other.predict(parts.test), fitted[name].predict(parts.test))


@pytest.mark.parametrize("name", NAMES)
def test_cells_as_tensor_frame_and_positions_agree(name, parts, fitted):
    model, frame = fitted[name], parts.test.to_frame()
    expected = model.predict(parts.test)
    assert np.array_equal(model.predict(frame), expected)
    assert np.array_equal(model.predict(pl.from_pandas(frame)), expected)
    assert np.array_equal(model.predict(pl.from_pandas(frame).lazy()), expected)
    assert np.array_equal(model.predict(parts.test.indices), expected)
    turned = tf.CountTensor.from_frame(frame, axes=["day", "user", "item"], value="count")
    by_cell = dict(
        zip(map(tuple, frame[["day", "user", "item"]].to_numpy()), expected, strict=True)
    )
    cells = map(tuple, turned.to_frame()[["day", "user", "item"]].to_numpy())
    assert np.array_equal(model.predict(turned), [by_cell[cell] for cell in cells])


@pytest.mark.parametrize("name", NAMES)
def test_unknown_labels_are_an_error_or_an_average_entity(name, parts, fitted):
    model = fitted[name]
    frame = pd.DataFrame(
        {"user": ["user-00", "nobody"], "item": ["item-00", "item-01"], "day": ["day-0", "day-1"]}
    )
    with pytest.raises(LabelError, match=r"no label 'nobody'.*unknown='prior'"):
        model.predict(frame)
    predicted = model.predict(frame, unknown="prior")
    assert np.all(np.isfinite(predicted))
    assert predicted[0] == model.predict(frame[:1])[0]
    known = model.rate(parts.train)
    assert known.min() / 10 <= model.rate(frame, unknown="prior")[1] <= known.max() * 10
    with pytest.raises(ParameterError, match="'error' or 'prior'"):
        model.predict(frame, unknown="zero")


@pytest.mark.parametrize("name", NAMES)
def test_bad_cells(name, parts, fitted):
    model = fitted[name]
    with pytest.raises(ShapeError, match=r"shape \(cells, 3\)"):
        model.predict(np.zeros((2, 2), int))
    with pytest.raises(ShapeError, match="axis 'day' must be from 0 to 7; got 8 to 8"):
        model.predict(np.array([[0, 0, 8]]))
    with pytest.raises(LabelError, match="no column 'day'"):
        model.predict(pd.DataFrame({"user": ["user-00"], "item": ["item-00"]}))
    with pytest.raises(LabelError, match="must have the model's axes user, item, day"):
        model.predict(parts.test.collapse("day"))
    with pytest.raises(ParameterError, match="'mean' or 'median'; got 'mode'"):
        model.predict(parts.test, "mode")
    with pytest.raises(ParameterError, match="expected a CountTensor; got DataFrame"):
        model.fit(parts.train.to_frame())
    with pytest.raises(DataError, match="nothing to fit"):
        clone(model).fit(parts.train.with_cells(np.zeros(parts.train.nnz, bool)))


@pytest.mark.parametrize("name", NAMES)
def test_no_cells_at_all(name, parts, fitted):
    none = parts.test.with_cells(np.zeros(parts.test.nnz, bool))
    model = fitted[name]
    assert model.predict(none).shape == (0,)
    if distributes(model):
        assert model.interval(none).shape == (0, 2)
        assert model.sample(none, 2).shape == (2, 0)
        with pytest.raises(DataError, match="nothing to score"):
            model.score(none)
        with pytest.raises(ParameterError, match="`level` must be"):
            model.interval(parts.test, 1.0)
        with pytest.raises(ParameterError, match="`n` must be a positive integer; got 0"):
            model.sample(parts.test, 0)


@pytest.mark.parametrize("name", NAMES)
def test_before_fitting_there_is_a_clear_error(name, parts):
    for use in (
        lambda m: m.predict(parts.test),
        lambda m: m.posterior_,
        lambda m: m.history_,
        lambda m: m.n_iter_,
        lambda m: m.save("nowhere"),
        lambda m: m.components("user"),
    ):
        with pytest.raises(NotFittedError, match=r"is not fitted yet; call fit\(tensor\) first"):
            use(quick(name))


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_predictions_are_the_same_bits(name, parts, fitted, tmp_path):
    model = fitted[name]
    model.save(tmp_path / "model")
    loaded = tf.load(tmp_path / "model")
    assert type(loaded) is type(model)
    decided = model.fitted_.parameters  # where a parameter leaves a choice to the data
    assert loaded.get_params() == model.get_params() | decided
    assert loaded.axes_ == model.axes_
    assert np.array_equal(loaded.predict(parts.test), model.predict(parts.test))
    assert loaded.history_.equals(model.history_)
    assert sorted(f.name for f in (tmp_path / "model").iterdir()) == [
        "arrays.safetensors",
        "model.json",
    ]
    if distributes(model):
        assert loaded.score(parts.test) == model.score(parts.test)
        assert np.array_equal(loaded.sample(parts.test, 2), model.sample(parts.test, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stop_at", [1, 3])
def test_an_interrupted_fit_resumed_is_the_uninterrupted_fit(
    name, stop_at, parts, fitted, tmp_path
):
    whole = fitted[name]
    if len(whole.history_) <= stop_at:
        return

    def stop(progress):
        if progress.iteration.number == stop_at:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="the fit was interrupted"):
        part = quick(name).fit(parts.train, checkpoint=tmp_path, every=2, callbacks=[stop])
    assert len(part.history_) == stop_at
    assert np.all(np.isfinite(part.predict(parts.test)))
    resumed = quick(name).fit(parts.train, checkpoint=tmp_path, every=2, resume=True)
    assert np.array_equal(resumed.predict(parts.test), whole.predict(parts.test))
    assert resumed.history_["objective"].tolist() == whole.history_["objective"].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_another_fit_is_refused(name, parts, tmp_path):
    quick(name).fit(parts.train, checkpoint=tmp_path)
    with pytest.raises(StorageError, match="of another fit: its data differ"):
        quick(name).fit(parts.test, checkpoint=tmp_path, resume=True)
    zeros = "missing" if name == AS_IT_COMES else "observed"
    with pytest.raises(StorageError, match="of another fit: its parameters differ"):
        quick(name, zeros=zeros).fit(parts.train, checkpoint=tmp_path, resume=True)
    with pytest.raises(StorageError, match="not a tallyfold-model|something else"):
        tf.load(tmp_path)
    with pytest.raises(ParameterError, match="`resume` needs a `checkpoint`"):
        quick(name).fit(parts.train, resume=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != AS_IT_COMES])
def test_the_names_and_order_of_labels_do_not_matter(name, parts, fitted):
    """Labels renamed so that their order stays give the same numbers.

    With observed zeros, labels decide which cells a fit holds out for itself.
    """
    renamed = [
        tf.Axis(axis.name, ["x" + label for label in axis.labels.to_pylist()], axis.order)
        for axis in parts.train.axes
    ]
    train = tf.CountTensor(renamed, parts.train.indices, parts.train.counts)
    model = quick(name).fit(train)
    expected = fitted[name].predict(parts.test.indices)
    assert np.array_equal(model.predict(parts.test.indices), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 3, 2), (3, 2, 2, 2, 3)])
def test_two_to_five_axes_with_entities_never_seen(name, shape):
    axes = [tf.Axis.numbered(f"a{number}", size) for number, size in enumerate(shape)]
    rng = np.random.default_rng(0)
    cells = np.unique(np.stack([rng.integers(0, s - 1, 20) for s in shape], axis=1), axis=0)
    tensor = in_time(tf.CountTensor(axes, cells, rng.integers(1, 9, len(cells))), axis=0)
    model = quick(name).fit(tensor)
    every_cell = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    predicted = model.predict(every_cell)
    assert np.all(np.isfinite(predicted))
    assert predicted.max() < 1000


PAPERS_DRAWS = pytest.mark.xfail(
    raises=DivergedError,
    strict=True,
    reason="the bound at one draw of such counts falls further than a fit that goes well does",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=PAPERS_DRAWS) if "paper" in n else n
        for n in NAMES
        if n not in REMEMBER  # one cell is one period, from which nothing follows: an error
    ],
)
def test_a_single_cell_and_huge_counts_do_no_harm(name):
    axes = [tf.Axis("a", [1, 2]), tf.Axis("b", [1, 2])]
    for cells, counts in (([[0, 0]], [1]), ([[0, 0], [1, 1]], [1, 10**9])):
        model = quick(name).fit(tf.CountTensor(axes, cells, counts))
        assert np.all(np.isfinite(model.predict(np.array([[0, 0], [1, 1], [0, 1]]))))


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_other_types_come_back(name, tmp_path):
    frame = pd.DataFrame(
        {"who": ["é", "<b>", "é"], "when": pd.to_datetime(["2020", "2021", "2022"]), "n": [1, 2, 3]}
    )
    tensor = in_time(tf.CountTensor.from_frame(frame, axes=["who", "when"], value="n"))
    model = quick(name).fit(tensor)
    model.save(tmp_path / "m")
    assert tf.load(tmp_path / "m").axes_ == tensor.axes


@pytest.mark.parametrize("name", NAMES)
def test_posterior_is_labelled(name, fitted):
    model = fitted[name]
    if model.fitted_.factors is None:
        with pytest.raises(ParameterError, match="has no factors"):
            model.components("item")
        return
    top = model.components("item", top=3)
    columns = ["component", "name", "share", "rank", "label", "weight", "low", "high"]
    assert list(top.columns) == columns
    assert set(top["label"]) <= set(model.axes_[1].labels.to_pylist())
    assert top.groupby("component")["rank"].agg(list).map(lambda r: r == [1, 2, 3]).all()
    every = model.posterior_.components("item", top=1, least=0)  # those switched off, too
    assert abs(every["share"].sum() - 1) < 1e-9
    assert np.all(top["low"] <= top["weight"] * (1 + 1e-9) + 1e-300) or name != "bptf"
    dataset = model.posterior_.to_xarray()
    assert dataset["item_mean"].sel(item="item-03").shape == (model.posterior_.n_components,)
    n_draws = 1 if isinstance(model.posterior_, PointFactors) else 3
    tree = model.posterior_.to_datatree(n_draws)
    assert tree["posterior"]["item_factor"].dims == ("chain", "draw", "item", "component")
    assert tree["posterior"].sizes["draw"] == n_draws
    with pytest.raises(LabelError, match="there is no axis 'colour'; there are user, item, day"):
        model.components("colour")
    with pytest.raises(ParameterError, match="`top` must be a positive integer; got 0"):
        model.components("item", top=0)


@pytest.mark.parametrize("name", NAMES)
def test_posterior_predicts_up_to_calibration(name, parts, fitted):
    """Its moments of rates are those that predictions are made of."""
    model = fitted[name]
    if model.fitted_.factors is None or name == AS_IT_COMES:  # there combinations add to factors
        return
    mean, variance = model.posterior_.rate_moments(parts.test.indices)
    assert np.array_equal(model.calibration_.rates(mean), model.rate(parts.test))
    assert np.all(variance >= 0)


@pytest.mark.parametrize("name", NAMES)
def test_fits_in_threads_do_not_disturb_each_other(name, parts, fitted):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        models = list(pool.map(lambda _: quick(name).fit(parts.train), range(3)))
    for model in models:
        assert np.array_equal(model.predict(parts.test), fitted[name].predict(parts.test))
