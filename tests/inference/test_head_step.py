"""Training of a count head: when it is kept, how it is interrupted and taken up again."""

import numpy as np
import pytest
from tests.inference.margin_counts import simulate_margins, simulate_noise

import tallyfold as tf
from tallyfold.errors import InterruptedWarning
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import run_loop
from tallyfold.inference.head import step as head_step
from tallyfold.inference.head.cells import HeadCells
from tallyfold.inference.head.recipe import LEAST, SMALL, Recipe, recipe_for
from tallyfold.inference.head.step import HeadStep, ResidualStep, head_phases, surely_better
from tallyfold.inference.head.training import Unknown, _rows, decorrelation, held_out_rows

QUICK = Recipe(n_hidden=8, batch=256, steps=300, looks=6, rate=1e-2, patience=None)
"""A short training of two members and two stages."""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(head_step, "recipe_for", lambda n_cells: QUICK)


@pytest.fixture(scope="module")
def parts():
    return tf.split(simulate_margins(n_cells=3_000, pairs=0.6), random_state=0)


def stop_at(number):
    def stop(progress):
        if progress.iteration.number == number:
            raise KeyboardInterrupt

    return stop


def same_heads(one, other):
    left, right = one.fitted_.head.arrays(), other.fitted_.head.arrays()
    return set(left) == set(right) and all(np.array_equal(left[n], right[n]) for n in left)


# -- whether it is kept ---------------------------------------------------------------------------


def test_the_constant_is_nearly_always_kept_for_noise():
    heads = [tf.Margins().fit(simulate_noise(n_cells=300, seed=seed)) for seed in range(5)]
    assert sum(not model.fitted_.head.stages for model in heads) >= 3


@pytest.mark.parametrize("count", [1, 2, None])
def test_the_constant_is_kept_for_few_cells(count):
    for n_cells in range(1, LEAST, 4):
        tensor = simulate_margins(n_cells=n_cells, seed=1)
        if count is not None:
            tensor = tf.CountTensor(tensor.axes, tensor.indices, np.full(n_cells, count))
        assert tf.Margins().fit(tensor).fitted_.head.stages == ()


def test_small_data_stop_together_and_others_have_two_stages():
    assert recipe_for(LEAST - 1).steps == 0
    small, large = recipe_for(SMALL - 1), recipe_for(SMALL)
    assert (small.patience, small.residuals, small.n_members) == (None, False, 5)
    assert large.residuals
    assert large.steps_per_look * large.looks >= large.steps


def test_margins_are_learned_from(parts):
    head = tf.Margins().fit(parts.train).fitted_.head
    assert len(head.stages) == 1
    gain = head.distribution(parts.test.indices).log_pmf(parts.test.counts)
    base = np.log(head.base_B)[head.bins.bin_of(parts.test.counts)]
    assert np.mean(gain - base) > 0.15


def test_gains_must_exceed_their_error():
    gain_N = np.array([1.0, -1.0] * 50) + 0.15
    zero_N = np.zeros(100)
    assert surely_better(gain_N, zero_N, 1.0)
    assert not surely_better(gain_N, zero_N, 2.0)
    assert not surely_better(zero_N, zero_N, 0.0)


# -- which cells a member sees --------------------------------------------------------------------


@pytest.mark.parametrize(("n_cells", "n_first"), [(1_000, 0), (1_000, 100), (60, 30), (53, 7)])
@pytest.mark.parametrize("n_members", [1, 2, 5])
def test_members_are_held_other_cells_out_one_after_the_other(n_cells, n_first, n_members):
    recipe = Recipe(n_members=n_members, held_out=0.2)
    rows = [held_out_rows(n_cells, n_first, member, recipe) for member in range(n_members)]
    starts, stops = [each.start for each in rows], [each.stop for each in rows]
    assert starts == [0, *stops[:-1]]
    assert all(start < stop for start, stop in zip(starts, stops, strict=True))
    assert stops[-1] <= n_cells
    assert n_members == 1 or n_first == 0 or stops[0] == n_first


def test_batches_pass_over_the_held_out_rows():
    held_out = slice(10, 15)
    others = [*range(10), *range(15, 30)]
    for start in range(20):
        rows = _rows(start, 5, held_out)
        found = np.arange(30)[rows].tolist()
        assert found == others[start : start + 5]


