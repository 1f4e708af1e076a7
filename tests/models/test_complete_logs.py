"""VAE-BPTF where cells without an entry are zeros."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment

import tallyfold as tf
from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.errors import InterruptedWarning, LabelError, ParameterError

pytestmark = pytest.mark.usefixtures("brief_heads")

QUICK = {"zeros": "observed", "n_components": 3, "max_iter": 12}


def shopping(n_users=100, n_items=30, n_days=20, seed=0, active=0.25):
    """Return baskets: users of two kinds, active on some days, each kind with its own items."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_users)
    busy = rng.random((n_users, n_days)) < active
    rows = []
    for user, day in zip(*np.nonzero(busy), strict=True):
        liked = np.where(np.arange(n_items) % 2 == kind[user], 0.35, 0.02)
        for item in np.flatnonzero(rng.random(n_items) < liked):
            rows.append((f"u{user:03}", f"i{item:02}", int(day), int(rng.geometric(0.6))))
    frame = pd.DataFrame(rows, columns=["user", "item", "day", "count"])
    return tf.CountTensor.from_frame(frame, ["user", "item", "day"], value="count")


@pytest.fixture(scope="module")
def parts():
    return tf.split(shopping(), 0.2, cells="all", random_state=1)


@pytest.fixture(scope="module")
def model(parts):
    return tf.VAEBPTF(**QUICK | {"max_iter": 40}).fit(parts.train)


def occurrence(model, test):
    """Return the mean log probability of whether cells have a count, per cell that has one."""
    empty = draw_empty_cells(test, 100_000, 0)
    none = model.predictive(empty.indices_ZM).log_pmf(np.zeros(len(empty.weight_Z), int))
    return (np.log(model.probability(test)).sum() + empty.weight_Z @ none) / test.nnz


def test_beats_plain_factors_and_main_effects(parts, model):
    rivals = tf.BPTF(zeros="observed", n_components=3), tf.MainEffects(zeros="observed")
    ours = occurrence(model, parts.test)
    for rival in rivals:
        assert ours > occurrence(rival.fit(parts.train), parts.test) + 0.3


def test_chooses_the_gate_that_was_there(model):
    (gate,) = model.fitted_.derived
    assert [model.axes_[axis].name for axis in gate.axes] == ["user", "day"]


def test_gate_may_be_named_or_none(parts):
    named = tf.VAEBPTF(**QUICK, gate=("day", "user")).fit(parts.train)
    assert named.fitted_.derived[0].axes == (0, 2)
    assert tf.VAEBPTF(**QUICK, gate="none").fit(parts.train).fitted_.derived == ()
    with pytest.raises(LabelError, match="no axis 'shop'"):
        tf.VAEBPTF(**QUICK, gate=("shop", "day")).fit(parts.train)
    with pytest.raises(ParameterError, match="two different axes"):
        tf.VAEBPTF(**QUICK, gate=("day", "day")).fit(parts.train)
    with pytest.raises(ParameterError, match="zeros='observed'"):
        tf.VAEBPTF(zeros="missing", gate=("user", "day")).fit(parts.train)


def test_probabilities_are_calibrated(parts, model):
    cells = np.concatenate([parts.test.indices, draw_empty_cells(parts.test, 10**6).indices_ZM])
    share = model.probability(cells)
    assert share.sum() == pytest.approx(parts.test.nnz, rel=0.12)
    for low, high in ((0.0, 0.05), (0.05, 1.0)):
        inside = (share >= low) & (share < high)
        hits = (np.flatnonzero(inside) < parts.test.nnz).sum()
        assert hits == pytest.approx(share[inside].sum(), abs=4 * np.sqrt(share[inside].sum()))


def test_components_are_the_two_kinds(model):
    top = model.components("item", top=5)
    kinds = [
        {int(label[1:]) % 2 for label in rows["label"]} for _, rows in top.groupby("component")
    ]
    assert {0} in kinds
    assert {1} in kinds


