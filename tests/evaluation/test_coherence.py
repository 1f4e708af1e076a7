import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

import tallyfold as tf
from tallyfold.errors import DataError, LabelError, ParameterError, ShapeError
from tallyfold.evaluation.words.coherence import (
    coherence_by_chance,
    coherence_by_component,
    coherence_by_word,
    nearest_rows,
)
from tallyfold.evaluation.words.cooccurrence import Cooccurrence, _say_part

VOCABULARY = [f"w{n:02}" for n in range(25)]
TOPICS = [VOCABULARY[:5], VOCABULARY[5:9], VOCABULARY[3:20:4]]


def texts_of(seed=0, repeats=False, n=60):
    """Make texts of 0 to 25 words, in which a word is there twice only if asked."""
    rng = np.random.default_rng(seed)
    weight = rng.dirichlet(np.full(25, 0.7))
    lengths = rng.integers(0, 15, n)
    return [
        [VOCABULARY[word] for word in rng.choice(25, length, replace=repeats, p=weight)]
        for length in [*lengths, 25]
    ]


def windows_of(texts, window):
    for text in texts:
        for start in range(max(1, len(text) - window + 1)):
            yield set(text[start : start + window])


def npmi_of(documents, first, second):
    documents = list(documents)
    both = np.mean([first in d and second in d for d in documents])
    one, two = (np.mean([word in d for d in documents]) for word in (first, second))
    return -1.0 if both == 0 else np.log(both / one / two) / -np.log(both)


