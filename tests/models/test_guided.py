"""Seeds pull components towards labels, and do not lock them; a background takes what is common."""

import numpy as np
import pytest
from sklearn.base import clone

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.found_seeds import find_seeds
from tallyfold.models.guided import STRENGTHS
from tallyfold.posterior.matching import Profiles, matched_overlaps, recurring

RARE, BLOCK = slice(45, 60), 15
"""Where the words of the fourth component are; every component has as many."""


def made(seed=2, rates=(600, 600, 600, 40), common=0):
    """Return counts of four blocks, the last one rare, and of what is common to all."""
    rng, shape = np.random.default_rng(seed), (80, 60, 10)
    rate = np.zeros(shape)
    for k, total in enumerate(rates):
        factors = []
        for size in shape:
            own = slice(k * size // 4, (k + 1) * size // 4)
            factor = np.full(size, 0.02)
            factor[own] = rng.gamma(2, size=own.stop - own.start) + 0.2
            factors.append(factor / factor.sum())
        rate += total * np.einsum("i,j,l->ijl", *factors)
    if common:
        factors = [rng.gamma(0.5, size=size) + 0.02 for size in shape]
        rate += common * np.einsum("i,j,l->ijl", *(f / f.sum() for f in factors))
    counts = rng.poisson(rate)
    names = ("doc", "word", "year")
    axes = [
        tf.Axis(name, [f"{name[0]}{d:02d}" for d in range(n)])
        for name, n in zip(names, shape, strict=True)
    ]
    return tf.CountTensor(axes, np.argwhere(counts), counts[counts > 0])


def small(kind=tf.VAEBPTF, **given):
    plain = {"n_components": 4, "zeros": "observed", "gate": "none"}
    if kind is tf.VAEBPTF:
        plain["amount"] = "negative-binomial"
    return kind(**(plain | given))


@pytest.fixture(scope="module")
def tensor():
    return made()


def weights(model, name):
    """Return what a component says of words."""
    column = model.posterior_.mean("word")[:, model.component_names_.index(name)]
    return column / column.sum()


RARE_SEEDS = {"rare": {"word": ["w45", "w46", "w47", "w48"]}}


def test_a_rare_component_is_found_with_seeds_only(tensor):
    plain = small(random_state=2).fit(tensor).posterior_.mean("word")
    assert (plain / plain.sum(axis=0))[RARE].sum(axis=0).max() < 0.3
    guided = small(random_state=2, seeds=RARE_SEEDS).fit(tensor)
    assert weights(guided, "rare")[RARE].sum() > 0.7
    assert guided.components("word", top=5).query("name == 'rare'")["label"].iloc[0] > "w44"


@pytest.mark.parametrize("strength", STRENGTHS)
def test_labels_that_do_not_go_together_leave(tensor, strength):
    wrong = {"wrong": {"word": ["w00", "w01", "w20", "w21"]}}
    model = small(seeds=wrong, seed_strength=strength).fit(tensor)
    weight_D = weights(model, "wrong")
    blocks = weight_D.reshape(4, BLOCK).sum(axis=1)
    assert blocks.max() > 0.85  # it is one of the real ones, not a mixture
    lost = [0, 1] if blocks.argmax() == 1 else [20, 21]
    own = np.sort(weight_D.reshape(4, BLOCK)[blocks.argmax()])
    assert weight_D[lost].max() < own[BLOCK // 2]  # below the middle one of those that stay


def test_a_stronger_seed_keeps_more_of_what_data_do_not_support(tensor):
    wrong = {"wrong": {"word": ["w00", "w01", "w20", "w21"]}}
    kept = []
    for strength in ("weak", "medium", "strong"):
        model = small(seeds=wrong, seed_strength=strength).fit(tensor)
        weight_D = weights(model, "wrong")
        kept.append(min(weight_D[[0, 1]].sum(), weight_D[[20, 21]].sum()))
    assert kept[0] < kept[1] < kept[2]


@pytest.mark.parametrize("kind", [tf.BPTF, tf.VAEBPTF])
@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_both_treatments_of_zeros_keep_names_in_the_model_and_in_files(
    kind, zeros, tensor, tmp_path
):
    gate = "auto" if kind is tf.VAEBPTF else "none"
    model = small(kind, zeros=zeros, gate=gate, seeds=RARE_SEEDS, background=True, max_iter=10)
    with _any_warnings():
        model.fit(tensor)
    names = model.component_names_
    assert {"rare", "background"} <= set(names)
    on = ~model.posterior_.switched_off()
    where = names.index("background")
    assert not on[where] or where == on.sum() - 1
    model.save(tmp_path / "model")
    again = tf.load(tmp_path / "model")
    assert again.component_names_ == names
    assert (again.seeds, again.background) == (RARE_SEEDS, True)
    np.testing.assert_array_equal(again.predict(tensor), model.predict(tensor))


def _any_warnings():
    import warnings

    return warnings.catch_warnings(action="ignore")


def test_a_background_takes_what_is_common():
    tensor = made(rates=(300, 300, 300, 300), common=1500)
    model = small(n_components=5, background=True).fit(tensor)
    assert model.component_names_[-1] == "background"
    overall = np.bincount(tensor.indices[:, 1], tensor.counts, 60)
    labels = model.components("word", top=60).query("name == 'background'")["label"]
    order = tensor.axis("word").positions(labels)
    assert np.corrcoef(overall[order], -np.arange(60))[0, 1] > 0.5
    # components have their own block then, and less of the rest than without a background
    plain = small(n_components=5).fit(tensor)
    assert _of_own_block(model) > _of_own_block(plain)


def _of_own_block(model):
    names = model.component_names_
    listed = [k for k in range(len(names)) if names[k] != "background"]
    listed = [k for k in listed if not model.posterior_.switched_off()[k]]
    weight_DK = model.posterior_.mean("word")[:, listed]
    blocks_4K = (weight_DK / weight_DK.sum(axis=0)).reshape(4, BLOCK, -1).sum(axis=1)
    return np.sort(blocks_4K.max(axis=0))[-4:].mean()


@pytest.mark.parametrize("seeds", [RARE_SEEDS, "auto"])
def test_a_fit_that_goes_on_has_the_same_bits(seeds, tensor, tmp_path):
    given = {"seeds": seeds, "background": True, "validation": None, "tol": 0.0}
    whole = small(tf.BPTF, max_iter=12, **given).fit(tensor)

    def stop(progress):
        if progress.iteration.number == 5:
            raise KeyboardInterrupt

    with _any_warnings():
        small(tf.BPTF, max_iter=12, **given).fit(
            tensor, checkpoint=tmp_path / "run", every=1, callbacks=[stop]
        )
        resumed = small(tf.BPTF, max_iter=12, **given).fit(
            tensor, checkpoint=tmp_path / "run", resume=True
        )
    assert resumed.component_names_ == whole.component_names_
    for axis in ("doc", "word", "year"):
        np.testing.assert_array_equal(resumed.posterior_.mean(axis), whole.posterior_.mean(axis))


def test_some_entities_at_a_time_and_members_are_guided(tensor):
    for given in ({"batch_entities": 20, "max_iter": 20}, {"n_members": 2, "max_iter": 15}):
        with _any_warnings():
            model = small(seeds=RARE_SEEDS, **given).fit(tensor)
        assert weights(model, "rare")[RARE].sum() > 0.5, given


def test_clone_and_parameters(tensor):
    model = small(seeds=RARE_SEEDS, seed_strength="strong")
    again = clone(model)
    assert again.get_params() == model.get_params()
    with _any_warnings():
        first, second = (each.set_params(max_iter=5).fit(tensor) for each in (model, again))
    np.testing.assert_array_equal(first.posterior_.mean("word"), second.posterior_.mean("word"))


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"seeds": {"a": {"word": ["w00", "w1"]}}}, LabelError, "`seeds` of 'a': axis 'word' has"),
        ({"seeds": {"a": {"word": ["w000"]}}}, LabelError, r"Did you mean 'w00\d?'"),
        ({"seeds": {"a": {"wrd": ["w00"]}}}, LabelError, "Did you mean 'word'"),
        ({"seeds": {"a": {"word": []}}}, ParameterError, "list of word labels is empty"),
        ({"seeds": {"a": {"word": "w00"}}}, ParameterError, "lists of labels by axis by name"),
        ({"seeds": {}}, ParameterError, "lists of labels by axis by name"),
        ({"seeds": {"a": {"word": [3]}}}, LabelError, "`seeds` of 'a'"),
        ({"seeds": {"7": {"word": ["w00"]}}}, ParameterError, "name of a component"),
        (
            {"seeds": {"a": {"word": ["w00"]}, "b": {"word": ["w00"]}}},
            ParameterError,
            "the word 'w00' in 'a' and in 'b'",
        ),
        (
            {"seeds": {f"s{n}": {"word": [f"w{n:02d}"]} for n in range(5)}},
            ParameterError,
            "at least 5 for 5 seeded components; got 4",
        ),
        (
            {
                "seeds": {f"s{n}": {"word": [f"w{n:02d}"]} for n in range(4)},
                "background": True,
            },
            ParameterError,
            "4 seeded components and a background",
        ),
        ({"seeds": {"background": {"word": ["w00"]}}, "background": True}, ParameterError, "other"),
        ({"seeds": "wrd"}, LabelError, "`seeds`: there is no axis 'wrd'.*Did you mean 'word'"),
        ({"seeds": ""}, ParameterError, "'auto', an axis"),
        ({"seed_strength": "strong"}, ParameterError, "no effect without `seeds`"),
        ({"seed_strength": 3}, ParameterError, "'weak' or 'medium' or 'strong'"),
        ({"background": 1}, ParameterError, "`background` must be True or False"),
    ],
)
def test_what_cannot_be_is_said(given, kind, said, tensor):
    for model in (small(**given), small(tf.BPTF, **given)):
        with pytest.raises(kind, match=said):
            model.fit(tensor)


