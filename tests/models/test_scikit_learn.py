"""What scikit-learn does with an estimator, done by the real scikit-learn."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError as NotFitted
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

import tallyfold as tf
from tallyfold.errors import DataError, NotFittedError, ParameterError

pytestmark = pytest.mark.usefixtures("brief_heads")

TENSOR = tf.simulate((20, 15, 8), 2, density=0.4, random_state=0).tensor
QUICK = {"n_components": 2, "max_iter": 5, "backend": "numpy"}
GRID = {"n_components": [1, 3]}


@pytest.mark.parametrize(
    "model", [tf.BPTF(**QUICK), tf.VAEBPTF(**QUICK, zeros="missing"), tf.Constant()]
)
def test_the_last_step_of_a_pipeline(model):
    pipeline = make_pipeline(clone(model))
    assert pipeline.fit(TENSOR) is pipeline
    alone = clone(model).fit(TENSOR, None)
    assert np.array_equal(pipeline.predict(TENSOR), alone.predict(TENSOR))
    assert pipeline.score(TENSOR) == alone.score(TENSOR, None)
    assert pipeline[-1].axes_ == TENSOR.axes


def test_a_step_before_the_model():
    from sklearn.preprocessing import FunctionTransformer

    pipeline = make_pipeline(
        FunctionTransformer(lambda t: t.filter(top={"axis_0": 9})), tf.BPTF(**QUICK)
    )
    assert len(pipeline.fit(TENSOR)[-1].axes_[0]) == 9
    name = pipeline.steps[-1][0]
    assert pipeline.set_params(**{f"{name}__n_components": 4})[-1].n_components == 4


@pytest.mark.parametrize("name", tf.MODELS)
def test_clones_have_the_parameters_and_no_fit(name):
    model = tf.MODELS[name]()
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not is_classifier(again)
    assert not is_regressor(again)
    with pytest.raises(NotFittedError):
        again.predict(TENSOR)


@pytest.mark.parametrize("cells", ["all", "nonzero"])
def test_a_grid_search_scores_the_parts_of_k_folds(cells):
    cv = tf.cross_validator(3, cells=cells, random_state=1)
    model = tf.BPTF(**QUICK, zeros="observed" if cells == "all" else "missing")
    search = GridSearchCV(model, GRID, cv=cv, error_score="raise").fit(TENSOR)
    for number, (train, test) in enumerate(tf.k_folds(TENSOR, 3, cells=cells, random_state=1)):
        for row, k in enumerate(GRID["n_components"]):
            wanted = clone(model).set_params(n_components=k).fit(train).score(test)
            assert search.cv_results_[f"split{number}_test_score"][row] == wanted
    assert search.n_splits_ == 3
    whole = clone(model).set_params(**search.best_params_).fit(TENSOR)
    assert np.array_equal(search.predict(TENSOR), whole.predict(TENSOR))


def test_other_searches_parts_of_ones_own_and_threads():
    folds = [tf.split(TENSOR, 0.3, random_state=seed) for seed in (0, 1)]
    cv = tf.cross_validator(folds)
    model = tf.BPTF(**QUICK)
    wanted = [clone(model).fit(train).score(test) for train, test in folds]
    assert cross_val_score(model, TENSOR, cv=cv).tolist() == wanted
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert cross_validate(model, TENSOR, cv=cv)["test_score"].tolist() == wanted
    search = RandomizedSearchCV(model, GRID, n_iter=2, cv=cv, random_state=0).fit(TENSOR)
    assert search.best_params_["n_components"] in (1, 3)


def test_models_and_folds_go_through_joblib(tmp_path):
    model = tf.BPTF(**QUICK).fit(TENSOR)
    joblib.dump(model, tmp_path / "m.joblib")
    assert np.array_equal(joblib.load(tmp_path / "m.joblib").predict(TENSOR), model.predict(TENSOR))
    for hidden in ("all", "nonzero"):
        cv = pickle.loads(pickle.dumps(tf.cross_validator(2, cells=hidden)))
        folds = tf.k_folds(TENSOR, 2, cells=hidden)
        for keys, parts in zip(cv.split(TENSOR), folds, strict=True):
            for key, part in zip(keys, parts, strict=True):
                assert TENSOR[key] == part
                assert TENSOR[key, ...].part == part.part
    predicted = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(model.predict)(TENSOR) for _ in range(3)
    )
    assert all(np.array_equal(each, model.predict(TENSOR)) for each in predicted)


def test_a_fitted_model_is_known_as_one():
    check_is_fitted(tf.BPTF(**QUICK).fit(TENSOR))
    with pytest.raises(NotFitted, match="not fitted yet"):
        check_is_fitted(tf.BPTF())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fold_in", "take in new cells"),
        ("partial_fit", "unknown='prior'"),
        ("transform", r"vectors\(axis\)"),
        ("predict_proba", r"predictive\(cells\)"),
        ("components_", r"posterior_.mean\(axis\)"),
    ],
)
def test_methods_of_others_say_what_to_call(name, told):
    model = tf.BPTF(**QUICK).fit(TENSOR)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=f"BPTF has no '{name}'.*{told}"):
        getattr(model, name)
    with pytest.raises(AttributeError, match="object has no attribute 'nothing'$"):
        _ = model.nothing
    with pytest.raises(tf.errors.NotFittedError, match="is not fitted yet"):
        _ = tf.BPTF().posterior_


def test_what_makes_no_sense_for_a_tensor_is_refused_in_words():
    model = tf.BPTF(**QUICK)
    for call in (lambda: model.fit(TENSOR, [1, 2]), lambda: model.fit(TENSOR).score(TENSOR, [1])):
        with pytest.raises(ParameterError, match="`y` must be None.*Leave it out"):
            call()
    with pytest.raises(ParameterError, match="`y` must be None"):
        make_pipeline(tf.VAEBPTF(**QUICK)).fit(TENSOR, np.ones(20))
    with pytest.raises(ParameterError, match=r"in scikit-learn's searches cv=tf.cross_validator"):
        GridSearchCV(model, GRID, cv=3).fit(TENSOR)
    with pytest.raises(ParameterError, match="transforms nothing.*components"):
        model.set_output(transform="pandas")
    with pytest.raises(TypeError, match="should be transformers|implement fit and transform"):
        make_pipeline(model, tf.Constant()).fit(TENSOR)
    with pytest.raises(ParameterError, match="splits a CountTensor; got ndarray"):
        next(tf.cross_validator(3).split(np.ones((3, 3))))
    with pytest.raises(ParameterError, match="neither `y` nor `groups`"):
        next(tf.cross_validator(3).split(TENSOR, groups=[1]))
    with pytest.raises(DataError, match="axes differ"):
        next(tf.cross_validator([tf.split(TENSOR)]).split(tf.simulate((9, 9), 1).tensor))
    with pytest.raises(ValueError, match="partition"):
        cross_val_predict(model, TENSOR, cv=tf.cross_validator(3))
    with pytest.raises(ParameterError, match="not taken apart by numbers"):
        TENSOR[3]
    with pytest.raises(TypeError, match="not iterable"):
        iter(TENSOR)