def test_predictive_is_one_distribution(parts, model):
    cells = parts.test.indices[:50]
    found, zero = model.predictive(cells), np.zeros(50, int)
    share = model.probability(cells)
    np.testing.assert_allclose(np.exp(found.log_pmf(zero)), 1 - share, rtol=1e-9)
    pmf = sum(np.exp(found.log_pmf(zero + y)) for y in range(60))
    np.testing.assert_allclose(pmf, 1, atol=1e-3)
    mean = model.predict(cells)
    np.testing.assert_allclose(mean, share * model.predict(cells, given="nonzero"), rtol=1e-9)
    assert model.predict(cells, given="nonzero").min() >= 1
    draws = model.sample(cells, 4000)
    np.testing.assert_allclose((draws > 0).mean(axis=0), share, atol=0.05)
    assert (model.interval(cells)[:, 0] == 0).any()
    with pytest.raises(ParameterError, match="'nonzero' or None"):
        model.predict(cells, given="some")


def test_missing_zeros_have_no_probability(parts):
    missing = tf.Margins().fit(parts.train)
    with pytest.raises(ParameterError, match="zeros='observed'"):
        missing.probability(parts.test)


OBSERVING = {
    "vae-bptf": lambda: tf.VAEBPTF(**QUICK),
    "bptf": lambda: tf.BPTF(zeros="observed", n_components=3, max_iter=20),
    "bptf, gate": lambda: tf.BPTF(
        zeros="observed", n_components=3, max_iter=20, gate=("user", "day")
    ),
    "bptf, nothing held out": lambda: tf.BPTF(
        zeros="observed", n_components=3, max_iter=20, validation=None
    ),
    "main effects": lambda: tf.MainEffects(zeros="observed"),
    "constant": lambda: tf.Constant(zeros="observed"),
    "negative binomial": lambda: tf.Constant(zeros="observed", likelihood="negative-binomial"),
    "margins": lambda: tf.Margins(zeros="observed"),
    "gibbs": lambda: tf.GibbsBPTF(zeros="observed", n_components=3, burn_in=10, n_draws=5),
    "ptf-kl": lambda: tf.PTFKL(zeros="observed", n_components=3, max_iter=20),
}


@pytest.mark.parametrize("name", OBSERVING)
def test_hidden_cells_are_not_taught_as_zeros(name):
    whole = shopping(seed=3)
    train = tf.split(whole, 0.5, cells="all").train
    fitted = OBSERVING[name]().fit(train)
    every = np.stack(np.unravel_index(np.arange(whole.size), whole.shape), axis=1)
    assert fitted.predict(every).sum() == pytest.approx(whole.total, rel=0.12)


def test_a_day_without_any_cell_is_not_taught_as_empty():
    train = tf.split_time(shopping(), "day", after=14).train
    fitted = tf.VAEBPTF(**QUICK).fit(train)
    cells = train.indices[:200].copy()
    known = fitted.probability(cells).mean()
    cells[:, 2] = 17
    unseen = fitted.probability(cells)
    assert np.all(np.isfinite(unseen))
    assert unseen.mean() > 0.05 * known
    frame = pd.DataFrame({"user": ["u000"], "item": ["i00"], "day": [99]})
    assert 0 < fitted.probability(frame, unknown="prior")[0] < 1


def test_saved_and_loaded_bit_for_bit(tmp_path, parts, model):
    model.save(tmp_path / "model")
    again = tf.load(tmp_path / "model")
    cells = parts.test.indices
    assert np.array_equal(model.probability(cells), again.probability(cells))
    assert np.array_equal(model.predict(cells), again.predict(cells))
    assert np.array_equal(model.rate(cells), again.rate(cells))


def test_cells_alone_or_together(parts, model):
    cells = parts.test.indices
    some = model.probability(cells[5:9])
    np.testing.assert_allclose(model.probability(cells)[5:9], some, rtol=1e-12)


def test_a_cell_has_the_same_bits_wherever_it_stands(parts, model):
    for cell in parts.test.indices[:5]:
        many = np.asfortranarray(np.tile(cell, (1024, 1)))
        assert len(set(model.probability(many).tolist())) == 1
        assert len(set(model.predict(many).tolist())) == 1


