from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.state_arrays import from_arrays, to_arrays
from tallyfold.inference.paper_encoders.state import PaperState
from tallyfold.inference.paper_encoders.step import PaperStep
from tallyfold.inference.schemes.adam import Adam
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.probability.counts import COUNTS


class Pair(NamedTuple):
    first: np.ndarray
    second: float


@dataclass(frozen=True)
class Inner:
    table_DK: np.ndarray
    widest_DK: np.ndarray | None = None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    pair: Pair
    named: dict[str, np.ndarray]
    some: list[float]
    steps: int
    done: bool
    dispersion: float | None
    error_N: np.ndarray | None


def state_of(start, dispersion, error_N):
    return Outer(
        (Inner(np.full((2, 3), start)), Inner(np.full((1, 3), start), np.full((1, 3), 9.0))),
        Pair(np.array([start, 1.0]), start + 0.5),
        {"weight": np.array(start), "bias": np.array([start])},
        [start, -start],
        int(start),
        start > 1,
        dispersion,
        error_N,
    )


def test_names_are_paths_and_what_is_none_is_left_out():
    arrays = to_arrays(state_of(2.0, None, np.zeros(4)))
    assert {*arrays} == {
        "inner/0/table_DK",
        "inner/1/table_DK",
        "inner/1/widest_DK",
        "pair/first",
        "pair/second",
        "named/weight",
        "named/bias",
        "some/0",
        "some/1",
        "steps",
        "done",
        "error_N",
    }
    assert arrays["pair/second"] == 2.5
    assert arrays["inner/1/widest_DK"].tolist() == [[9.0] * 3]


@pytest.mark.parametrize("dispersion", [None, 0.7])
@pytest.mark.parametrize("like_dispersion", [None, 3.0])
def test_a_state_is_the_same_after_a_round_trip(dispersion, like_dispersion):
    """Also where a number is None in one of the two states and not in the other."""
    state = state_of(2.0, dispersion, np.arange(4.0))
    found = from_arrays(state_of(1.0, like_dispersion, np.zeros(4)), to_arrays(state))
    assert same_states(found, state)
    assert found.dispersion == dispersion
    assert isinstance(found, Outer)
    assert [type(part) for part in (found.inner, found.inner[0])] == [tuple, Inner]
    assert type(found.pair) is Pair
    assert type(found.named) is dict
    assert type(found.some) is list
    assert found.inner[0].widest_DK is None
    assert [type(n) for n in (found.steps, found.done, found.pair.second)] == [int, bool, float]
    assert isinstance(found.named["weight"], np.ndarray)  # no dimension, but an array all the same


def test_an_array_that_is_none_at_the_start_comes_back():
    found = from_arrays(state_of(1.0, None, None), to_arrays(state_of(2.0, None, np.arange(4.0))))
    assert found.error_N.tolist() == [0, 1, 2, 3]
    gone = from_arrays(found, to_arrays(state_of(2.0, None, None)))
    assert gone.error_N is None


@pytest.mark.parametrize("empty", [(), [], {}], ids=str)
def test_what_is_empty_has_no_arrays_and_stays_empty(empty):
    assert to_arrays({"a": empty, "b": 1.0}) == {"b": np.array(1.0)}
    assert from_arrays({"a": empty, "b": 0.0}, {"b": np.array(1.0)}) == {"a": empty, "b": 1.0}


def test_arrays_that_grow_may_be_longer_than_at_the_start():
    found = from_arrays({"draws": (np.empty((0, 2)),)}, {"draws/0": np.ones((3, 2))})
    assert found["draws"][0].shape == (3, 2)


@pytest.mark.parametrize("reweight", ["error", "none"])
def test_the_state_of_a_fit_comes_back_and_only_cells_have_names_that_say_so(reweight):
    """Encoders, Adam's means by name, Gamma posteriors, and one error per cell."""
    cells = TrainingCells(tf.simulate((6, 5, 4), 2, density=0.4, random_state=0).tensor)
    step = PaperStep(cells, COUNTS["poisson", True], False, 2, reweight=reweight, backend="numpy")
    state, _ = step.advance(step.start(), 1)
    arrays = to_arrays(state)
    found = from_arrays(step.start(), arrays)
    assert same_states(found, state)
    assert not same_states(step.start(), state)
    assert [type(part) for part in (found, found.encoders[0])] == [PaperState, Adam]
    assert [type(part) for part in (found.encoded, found.encoded.axes[0])] == [
        GammaPosterior,
        GammaTable,
    ]
    of_cells = [name for name in arrays if name.endswith("_N")]
    assert of_cells == (["error_N"] if reweight == "error" else [])
    assert all(len(arrays[name]) == len(cells) for name in of_cells)
