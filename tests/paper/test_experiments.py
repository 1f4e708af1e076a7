"""The paper's experiments on small tensors: whole tables, published figures beside ours."""

import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.errors import ConvergenceWarning, DataError, FormatError, ParameterError
from tallyfold.paper import experiments, held_out, line_up, qualitative, sizes, synthetic
from tallyfold.paper.page import write_reproduction
from tallyfold.paper.setting import (
    Setting,
    built_in_tensors,
    check_tensors,
    tensors_in,
)
from tallyfold.posterior.gamma_posterior import GammaPosterior


def words() -> tf.CountTensor:
    return tf.simulate(
        (25, 40, 5), 2, density=0.12, axes=("author", "word", "year"), random_state=1
    ).tensor


def ratings() -> tf.CountTensor:
    return tf.simulate((30, 25), 2, density=0.5, axes=("user", "movie"), random_state=2).tensor


def quick_models(dataset, *, subsampled=False, zeros="missing"):
    """Stand in for the models of a regime: the same names, few iterations."""
    few = {"n_components": 2, "max_iter": 3}
    return {
        line_up.PAPER_FORM: tf.VAEBPTF.paper(**few),
        "BPTF": tf.BPTF(zeros=zeros, **few),
        "NTF-LS": tf.NTFLS(zeros=zeros, **few),
    }


def quick_same(dataset, *, subsampled=False):
    few = {"n_components": 2, "max_iter": 3}
    return {
        line_up.FLAGSHIP: tf.VAEBPTF(
            zeros="missing", amount="negative-binomial", interactions=(), **few
        ),
        **quick_models(dataset),
        "main effects": tf.MainEffects(max_iter=3),
        "constant": tf.Constant(likelihood="poisson"),
    }


@pytest.fixture
def setting(tmp_path, monkeypatch):
    def observed(dataset, *, subsampled=False):
        return quick_models(dataset, zeros="observed")

    quick = {"as the paper ran it": observed, "zeros missing": quick_same}
    for name, models in quick.items():
        folder = line_up.REGIMES[name].folder
        monkeypatch.setitem(line_up.REGIMES, name, line_up.Regime(folder, models))
    tensors = {"nips": words, "movie_rating": ratings}
    return Setting(tensors, tmp_path / "fits", seeds=(0, 1), quick=True)


def test_the_line_up_has_the_papers_treatment_of_zeros():
    paper = line_up.as_the_paper_ran_them("nips")
    same = line_up.under_the_same_zeros("nips")
    assert list(paper) == [line_up.PAPER_FORM, *line_up.BASELINES]
    assert [m.get_params()["zeros"] for m in paper.values()] == ["missing"] + ["observed"] * 5
    assert {m.get_params()["zeros"] for m in same.values()} == {"missing"}
    assert set(same) >= {*paper, line_up.FLAGSHIP, *line_up.CONSTANTS}


def test_the_papers_form_has_the_papers_hyper_parameters():
    assert line_up.paper_form("hotel_review").theta == 10.0
    assert line_up.paper_form("nips", subsampled=True).n_components == 5
    assert line_up.paper_form("my own tensor").theta == tf.VAEBPTF.paper().theta


def test_mae_loglik_and_coherence_are_views_of_the_same_fits(setting, tmp_path):
    said = []
    mae = experiments.EXPERIMENTS["mae"].run(setting)
    again = Setting(setting.tensors, setting.folder, (0, 1), True, announce=said.append)
    loglik = experiments.EXPERIMENTS["loglik"].run(again)
    experiments.EXPERIMENTS["coherence"].run(again)
    assert said == []  # nothing was fitted again
    table = mae.tables["Mean absolute error"].set_index(["dataset", "model"])
    assert table["published"]["nips", line_up.PAPER_FORM] == 0.532
    assert table["published"]["movie_rating", "BPTF"] == 1.447
    assert pd.isna(table["published"]["nips", "constant"])
    assert pd.isna(table["published"]["nips", line_up.FLAGSHIP])  # not the paper's model
    assert table["as the paper ran it"]["nips", "BPTF"] > table["zeros missing"]["nips", "BPTF"]
    assert table["zeros missing, se"].notna().all()
    likelihood = loglik.tables["Log-likelihood per held-out cell"].set_index(["dataset", "model"])
    assert likelihood["published"]["nips", line_up.PAPER_FORM] == pytest.approx(-0.865, abs=5e-4)
    tests = mae.tables["VAE-BPTF against each model, over data sets"]
    assert set(tests["regime"]) == {"as the paper ran it", "zeros missing"}
    assert tests["data sets"].max() == 2
    assert tests["p, published"].isna().all()  # the paper printed that against MLP-TF alone