def test_order_of_rows_and_threads_do_not_matter(parts, model):
    from tallyfold import kernels

    with kernels.use_threads(1):
        again = tf.VAEBPTF(**QUICK | {"max_iter": 40}).fit(parts.train)
    assert np.array_equal(model.probability(parts.test), again.probability(parts.test))


def test_resumed_equals_uninterrupted(tmp_path, parts):
    quick = QUICK | {"amount": "negative-binomial"}
    straight = tf.VAEBPTF(**quick).fit(parts.train)
    for stop_at in (3, 11, 21, 25):
        folder = tmp_path / str(stop_at)

        def stop(progress, at=stop_at):
            if progress.iteration.number == at:
                raise KeyboardInterrupt

        with pytest.warns(InterruptedWarning):
            early = tf.VAEBPTF(**quick).fit(
                parts.train, checkpoint=folder, every=2, callbacks=[stop]
            )
        assert np.all(np.isfinite(early.predict(parts.test)))
        resumed = tf.VAEBPTF(**quick).fit(parts.train, checkpoint=folder, resume=True)
        assert np.array_equal(straight.predict(parts.test), resumed.predict(parts.test))


def test_members_are_mixed(parts):
    mixed = tf.VAEBPTF(**QUICK, n_members=2).fit(parts.train)
    one, two = mixed._members
    cells = parts.test.indices[:20]
    zeros = [np.exp(-member.rates(cells)) for member in (one, two)]
    np.testing.assert_allclose(mixed.probability(cells), 1 - np.mean(zeros, axis=0), rtol=1e-6)


def test_amount_by_the_negative_binomial(parts):
    fitted = tf.VAEBPTF(**QUICK, amount="negative-binomial").fit(parts.train)
    assert fitted.fitted_.head is None
    assert fitted.predict(parts.test, given="nonzero").min() >= 1


def test_two_axes_and_four():
    whole = shopping()
    for tensor in (whole.collapse("day"), _with_shop(whole)):
        train, test = tf.split(tensor, 0.2, cells="all")
        fitted = tf.VAEBPTF(**QUICK).fit(train)
        share = fitted.probability(test)
        assert np.all((share > 0) & (share < 1))


def _with_shop(tensor):
    frame = tensor.to_frame()
    frame["shop"] = frame["day"] % 3
    return tf.CountTensor.from_frame(frame, ["user", "item", "day", "shop"], value="count")


@pytest.mark.parametrize("given", [{}, {"validation": None}])
def test_tiny_tensors_fit(given):
    tensor = tf.simulate((5, 4, 3), n_components=1, density=0.4).tensor
    fitted = tf.VAEBPTF(zeros="observed", n_components=2, max_iter=3, **given).fit(tensor)
    assert np.all(np.isfinite(fitted.predict(tensor)))


def test_answers_are_heard():
    """Letters between people: an answer comes back half of the time."""
    rng = np.random.default_rng(0)
    n, rows = 60, set()
    for week in range(20):
        for one, two in rng.integers(0, n, (150, 2)).tolist():
            rows.add((f"p{one:02}", f"p{two:02}", week))
            if rng.random() < 0.6:
                rows.add((f"p{two:02}", f"p{one:02}", week))
    frame = pd.DataFrame(sorted(rows), columns=["sender", "receiver", "week"])
    tensor = tf.CountTensor.from_frame(frame, ["sender", "receiver", "week"])
    train, test = tf.split(tensor, 0.2, cells="all")
    fitted = tf.VAEBPTF(**QUICK).fit(train)
    mirror = fitted.fitted_.occurrence.mirror
    assert mirror.axes == (0, 1)
    answered = [
        bool(mirror.filled(mirror.positions(test.indices[at : at + 1]))[0])
        for at in range(test.nnz)
    ]
    share = fitted.probability(test)
    assert share[answered].mean() > 5 * share[~np.array(answered)].mean()