def test_dates_may_be_written_as_text():
    import datetime

    days = [datetime.date(2020, 1, d) for d in range(1, 11)]
    plain = made()
    tensor = tf.CountTensor([*plain.axes[:2], tf.Axis("day", days)], plain.indices, plain.counts)
    fits = [
        small(tf.BPTF, seeds={"x": {"day": asked}}, max_iter=5, validation=None)
        for asked in (["2020-01-08", "2020-01-09"], days[7:9])
    ]
    with _any_warnings():
        first, second = (model.fit(tensor).posterior_.mean("day") for model in fits)
    np.testing.assert_array_equal(first, second)


def test_components_of_the_same_name_are_partners():
    one, other = np.eye(3)[:, :2], np.eye(3)[:, [1, 0]]
    even = np.full(2, 0.5)
    plain, turned = Profiles((one, one), even), Profiles((other, other), even)
    np.testing.assert_allclose(matched_overlaps(plain, turned), 1)
    named = [each._replace(names=("a", None)) for each in (plain, turned)]
    np.testing.assert_allclose(matched_overlaps(*named), 0)
    found = recurring(named, 0.5)
    assert found is not None
    assert found.names == ("a",)


def test_the_consensus_of_guided_fits_is_guided(tensor):
    model = small(tf.BPTF, seeds=RARE_SEEDS, n_components=5, background=True)
    with _any_warnings():
        found = tf.stability(tensor, model, runs=2)
        consensus = found.consensus(tensor)
    assert {"rare", "background"} <= set(consensus.component_names_)
    assert consensus.n_components == len(consensus.component_names_)