def test_parameters_are_searched_on_the_training_part_alone(setting, tmp_path, monkeypatch):
    from dataclasses import replace

    seen = []

    def spy(model, tensor, space, *rest, **options):
        seen.append((options["study"], tensor.nnz, sorted(space)))
        return search(model, tensor, {"prior_shape": [0.5, 2.0]}, 2, 2, **options)

    search = tf.tune
    monkeypatch.setattr(tf, "tune", spy)
    monkeypatch.setattr(
        line_up, "CONSTANTS", (*line_up.CONSTANTS, "NTF-LS", line_up.FLAGSHIP, line_up.PAPER_FORM)
    )
    only = replace(setting, tensors={"nips": words}, seeds=(0,), trials=2)
    result = held_out.mae(only)
    train = tf.split(words(), 0.2, random_state=0).train
    assert [study for study, *_ in seen] == ["as-the-paper, nips, BPTF", "same-zeros, nips, BPTF"]
    assert all(cells == train.nnz for _, cells, _ in seen)
    assert all(space == ["n_components", "prior_shape"] for *_, space in seen)
    assert "best of 2 trials" in result.notes[0]
    assert (setting.folder / "searches.db").exists()


@pytest.mark.parametrize("name", ["mae", "loglik", "ablation", "subsample", "coherence"])
def test_pages_tables_and_figures_are_written(setting, tmp_path, name, monkeypatch):
    few = {"n_components": 2, "max_iter": 3}
    monkeypatch.setattr(line_up, "paper_form", lambda d, **c: tf.VAEBPTF.paper(**(few | c)))
    monkeypatch.setattr(sizes, "KEPT_SHARES", (0.4, 0.8))
    result = experiments.EXPERIMENTS[name].run(setting)
    files = write_reproduction(name, result, tmp_path / "out", f"tallyfold reproduce {name}")
    page = files[0].read_text()
    assert f"`tallyfold reproduce {name}`" in page
    assert "published" in page
    assert all(note in page for note in result.notes)
    assert {file.suffix for file in files} == {".md", ".csv", ".png"}
    assert all(file.stat().st_size > 0 for file in files)
    for file, frame in zip(files[1:], result.tables.values(), strict=False):
        pd.testing.assert_frame_equal(
            pd.read_csv(file)[list(frame.columns)[:2]], frame.iloc[:, :2], check_dtype=False
        )


def test_coherence_needs_words(setting):
    only = Setting({"movie_rating": ratings}, setting.folder, (0,), True)
    with pytest.raises(DataError, match="'word'"):
        experiments.EXPERIMENTS["coherence"].run(only)


def test_coherence_leaves_out_what_has_no_words(setting):
    result = experiments.EXPERIMENTS["coherence"].run(setting)
    assert set(result.tables["NPMI"]["dataset"]) == {"nips"}
    assert any("movie_rating" in note for note in result.notes)


def test_coherence_stands_beside_words_drawn_at_random_and_has_a_network_too(setting, monkeypatch):
    network = {"MLP-TF": tf.MLPTF(max_iter=1, hidden_units=4), "constant": tf.Constant()}
    regime = line_up.Regime("same-zeros", lambda dataset: network)
    monkeypatch.setitem(line_up.REGIMES, "zeros missing", regime)
    table = experiments.EXPERIMENTS["coherence"].run(setting).tables["NPMI"].set_index("model")
    assert table["zeros missing"][["MLP-TF", "constant"]].between(-1, 1).all()
    assert table["published"]["MLP-TF"] == -0.206
    assert "error" not in table  # that it has no components is none
    assert "zeros missing, by component" not in table
    assert table["as the paper ran it, by component"]["BPTF"] > -1


def test_subsampling_has_every_share_that_is_large_enough(setting, monkeypatch):
    monkeypatch.setattr(sizes, "KEPT_SHARES", (0.01, 0.9, 1.0))
    result = experiments.EXPERIMENTS["subsample"].run(setting)
    for table in result.tables.values():  # in the order of numbers, not of words
        assert [*dict.fromkeys(table["share"])] == ["90%", "100%"]


def test_subsampling_says_so_if_there_is_too_little(setting):
    few = Setting({"ratings": ratings, "nips": words}, setting.folder, (0,))
    with pytest.raises(DataError, match=r"30% .* at least 200 cells; there is only ratings \(\d"):
        experiments.EXPERIMENTS["subsample"].run(few)