def test_steps_are_taken_in_inputs_that_are_nearly_uncorrelated():
    x_ND = np.random.default_rng(0).standard_normal((1_000_000, 3)).astype(np.float32)
    x_ND[:, 1] += 3 * x_ND[:, 0]
    turned_ND = x_ND @ decorrelation(x_ND)
    assert np.abs(np.corrcoef(x_ND.T) - np.eye(3)).max() > 0.9
    assert turned_ND.T @ turned_ND / len(x_ND) == pytest.approx(np.eye(3), abs=0.3)
    few_DD = decorrelation(x_ND[:5_000])  # of few cells they are hardly turned
    assert few_DD / few_DD[2, 2] == pytest.approx(np.eye(3), abs=0.3)


def test_some_rows_of_each_step_do_not_know_some_labels():
    unknown = Unknown(np.array([[True, False], [True, True]]), np.array([[0.5, 9], [0, -1.0]]))
    z_BD = np.full((128, 2), 7.0)
    hidden_BD = unknown.hide(z_BD, 1)
    assert hidden_BD[:4].tolist() == [[0.5, 7], [0, -1]] * 2
    assert np.all(hidden_BD[4:] == 7)
    assert np.all(z_BD == 7)
    assert unknown.hide(z_BD[:96], 1)[:3].tolist() == [[0, -1], [0.5, 7], [0, -1]]  # in turns
    assert np.all(unknown.hide(z_BD[:31], 0) == 7)


def test_unknown_labels_of_an_axis_are_average_where_hardly_any_label_is_alone(quick):
    tensor = simulate_margins((3_000, 20, 3), n_cells=2_000)
    step = HeadStep(HeadCells.of(TrainingCells(tensor), None, 0), 0)
    assert step.cells.head.averaged == (1, 2)
    unknown = step._unknown(step.inputs(step.start(None))[0])
    n_functions = step.cells.head.n_functions
    hidden_S2T = unknown.hidden_SD.reshape(4, 6, n_functions)[:, :, 0]  # 3 single axes, 3 pairs
    assert hidden_S2T.tolist() == [
        [axis in axes or everything for axes in step.cells.axis_sets]
        for axis, everything in ((0, False), (1, False), (2, False), (0, True))
    ]
    input_STF = unknown.input_SD.reshape(4, 6, n_functions)
    assert np.all(input_STF[1][[1, 3, 5]] == 0)  # the item, with the user and with the day
    assert np.all(input_STF[0][[0, 3, 4], 0] < 0)  # no cells of the user
    assert np.all(input_STF[3][3:] == 0)


def test_a_member_learns_nothing_from_the_cells_it_is_scored_on(quick):
    """Other counts there, and the same margins, leave its parameters as they were."""
    cells = HeadCells.of(TrainingCells(simulate_margins(n_cells=800)), None, 0)
    step = HeadStep(cells, 0)
    state = step.start(None)
    trained, score = step.advance(state, 1)
    cells.drawn_bin_N[step.held_out_rows(0)] = 0
    again, other_score = step.advance(state, 1)
    assert np.array_equal(trained.members[0].params_P, again.members[0].params_P)
    assert not np.array_equal(trained.members[1].params_P, again.members[1].params_P)
    assert score != other_score


# -- two stages -----------------------------------------------------------------------------------


def test_the_second_stage_begins_where_the_first_ended(quick):
    cells = HeadCells.of(TrainingCells(simulate_margins(n_cells=800)), None, 0)
    first = HeadStep(cells, 0)
    second = ResidualStep(first)
    before, _ = first.advance(first.start(None), 1)
    state = second.start(before)
    z_ND, wide_ND = first.inputs(before)[1], second.inputs(state)[1].copy()
    n_tables, n_functions = len(cells.head.tables), cells.head.n_functions
    new_D = np.tile([False] * n_functions + [True] * 2, n_tables)
    assert wide_ND[:, ~new_D] == pytest.approx(z_ND, abs=1e-4)
    by_first = first.held_out_scores(before.params_MP, z_ND)
    by_second = second.held_out_scores(state.params_MP, wide_ND)
    assert by_second.mean() == pytest.approx(by_first.mean(), abs=0.02)
    wide_ND[:, new_D] = 0
    by_second = second.held_out_scores(state.params_MP, wide_ND)
    assert by_second == pytest.approx(by_first, abs=1e-4)


def test_a_head_of_two_stages_predicts_new_cells_by_residuals_too(quick, parts, monkeypatch):
    monkeypatch.setattr(head_step, "SURE_OF_RESIDUALS", -1e9)
    cells = HeadCells.of(TrainingCells(parts.train), None, 0)
    phases = head_phases(cells, 0)
    assert [(phase.name, phase.anew) for phase in phases] == [("head", True), ("residuals", True)]
    outcome = run_loop(phases)
    assert outcome.reason == "converged"
    assert len(outcome.history) == 12
    head = head_step.trained_head(outcome, phases)
    assert len(head.stages) == 2
    scores = head.distribution(parts.test.indices).log_pmf(parts.test.counts)
    base = np.log(head.base_B)[head.bins.bin_of(parts.test.counts)]
    assert np.mean(scores - base) > 0.15
    for table in head.tables:
        assert table.sums_PF.shape[1] == head.n_functions + 2