def found(seeds, **given):
    return small(random_state=given.pop("random_state", 0), seeds=seeds, max_iter=30, **given)


def test_found_seeds_bring_the_same_components_with_every_random_state(tensor):
    with _any_warnings():
        fits = [found("word", random_state=seed).fit(tensor) for seed in (1, 2)]
        plain = [small(random_state=seed, max_iter=30).fit(tensor) for seed in (1, 2)]
    alike = [
        matched_overlaps(*(Profiles.of(each.posterior_) for each in pair)).mean()
        for pair in (fits, plain)
    ]
    assert alike[0] > 0.9 > alike[1]
    scores = [each.fitted_.validation_score for each in (*fits, *plain)]
    assert (np.array(scores[:2]) > np.array(scores[2:]) - 0.15).all()  # a prior, not a lock


def test_the_axis_with_the_largest_baskets_is_taken_or_the_one_that_is_named(tensor):
    cells = TrainingCells(tensor)
    by_axis = [find_seeds(cells, axis, 4, 5) for axis in (None, 0, 1)]
    assert [each.axis for each in by_axis] == [0, 0, 1]  # of 10 years x 60 words, 80 documents
    for each in by_axis:
        size = tensor.shape[each.axis]
        assert each.share_DK.shape == (size, 5)
        assert (each.share_DK >= 0).all()
        found_D = each.share_DK.any(axis=1)  # a label may be of none
        assert found_D.mean() > 0.9
        np.testing.assert_allclose(each.share_DK[found_D].sum(axis=1), 1)
        assert all(np.isnan(start_DK[:, 4]).all() for start_DK in each.starts)
        assert all((start_DK[:, :4] > 0).all() for start_DK in each.starts)
    blocks_4K = by_axis[2].share_DK[:, :4].reshape(4, BLOCK, 4).mean(axis=1)
    assert (blocks_4K[:3].max(axis=1) > 0.75).all()  # each of the common blocks has a component
    assert len(set(blocks_4K[:3].argmax(axis=1))) == 3
    turned = by_axis[2].matched([start_DK[:, [2, 0, 4, 3, 1]] for start_DK in by_axis[2].starts])
    np.testing.assert_array_equal(turned.share_DK, by_axis[2].share_DK[:, [2, 0, 4, 3, 1]])