def test_squared_errors_have_no_likelihood(setting, monkeypatch):
    monkeypatch.setattr(sizes, "KEPT_SHARES", (0.9,))
    paper, _ = experiments.EXPERIMENTS["subsample"].run(setting).tables.values()
    likelihood = paper.set_index("model")["y ln(rate) - rate"]
    assert likelihood["NTF-LS"].isna().all()
    assert likelihood["BPTF"].notna().all()


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_rank_marks_the_lowest(seeds, monkeypatch, tmp_path):
    monkeypatch.setattr(synthetic, "QUICK_RANKS", (1, 10))
    monkeypatch.setattr(
        synthetic,
        "forms",
        lambda rank: {"BPTF": tf.BPTF(n_components=rank, max_iter=5)},
    )
    monkeypatch.setattr(
        synthetic,
        "simulated_form",
        lambda rank, truncated: tf.VAEBPTF.paper(
            n_components=rank, truncated=truncated, max_iter=2
        ),
    )
    result = synthetic.synthetic_rank(Setting({}, tmp_path / "f", seeds, True))
    table, with_ten = result.tables.values()
    assert len(table) == 2 * 2  # two readings of the recipe, two ranks
    more = table["held-out cells, more than with 10"]
    assert table["held-out cells, more than with 10, se"].notna().all() == (len(seeds) > 1)
    for _, part in table.assign(more=more).groupby("dataset"):
        assert part["more"].tolist()[1] == 0  # that with 10
        assert part["more"].tolist()[0] == pytest.approx(-part["held-out cells"].diff().iloc[1])
    for _, part in table.groupby("dataset"):
        lowest = part.loc[part["held-out cells"].idxmin()]
        assert lowest["lowest"] == "<"
        assert (part["lowest"] == "<").sum() == 1
    kept = pd.read_parquet(tmp_path / "f" / "synthetic-rank")  # the models of one score
    ten = kept[(kept["model"] == "BPTF | 10") & (kept["split"] == "held-out cells")]
    ten = ten[ten["metric"] == "log-pmf-positive"].groupby("dataset")["value"].mean()
    assert with_ten["model"].tolist() == [*("BPTF", synthetic.GIVEN_ONE, *line_up.CONSTANTS)] * 2
    bptf = with_ten[with_ten["model"] == "BPTF"].set_index("dataset")["log pmf given y >= 1"]
    assert bptf.to_dict() == pytest.approx(ten.to_dict())
    assert write_reproduction("synthetic-rank", result, tmp_path / "out", "x")


def test_recovery_finds_the_truth_itself(tmp_path, monkeypatch):
    """A model that knows the truth has correlation 1, whatever the order of its components."""
    truth = tf.simulate.paper((20, 20, 20), 3, density=None, random_state=0)
    model = tf.BPTF(n_components=3, max_iter=1).fit(truth.tensor)
    order = [2, 0, 1]
    shapes = [shape[:, order] for shape in truth.shapes]
    rates = [shape / factor[:, order] for shape, factor in zip(shapes, truth.factors, strict=True)]
    import numpy as np

    for parts in (shapes, rates):
        parts[:] = [np.vstack([part, part[:1]]) for part in parts]
    factors = model.fitted_.factors
    factors.gammas = GammaPosterior.of(shapes, rates)
    found = synthetic.matched_components(model, truth)
    assert np.array_equal(np.array(order)[found], [0, 1, 2])
    said = synthetic.Predictions(model, truth.tensor, truth.tensor)
    for kind in ("Pearson", "Spearman"):
        assert synthetic.correlation(said, truth, "factors", kind) == pytest.approx(1)
        value = synthetic.correlation(said, truth, "shapes", kind)
        assert value == pytest.approx(1)


def test_what_is_the_same_for_all_entities_goes_with_nothing(recwarn):
    truth = tf.simulate.paper((20, 20, 20), 3, density=None, random_state=0)
    model = tf.BPTF(n_components=3, zeros="observed", max_iter=3).fit(truth.tensor)
    said = synthetic.Predictions(model, truth.tensor, truth.tensor)
    for kind in ("Pearson", "Spearman"):
        assert synthetic.correlation(said, truth, "rates", kind) is None
        shapes = synthetic.correlation(said, truth, "shapes", kind)
        assert -1 <= shapes <= 1
    assert {each.category for each in recwarn.list} <= {ConvergenceWarning}  # three sweeps are few