def test_a_second_stage_that_does_not_help_is_left_out(quick, parts, monkeypatch):
    monkeypatch.setattr(head_step, "SURE_OF_RESIDUALS", 1e9)
    head = tf.Margins().fit(parts.train).fitted_.head
    assert len(head.stages) == 1
    assert head.tables[0].sums_PF.shape[1] == head.n_functions


# -- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 6, 8, 12])
def test_a_fit_stopped_inside_the_head_and_resumed_is_the_uninterrupted_one(
    number, quick, parts, tmp_path
):
    whole = tf.Margins().fit(parts.train)
    assert whole.history_["phase"].tolist() == ["head"] * 6 + ["residuals"] * 6
    with pytest.warns(InterruptedWarning, match="interrupted"):
        part = tf.Margins().fit(
            parts.train, checkpoint=tmp_path, every=1, callbacks=[stop_at(number)]
        )
    assert len(part.history_) == number
    assert np.isfinite(part.score(parts.test))
    resumed = tf.Margins().fit(parts.train, checkpoint=tmp_path, resume=True)
    assert resumed.history_["objective"].tolist() == whole.history_["objective"].tolist()
    assert same_heads(resumed, whole)
    assert resumed.score(parts.test) == whole.score(parts.test)


MODEL = {"zeros": "missing", "n_components": 2, "max_iter": 5, "tol": 0.0, "patience": 99}


@pytest.fixture
def whole(quick, parts):
    return tf.VAEBPTF(**MODEL).fit(parts.train)


def test_factors_and_a_head_stopped_anywhere_go_on_to_the_same_bits(whole, parts, tmp_path):
    assert whole.history_["phase"].unique().tolist() == ["sweeps", "head", "residuals"]
    for number in (3, 7, 13):
        folder = tmp_path / str(number)
        with pytest.warns(InterruptedWarning):
            tf.VAEBPTF(**MODEL).fit(parts.train, checkpoint=folder, callbacks=[stop_at(number)])
        resumed = tf.VAEBPTF(**MODEL).fit(parts.train, checkpoint=folder, resume=True)
        assert same_heads(resumed, whole)
        assert np.array_equal(resumed.posterior_.mean("user"), whole.posterior_.mean("user"))
        assert resumed.score(parts.test) == whole.score(parts.test)


def test_a_fit_stopped_before_the_head_predicts_by_the_rates_and_says_so(quick, parts):
    model = tf.VAEBPTF(**MODEL)
    with pytest.warns(InterruptedWarning, match=r"iteration \d.*count head was not trained"):
        model.fit(parts.train, callbacks=[stop_at(4)])
    assert model.fitted_.head is None
    assert model.fitted_.reason == "interrupted"
    assert model.history_["phase"].unique().tolist() == ["sweeps"]
    assert model.calibration_.dispersion is not None
    scores = model.score(parts.test)
    assert scores == pytest.approx(model.predictive(parts.test).log_pmf(parts.test.counts).mean())
    assert scores > tf.Constant().fit(parts.train).score(parts.test)


@pytest.mark.parametrize("number", [6, 11])
def test_a_fit_stopped_inside_the_head_has_one(number, quick, parts, whole):
    model = tf.VAEBPTF(**MODEL)
    with pytest.warns(InterruptedWarning, match=r"interrupted; the model is that of iteration"):
        model.fit(parts.train, callbacks=[stop_at(number)])
    assert model.fitted_.reason == "interrupted"
    assert np.array_equal(model.posterior_.mean("user"), whole.posterior_.mean("user"))
    assert np.all(np.isfinite(model.predict(parts.test)))
    floor = tf.Constant().fit(parts.train).score(parts.test)
    assert floor < model.score(parts.test) < whole.score(parts.test) + 0.02


def test_an_interrupt_inside_the_heads_first_look_leaves_the_factors(quick, parts, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(HeadStep, "advance", interrupted)
    model = tf.VAEBPTF(**MODEL)
    with pytest.warns(InterruptedWarning, match="count head was not trained"):
        model.fit(parts.train)
    assert model.fitted_.head is None
    assert model.n_iter_ == len(model.history_) == 5
    assert np.isfinite(model.score(parts.test))
