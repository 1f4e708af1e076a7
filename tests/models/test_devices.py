"""Fits by torch on the CPU, and devices that cannot be used."""

from functools import cache

import numpy as np
import pytest
import torch

import tallyfold as tf
from tallyfold import BPTF, VAEBPTF, MainEffects
from tallyfold.errors import BackendError, ParameterError

ENCODERS = {"zeros": "missing", "amount": "negative-binomial"}
MODELS = {
    "main effects": (MainEffects, {"max_iter": 6}),
    "bptf": (BPTF, {"n_components": 3, "max_iter": 10}),
    "untruncated": (BPTF, {"n_components": 3, "max_iter": 10, "truncated": False}),
    "dispersed": (BPTF, {"n_components": 3, "max_iter": 10, "likelihood": "negative-binomial"}),
    "zeros": (BPTF, {"n_components": 3, "max_iter": 10, "zeros": "observed"}),
    "encoders": (VAEBPTF, {**ENCODERS, "n_components": 2, "max_iter": 4}),
    "encoders of axes": (
        VAEBPTF,
        {**ENCODERS, "n_components": 2, "max_iter": 4, "interactions": "none"},
    ),
    "head": (VAEBPTF, {"zeros": "missing", "n_components": 2, "max_iter": 4}),
    "paper": (VAEBPTF.paper, {"n_components": 2, "hidden_units": 4, "max_iter": 3}),
    "paper, by error": (
        VAEBPTF.paper,
        {"n_components": 2, "hidden_units": 4, "max_iter": 3, "reweight": "error"},
    ),
}


def make(name, **changes):
    kind, parameters = MODELS[name]
    return kind(**(parameters | changes))


@pytest.fixture(scope="module")
def parts():
    truth = tf.simulate((30, 20, 10), 3, density=0.25, axes=["user", "item", "day"], random_state=1)
    return tf.split(truth.tensor, 0.2, random_state=0)


@pytest.fixture(scope="module")
def by_torch(parts):
    """Fits by torch on the CPU, each made once."""
    return cache(lambda name: make(name, backend="torch").fit(parts.train))


def assert_same_factors(one, other, tolerance):
    for name in one.posterior_.names:
        np.testing.assert_allclose(
            one.posterior_.mean(name), other.posterior_.mean(name), rtol=tolerance
        )
        np.testing.assert_allclose(
            one.posterior_.sd(name), other.posterior_.sd(name), rtol=tolerance
        )


@pytest.mark.parametrize("name", MODELS)
def test_torch_finds_the_factors_that_other_kernels_find(name, parts, by_torch):
    # compiled encoders of the paper work in float32
    other = make(name, backend="numpy" if "paper" in name else "numba").fit(parts.train)
    model = by_torch(name)
    assert len(model.history_) == len(other.history_)
    assert model.n_iter_ == other.n_iter_
    assert_same_factors(model, other, 1e-6)
    if name.startswith("encoders"):
        assert model.history_["phase"].tolist() == ["sweeps"] * 2 + ["encoders"] * 2
    assert model.score(parts.test) == pytest.approx(other.score(parts.test), rel=1e-6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
@pytest.mark.parametrize("name", ["bptf", "encoders", "paper"])
def test_a_model_from_a_card_predicts_where_there_is_none(
    name, parts, by_torch, monkeypatch, tmp_path
):
    predicted = by_torch(name).predict(parts.test)
    with monkeypatch.context() as patches:
        patches.setitem(by_torch(name).fitted_.parameters, "device", "cuda")
        by_torch(name).save(tmp_path)
    loaded = tf.load(tmp_path)
    assert loaded.device == "cuda"
    assert np.array_equal(loaded.predict(parts.test), predicted)
    assert loaded.interval(parts.test).shape == (parts.test.nnz, 2)
    with pytest.raises(BackendError, match=r"torch finds none; got 'cuda'"):
        loaded.set_params(backend="auto").fit(parts.train)
    assert np.array_equal(loaded.predict(parts.test), predicted)  # unchanged
    if name == "encoders":
        assert np.isfinite(loaded.partial(parts.test).score(parts.test))
    if name == "bptf":
        loaded.set_params(device="cpu").fit(parts.train)


@pytest.mark.parametrize("name", ["main effects", "bptf", "encoders", "paper"])
def test_devices_that_cannot_be_used(name, parts):
    with pytest.raises(BackendError, match="`device` must be a CUDA device of this machine"):
        make(name, device="cuda").fit(parts.train)
    with pytest.raises(ParameterError, match="`device` must be 'cpu', 'cuda'.*; got 'tpu'"):
        make(name, device="tpu").fit(parts.train)
    for backend in ("numba", "numpy"):
        with pytest.raises(ParameterError, match="`backend` must be 'auto' or 'torch' with device"):
            make(name, device="cuda", backend=backend).fit(parts.train)