@pytest.mark.parametrize("window", [2, 5, 10, None])
@pytest.mark.parametrize("repeats", [False, True])
def test_pairs_by_brute_force(window, repeats):
    texts = [*texts_of(1, repeats), VOCABULARY]
    reference = Cooccurrence.from_documents(texts, window=window)
    documents = list(windows_of(texts, window or 10**6))
    assert reference.n_documents == len(documents)
    for first, second in combinations(VOCABULARY[:12], 2):
        expected = npmi_of(documents, first, second)
        assert reference.npmi([first, second]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("window", [3, 10])
def test_agrees_with_gensim(window):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("gensim")
        from gensim.corpora import Dictionary
        from gensim.models import CoherenceModel

        # without repeats: gensim forgets a word that leaves its window but is in it once more
        texts = texts_of(2)
        model = CoherenceModel(
            topics=TOPICS,
            texts=texts,
            dictionary=Dictionary(texts),
            coherence="c_npmi",
            window_size=window,
            processes=1,
        )
        expected = model.get_coherence_per_topic()
    reference = Cooccurrence.from_documents(texts, window=window)
    found = [reference.npmi(topic, epsilon=1e-12) for topic in TOPICS]
    assert found == pytest.approx(expected, abs=1e-6)
    assert min(found) < -0.05  # some pairs are never together, so that epsilon has its say
    assert [reference.npmi(topic) for topic in TOPICS] != pytest.approx(expected, abs=1e-3)


def test_known_answers():
    always = Cooccurrence.from_documents([["a", "b"], ["a", "b"], ["c"], ["d", "e"]])
    assert always.npmi(["a", "b"]) == 1.0
    assert always.npmi(["a", "c"]) == -1.0
    chance = Cooccurrence.from_documents([["a", "b"], ["a"], ["b"], []])
    assert chance.npmi(["a", "b"]) == pytest.approx(0.0)
    assert chance.n_documents == 4  # the empty one counts
    everywhere = Cooccurrence.from_documents([["a", "b"], ["a", "b"]])
    assert everywhere.npmi(["a", "b"]) == 0.0


def test_all_ways_in_give_the_same():
    texts = texts_of(3)
    reference = Cooccurrence.from_documents(texts)
    words = list(reference.words.labels.to_pylist())
    counts = np.array([[text.count(word) * 0.5 for word in words] for text in texts])
    matrix = Cooccurrence.from_documents(sparse.csr_matrix(counts), words)
    pairs = (counts > 0).T.astype(int) @ (counts > 0).astype(int)
    given = Cooccurrence.from_counts(pairs, pairs.diagonal(), len(texts), words)
    sparse_pairs = sparse.coo_array(pairs)
    also = Cooccurrence.from_counts(sparse_pairs, pairs.diagonal(), len(texts), words)
    chosen = Cooccurrence.from_documents(texts, VOCABULARY[:9])
    for topic in TOPICS[:2]:
        expected = reference.npmi(topic)
        for other in (matrix, given, also, chosen):
            assert other.npmi(topic) == pytest.approx(expected, rel=1e-12)


def test_an_array_of_counts_is_a_matrix_and_one_of_words_is_not():
    counts = np.array([[1, 1, 0], [2, 1, 1]])
    assert Cooccurrence.from_documents(counts, ["a", "b", "c"]).counts_V.tolist() == [2, 2, 1]
    assert Cooccurrence.from_documents(counts > 0, [0, 1, 2]).counts_V.tolist() == [2, 2, 1]
    words = np.array([["a", "b"], ["b", "c"]])
    assert Cooccurrence.from_documents(words).counts_V.tolist() == [1, 2, 1]
    with pytest.raises(ParameterError, match="a matrix of documents needs `labels`"):
        Cooccurrence.from_documents(counts)
    with pytest.raises(DataError, match="numbers of at least 0"):
        Cooccurrence.from_documents(np.array([[np.nan, 1.0]]), ["a", "b"])


@pytest.mark.parametrize("epsilon", [None, 1e-17, 1e-12, 0.009])
def test_words_of_every_document_are_together_by_chance(epsilon):
    reference = Cooccurrence.from_documents([["a", "b", "c"], ["a", "b"]])
    assert reference.npmi(["a", "b"], epsilon=epsilon) == 0
    often = Cooccurrence.from_documents([*[["a", "b"]] * 995, *[["c"]] * 5])
    assert np.isfinite(often.npmi(["a", "b"], epsilon=epsilon))


def test_words_that_are_not_asked_for_still_fill_windows():
    text = ["a", "x", "x", "b"]
    apart = Cooccurrence.from_documents([text], ["a", "b"], window=2)
    assert (apart.n_documents, apart.npmi(["a", "b"])) == (3, -1.0)


@pytest.mark.parametrize("document", [None, ["axis_0"], ["axis_2", "axis_0"], "axis_2"])
def test_documents_of_a_tensor(document):
    tensor = tf.simulate((12, 15, 4), 3, density=0.1, random_state=0).tensor
    reference = Cooccurrence.from_tensor(tensor, "axis_1", document)
    names = ["axis_0", "axis_2"] if document is None else np.atleast_1d(document).tolist()
    frame = tensor.to_frame()
    documents = [set(part["axis_1"]) for _, part in frame.groupby(names)]
    assert reference.n_documents == len(documents)
    words = sorted(set(frame["axis_1"]))[:6]
    expected = np.mean([npmi_of(documents, *pair) for pair in combinations(words, 2)])
    assert reference.npmi(words) == pytest.approx(expected)


def test_pairs_are_counted_block_by_block(monkeypatch):
    reference = Cooccurrence.from_documents(texts_of(4))
    first, second = np.random.default_rng(0).integers(25, size=(2, 300))
    whole = reference.pair_counts(first, second)
    monkeypatch.setattr("tallyfold.evaluation.words.cooccurrence.AT_ONCE", 60)
    assert reference.pair_counts(first, second).tolist() == whole.tolist()


def test_nearest_rows_by_brute_force(monkeypatch):
    factor = np.random.default_rng(0).gamma(1.0, size=(60, 4))
    rows = np.arange(3, 60, 2)
    expected = np.argsort(cdist(factor[rows], factor), axis=1)[:, :7]
    assert nearest_rows(factor, rows, 7).tolist() == expected.tolist()
    monkeypatch.setattr("tallyfold.evaluation.words.coherence.AT_ONCE", 130)
    assert nearest_rows(factor, rows, 7).tolist() == expected.tolist()


def test_rows_that_are_the_same_stand_nearest_to_themselves():
    assert nearest_rows(np.ones((5, 2)), np.arange(5), 3)[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.fixture(scope="module")
def planted():
    """Three groups of ten words, each with its own authors; and a model that was fitted to them."""
    rng = np.random.default_rng(0)
    rate = np.full((60, 30, 3), 0.02)
    for group in range(3):
        rate[20 * group : 20 * group + 20, 10 * group : 10 * group + 10] = 0.8
    axes = [
        tf.Axis("author", [f"a{n:02}" for n in range(60)]),
        tf.Axis("word", [f"v{n:02}" for n in range(30)]),
        tf.Axis("year", [2001, 2002, 2003]),
    ]
    tensor = tf.CountTensor.from_array(rng.poisson(rate), axes)
    return tensor, tf.BPTF(n_components=3, zeros="observed", max_iter=100).fit(tensor)


def test_by_word_is_the_mean_over_words_of_their_nearest(planted):
    tensor, model = planted
    reference = Cooccurrence.from_tensor(tensor, "word", ["author"])
    found = coherence_by_word(model, "word", reference, nearest=6)
    labels = np.array(tensor.axis("word").labels.to_pylist())
    factor = model.posterior_.mean("word")
    near = np.argsort(cdist(factor, factor), axis=1)[:, :6]
    expected = [reference.npmi(labels[row].tolist()) for row in near]
    assert found.scores["npmi"].tolist() == pytest.approx(expected)
    assert found.scores["words"].map(sorted).tolist() == [sorted(labels[row]) for row in near]
    assert found.mean == pytest.approx(np.mean(expected))
    assert found.left_out == {"rare": 0, "not in the reference": 0}


def test_a_model_that_found_the_groups_is_more_coherent(planted):
    tensor, model = planted
    found = coherence_by_word(model, "word", tensor)
    assert found.mean > 0.15
    assert coherence_by_component(model, "word", tensor, top=8).mean > 0.15
    rng = np.random.default_rng(0)
    mixed = rng.permutation(tensor.axis("word").labels.to_pylist()).tolist()
    documents = sparse.csr_array(Cooccurrence.from_tensor(tensor).documents_DV)
    other = Cooccurrence.from_documents(documents, mixed)
    assert coherence_by_word(model, "word", other).mean < 0.1
    assert coherence_by_component(model, "word", other, top=8).mean < 0.1


def test_by_chance_is_the_mean_over_words_and_others_at_random(planted):
    tensor, model = planted
    found = coherence_by_chance(tensor, nearest=6)
    reference = Cooccurrence.from_tensor(tensor)
    for row in found.scores.itertuples():
        assert row.words[0] == row.label
        assert len(set(row.words)) == 6
        assert row.npmi == pytest.approx(reference.npmi(row.words))
    assert found.mean == pytest.approx(found.scores["npmi"].mean())
    assert found.scores["label"].tolist() == tensor.axis("word").labels.to_pylist()
    drawn = {word for words in coherence_by_chance(tensor).scores["words"] for word in words[1:]}
    assert drawn == set(tensor.axis("word").labels.to_pylist())  # the first and the last too
    again = coherence_by_chance(reference, nearest=6)
    assert again.scores.equals(found.scores)
    assert coherence_by_chance(tensor, random_state=1).mean != coherence_by_chance(tensor).mean
    assert coherence_by_word(model, "word", tensor).mean > coherence_by_chance(tensor).mean + 0.1
    everything = coherence_by_chance(tensor, nearest=100)
    assert everything.scores["words"].map(len).tolist() == [30] * 30
    with pytest.raises(ParameterError, match="`random_state` must be"):
        coherence_by_chance(tensor, random_state=-1)
    with pytest.raises(LabelError, match="no axis 'term'"):
        coherence_by_chance(tensor, "term")


def test_a_network_is_scored_by_its_embeddings(planted):
    tensor, _ = planted
    model = tf.MLPTF(zeros="observed", embedding_size=4, max_iter=30, learning_rate=0.02)
    found = coherence_by_word(model.fit(tensor), "word", tensor, nearest=4)
    vectors, labels = model.vectors("word"), np.array(tensor.axis("word").labels.to_pylist())
    assert vectors.shape == (30, 4)
    near = np.argsort(cdist(vectors, vectors), axis=1)[:, :4]
    assert found.scores["words"].map(sorted).tolist() == [sorted(labels[row]) for row in near]
    assert found.mean > coherence_by_chance(tensor, nearest=4).mean + 0.1
    with pytest.raises(LabelError, match="no axis 'term'; there are author, word, year"):
        model.vectors("term")
    with pytest.raises(ParameterError, match="MLPTF has no factors"):
        coherence_by_component(model, "word", tensor)


def test_by_component_scores_the_strongest_words(planted):
    tensor, model = planted
    found = coherence_by_component(model, "word", tensor, top=5)
    strongest = model.components("word", 5, by="sure")
    reference = Cooccurrence.from_tensor(tensor)
    assert found.scores["component"].tolist() == strongest["component"].unique().tolist()
    for row in found.scores.itertuples():
        part = strongest[strongest["component"] == row.component]
        assert row.words == part["label"].tolist()
        assert row.npmi == pytest.approx(reference.npmi(row.words))
        assert row.share == part["share"].iloc[0]
    assert found.mean == pytest.approx(found.scores["npmi"].mean())
    wider = coherence_by_component(model, "word", tensor, top=5, epsilon=1e-12)
    expected = [reference.npmi(words, epsilon=1e-12) for words in wider.scores["words"]]
    assert wider.scores["npmi"].tolist() == pytest.approx(expected)


def test_components_switched_off_are_no_topics(planted):
    tensor, _ = planted
    model = tf.BPTF(n_components=8, zeros="observed", validation=None, max_iter=300).fit(tensor)
    off = model.posterior_.shares() < 0.05 / 8
    found = coherence_by_component(model, "word", tensor, top=8)
    assert found.left_out["components switched off"] == off.sum() == 5
    assert found.scores["component"].isin(np.flatnonzero(~off)).all()
    every = coherence_by_component(model, "word", tensor, top=8, least=0)
    assert every.left_out["components switched off"] == 0
    assert sorted(every.scores["component"]) == list(range(8))
    part = every.scores[every.scores["component"].isin(found.scores["component"])]
    assert found.mean == pytest.approx(part["npmi"].mean())
    assert found.mean > every.mean + 0.05
    assert len(coherence_by_component(model, "word", tensor, least=0.9).scores) == 3


def test_rare_and_unknown_words_are_left_out_and_counted(planted):
    _, model = planted
    # 400 documents with nothing: a word of one document is rarer than 0.3 %, one of two is not
    texts = [["v00", "v01", "v02"], ["v00", "v01"], ["v00"], *[[] for _ in range(400)]]
    reference = Cooccurrence.from_documents(texts)
    found = coherence_by_word(model, "word", reference, nearest=3, least=0.003)
    assert found.scores["label"].tolist() == ["v00", "v01"]
    assert found.left_out == {"rare": 1, "not in the reference": 27}
    assert found.scores["words"].map(set).tolist() == [{"v00", "v01", "v02"}] * 2
    parts = coherence_by_component(model, "word", reference, top=10)
    assert sum(parts.left_out.values()) == 2 + 27
    assert parts.scores["words"].map(len).tolist() == [3]
    with pytest.raises(DataError, match="no word of axis 'word' is in 50.000% of documents"):
        coherence_by_word(model, "word", reference, least=0.5)


def test_bad_inputs_are_explained(planted):
    tensor, model = planted
    reference = Cooccurrence.from_tensor(tensor)
    with pytest.raises(ParameterError, match="at least two words; got 1"):
        reference.npmi(["v00"])
    with pytest.raises(
        ParameterError, match="`epsilon` must be a number in .0, 0.01. or None; got 0"
    ):
        reference.npmi(["v00", "v01"], epsilon=0)
    with pytest.raises(LabelError, match="axis 'word' has no label 'model'"):
        reference.npmi(["v00", "model"])
    with pytest.raises(ParameterError, match="must be lists of words; got a text"):
        Cooccurrence.from_documents(["some words"])
    with pytest.raises(DataError, match="the documents have no word"):
        Cooccurrence.from_documents([[], []])
    with pytest.raises(ParameterError, match="`window` must be a positive integer or None; got 0"):
        Cooccurrence.from_documents([["a"]], window=0)
    with pytest.raises(ParameterError, match="a matrix of documents needs `labels`"):
        Cooccurrence.from_documents(sparse.eye_array(3))
    with pytest.raises(ShapeError, match="got 3 columns and 2 labels"):
        Cooccurrence.from_documents(sparse.eye_array(3), ["a", "b"])
    with pytest.raises(DataError, match="at least 0"):
        Cooccurrence.from_documents(-sparse.eye_array(2), ["a", "b"])
    with pytest.raises(ParameterError, match="`document` must name axes other than 'word'"):
        Cooccurrence.from_tensor(tensor, "word", ["word", "year"])
    with pytest.raises(LabelError, match="no axis 'term'"):
        Cooccurrence.from_tensor(tensor, "term")
    with pytest.raises(DataError, match="no document has the word 'b'"):
        Cooccurrence.from_documents(sparse.csr_array([[1, 0]]), ["a", "b"]).npmi(["a", "b"])
    with pytest.raises(ParameterError, match="`reference` must be a Cooccurrence.*; got str"):
        coherence_by_word(model, "word", "wikipedia")
    with pytest.raises(DataError, match="the reference has 0 of the 30 words of axis 'word'"):
        coherence_by_component(model, "word", Cooccurrence.from_documents([["a", "b"]]))
    with pytest.raises(ParameterError, match="`nearest` must be an integer of at least 2; got 1"):
        coherence_by_word(model, "word", tensor, nearest=1)


@pytest.mark.parametrize(
    ("pairs", "counts", "fault"),
    [
        ([[2, 1], [0, 2]], [2, 2], "must be symmetric"),
        ([[0, 3], [3, 0]], [2, 5], "at most those of their words"),
        ([[0, 1], [1, 0]], [2, 9], "at most `n_documents`"),
        ([[0, -1], [-1, 0]], [2, 2], "at least 0"),
    ],
)
def test_counts_that_cannot_be_are_refused(pairs, counts, fault):
    with pytest.raises(DataError, match=fault):
        Cooccurrence.from_counts(np.array(pairs), counts, 5, ["a", "b"])
    with pytest.raises(ShapeError, match="3 labels need 3 counts"):
        Cooccurrence.from_counts(np.array(pairs), counts, 5, ["a", "b", "c"])


def test_a_part_of_all_cells_as_reference_is_said_once(caplog):
    _say_part.cache_clear()
    whole = tf.simulate((20, 15, 5), 2, density=0.3, axes=["a", "word", "b"]).tensor
    part = tf.split(whole, 0.2, cells="all").train
    for reference in (whole, part, part):
        Cooccurrence.from_tensor(reference)
    assert [record.message[:52] for record in caplog.records] == [
        "the reference of words is a part of all cells: words"
    ]