def test_resumed_where_the_gate_was_chosen_late(tmp_path):
    """The gate that held-out cells are best predicted with is not that of the first state."""
    truth = tf.simulate((30, 20, 8), 2, density=0.25, axes=["user", "item", "day"], random_state=3)
    train = tf.split(truth.tensor, 0.2, random_state=0).train
    quick = QUICK | {"n_components": 2, "max_iter": 8}
    straight = tf.VAEBPTF(**quick).fit(train)
    assert straight.fitted_.derived
    phases = straight.history_.groupby("phase")["iteration"].min()
    for name in ("sweeps", "occurrence", "all cells", "head"):
        folder = tmp_path / name

        def stop(progress, at=int(phases[name])):
            if progress.iteration.number == at:
                raise KeyboardInterrupt

        with pytest.warns(InterruptedWarning):
            tf.VAEBPTF(**quick).fit(train, checkpoint=folder, callbacks=[stop])
        resumed = tf.VAEBPTF(**quick).fit(train, checkpoint=folder, resume=True)
        assert np.array_equal(straight.predict(train), resumed.predict(train))


def covered(seed):
    """Return the share of true weights within the intervals of a fit's components, by axis."""
    truth = tf.simulate((80, 60, 25), 3, density=0.05, prior_shape=0.5, random_state=seed)
    given = {"gate": "none", "amount": "negative-binomial"}
    factors = tf.VAEBPTF(n_components=3, zeros="observed", **given).fit(truth.tensor).posterior_
    means = [factors.mean(name) for name in factors.names]
    true = [each / each.sum(axis=0) for each in truth.factors]
    alike = sum(np.corrcoef(t.T, m.T)[:3, 3:] for t, m in zip(true, means, strict=True))
    ours = linear_sum_assignment(-alike)[1]
    for name, mean, own in zip(factors.names, means, true, strict=True):
        ends = (
            factors.quantile(name, p)[:, ours] / mean[:, ours].sum(axis=0) for p in (0.05, 0.95)
        )
        low, high = ends
        inside = (low <= own) & (own <= high)
        yield inside[own > 1e-3 * own.max(axis=0)].mean()


def test_intervals_cover_what_was_simulated():
    found = np.array([list(covered(seed)) for seed in range(4)])
    assert 0.85 <= found.mean() <= 0.95
    assert found.min() > 0.75


def test_intervals_of_counts_cover(parts, model):
    """Of all cells, zeros included: as whole numbers do, they cover a little more than they say."""
    empty = draw_empty_cells(parts.test, 20_000, 0)
    low, high = model.interval(parts.test, 0.9).T
    some = parts.test.counts
    hit = float(((low <= some) & (some <= high)).sum())
    low, high = model.interval(empty.indices_ZM, 0.9).T
    hit += float(empty.weight_Z @ ((low <= 0) & (high >= 0)))
    assert 0.9 <= hit / (len(some) + empty.weight_Z.sum()) <= 0.995


def test_what_always_has_a_count_does_not_grow_without_end():
    """In an active month members borrow from their shelves for sure: no rate is large enough."""
    rng = np.random.default_rng(0)
    active = rng.random((120, 20)) < 0.5
    liked = np.arange(8) % 2 == rng.integers(0, 2, 120)[:, None]
    filled = active[:, None, :] & (
        rng.random((120, 8, 20)) < np.where(liked, 0.98, 0.05)[..., None]
    )
    frame = pd.DataFrame(np.argwhere(filled), columns=["member", "shelf", "month"])
    tensor = tf.CountTensor.from_frame(frame, ["member", "shelf", "month"])
    train, test = tf.split(tensor, 0.4, cells="all", random_state=0)
    given = {"gate": ("member", "month"), "amount": "negative-binomial"}
    model = tf.VAEBPTF(n_components=2, zeros="observed", **given).fit(train)
    assert model.posterior_.rate_moments(train.indices)[0].max() < 20
    own = occurrence(model, test)
    assert own > occurrence(tf.BPTF(n_components=2, zeros="observed").fit(train), test) + 0.3