def test_recovery_table(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "QUICK_SHARES", (0.5, 1.0))
    monkeypatch.setattr(
        synthetic,
        "forms",
        lambda rank: {"BPTF": tf.BPTF(n_components=rank, max_iter=5)},
    )
    setting = Setting({}, tmp_path / "f", (0,), True)
    result = synthetic.synthetic_recovery(setting)
    (table,) = result.tables.values()
    assert len(table) == 2 * 6
    assert table["mean"].between(-1, 1).all()
    assert write_reproduction("synthetic-recovery", result, tmp_path / "out", "x")


def test_complexity_counts_against_bptf(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "SHARES", (0.5, 1.0))
    monkeypatch.setattr(sizes, "COMPONENTS", (2, 10))
    monkeypatch.setattr(sizes, "UNITS", (20,))
    monkeypatch.setattr(sizes, "_light", lambda setting: pd.DataFrame({"model": ["none"]}))
    setting = Setting({"ratings": ratings}, tmp_path / "f", (0,), True)
    result = sizes.complexity(setting)
    table = result.tables["Seconds of an iteration"]
    assert len(table) == 3 * 4
    assert (table.loc[table["model"] == "BPTF", "times BPTF"] == 1).all()
    assert (table["seconds"] > 0).all()
    assert write_reproduction("complexity", result, tmp_path / "out", "x")


def test_qualitative_shows_two_that_differ(tmp_path, monkeypatch):
    setting = Setting({"texts": words}, tmp_path / "f", (0,), True)
    result = qualitative.qualitative(setting)
    assert [*dict.fromkeys(title.split(": ")[0] for title in result.tables)] == [
        "texts, zeros observed",
        "texts, zeros missing",
    ]
    profiles, tops, points, *others = result.tables.values()
    assert others[0]["author"].unique().tolist() == profiles["author"].unique().tolist()
    assert profiles["author"].nunique() == 2
    assert tops.groupby("author").size().tolist() == [10, 10]
    assert {"label", "x", "y", "component"} <= set(points.columns)
    page, *files = write_reproduction("qualitative", result, tmp_path / "out", "x")
    text, rest = page.read_text(), len(points) - 10
    assert rest > 0
    file = "qualitative-texts-zeros-observed-map-of-the-busiest-words.csv"
    assert f"{rest} more rows are in {file}." in text  # a map is a figure, not a table
    assert file in [one.name for one in files]
    assert points["label"].iloc[-1] in (tmp_path / "out" / file).read_text()


def test_folders_of_tensors(tmp_path):
    tf.write_counts(ratings(), tmp_path / "mine.parquet")
    found = tensors_in(tmp_path)
    assert found["mine"]().to_frame().equals(ratings().to_frame())
    (tmp_path / "bad").mkdir()
    with pytest.raises(DataError, match="no .parquet"):
        tensors_in(tmp_path / "bad")
    pd.DataFrame({"a": ["x"]}).to_parquet(tmp_path / "bad" / "odd.parquet")
    with pytest.raises(DataError, match="'count'"):  # at once, not when its turn comes
        tensors_in(tmp_path / "bad")
    pd.DataFrame({"a": ["x"], "count": [1]}).to_parquet(tmp_path / "bad" / "odd.parquet")
    with pytest.raises(DataError, match="odd.parquet' must have at least two axes .* it has a"):
        tensors_in(tmp_path / "bad")
    frame = ratings().to_frame()
    frame[frame["count"] > 1].to_parquet(tmp_path / "bad" / "odd.parquet")  # with its row numbers
    with pytest.raises(DataError, match="'__index_level_0__'.*index=False"):
        tensors_in(tmp_path / "bad")
    (tmp_path / "bad" / "odd.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(FormatError, match="odd.parquet"):
        tensors_in(tmp_path / "bad")
    with pytest.raises(ParameterError, match="folder"):
        tensors_in(tmp_path / "nowhere")


def test_tensors_that_cannot_be_fitted_are_found_first():
    row = pd.DataFrame({"a": ["x"], "b": ["y"], "count": [3]})
    single = tf.CountTensor.from_frame(row, axes=["a", "b"], value="count")
    with pytest.raises(DataError, match="'odd' must have at least two cells .*; it has 1"):
        check_tensors({"good": ratings, "odd": lambda: single})
    check_tensors({"good": ratings})


def test_tensors_that_need_no_data():
    assert set(built_in_tensors()) == {"demo", "simulated"}
    quick = Setting(built_in_tensors(), tmp := __import__("pathlib").Path("unused"), (0,), True)
    assert quick.tensor("simulated").nnz == 20_000
    assert not tmp.exists()