def test_an_axis_of_few_labels_does_not_divide_baskets():
    """Words of one topic are in titles or in bodies: never together, but of the same documents."""
    cells = [
        (doc, word, place)
        for doc in range(24)
        for place in range(2)
        for word in range(10)
        if word // 5 == doc % 2 and word % 2 == place
    ]
    names, sizes = ("doc", "word", "place"), (24, 10, 2)
    axes = [tf.Axis.numbered(name, size) for name, size in zip(names, sizes, strict=True)]
    tensor = tf.CountTensor(axes, np.array(cells), np.ones(len(cells), dtype=np.int32))
    share_DK = find_seeds(TrainingCells(tensor), 1, 2, 2).share_DK
    assert (share_DK.max(axis=1) > 0.99).all()
    topic_D = share_DK.argmax(axis=1)
    assert (topic_D[:5] == topic_D[0]).all()
    assert (topic_D[5:] == 1 - topic_D[0]).all()


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_found_seeds_are_kept_and_may_be_fewer_than_components(zeros, tmp_path):
    tensor = tf.simulate((12, 9, 3), 2, density=0.4, random_state=0).tensor
    given = {"zeros": zeros, "n_components": 12, "background": True, "validation": None}
    with _any_warnings():
        model = small(tf.BPTF, seeds="axis_2", max_iter=5, **given).fit(tensor)
    model.save(tmp_path / "model")
    assert tf.load(tmp_path / "model").seeds == "axis_2"
    assert np.isfinite(model.posterior_.mean("axis_0")).all()


def test_the_consensus_of_found_seeds_is_guided(tensor):
    model = small(tf.BPTF, seeds="word", n_components=5, background=True, max_iter=40)
    with _any_warnings():
        consensus = tf.stability(tensor, model, runs=2).consensus(tensor)
    assert consensus.seeds == "word"
    assert "background" in consensus.component_names_
