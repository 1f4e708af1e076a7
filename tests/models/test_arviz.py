"""Posteriors as ArviZ reads them: the real ArviZ, of both generations."""

import importlib
import warnings

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.models import count_groups
from tallyfold.posterior.point_factors import _say_one_draw
from tallyfold.posterior.sampled_factors import matching_components

TENSOR = tf.simulate(
    (12, 10, 6), 2, density=0.5, random_state=0, axes=["who", "what", "day"]
).tensor
CHAIN = {"n_components": 2, "burn_in": 30, "thin": 2, "backend": "numpy", "validation": None}
GROUPS = {"posterior", "observed_data", "log_likelihood", "posterior_predictive"}


def imported(name):
    """Import a package that warns of its own future, or skip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            return pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def one():
    return tf.GibbsBPTF(**CHAIN, n_draws=50).fit(TENSOR)


@pytest.fixture(scope="module")
def three():
    return tf.GibbsBPTF(**CHAIN, n_draws=40, n_chains=3).fit(TENSOR)


def test_a_chain_is_given_in_order_and_never_more_than_once(one):
    tree = one.posterior_.to_datatree()
    found = tree["posterior"]["what_factor"].values
    assert np.array_equal(found[0], one.posterior_.samples[1][:, :-1])
    assert found.shape[:2] == (1, 50)
    assert len(np.unique(found[0].reshape(50, -1), axis=0)) == 50
    some = one.posterior_.to_datatree(n_draws=7)["posterior"]["what_factor"].values
    places = [int(np.flatnonzero((found[0] == draw).all(axis=(1, 2)))[0]) for draw in some[0]]
    assert places == sorted(set(places))
    for wrong in (51, 1000, 0, -1, 2.0, True):
        with pytest.raises(ParameterError, match="`n_draws` must be from 1 to 50, which a chain"):
            one.to_datatree(n_draws=wrong)


def test_the_card_says_whether_chains_agree(three):
    arviz = imported("arviz")
    factors = three.posterior_
    total_SK = np.prod([s[:, :-1].sum(axis=1) for s in factors.samples], axis=0)
    share_CSK = (total_SK / total_SK.sum(axis=1, keepdims=True)).reshape(3, 40, -1)
    wanted_K = [float(arviz.rhat(share_CSK[..., k], method="split")) for k in range(2)]
    np.testing.assert_allclose(factors.r_hat(), wanted_K, rtol=1e-9)
    told = f"3 of 40 draws; R-hat of the components' shares {min(wanted_K):.2f} to"
    assert three.card().facts["chains"].startswith(told)
    assert f"chains: {told}" in str(three.card())
    assert "ended because: all its iterations were made" in str(three.card())
    few = tf.GibbsBPTF(**CHAIN, n_draws=3).fit(TENSOR)
    assert few.card().facts["chains"] == "1 of 3 draws"
    apart = replace_samples(factors, lambda s: s * np.repeat([1, 1, 9], 40)[:, None, None])
    assert apart.r_hat().max() > 2 > max(wanted_K)


def replace_samples(factors, change):
    """Return factors whose second component is changed, by draw."""
    changed = [s.copy() for s in factors.samples]
    for sample in changed:
        sample[..., 1:] = change(sample[..., 1:])
    return type(factors)(factors.names, factors.labels, changed, factors.n_chains)


def test_dimensions_are_those_of_to_xarray(three):
    tree, table = three.to_datatree(TENSOR), three.posterior_.to_xarray()
    assert set(tree.children) == GROUPS
    for name in ("who", "what", "day"):
        draws = tree["posterior"][f"{name}_factor"]
        assert draws.dims == ("chain", "draw", *table[f"{name}_mean"].dims)
        assert draws[name].values.tolist() == table[name].values.tolist()
        mean = draws.mean(["chain", "draw"]).values
        np.testing.assert_allclose(mean, table[f"{name}_mean"].values, rtol=1e-12)


def test_groups_of_counts_are_those_of_the_draws(three):
    tree = three.to_datatree(TENSOR, n_draws=5, random_state=1)
    assert tree["observed_data"]["count"].values.tolist() == TENSOR.counts.tolist()
    cell = tree["observed_data"].isel(cell=3)
    label = [axis.label(i) for axis, i in zip(TENSOR.axes, TENSOR.indices[3], strict=True)]
    assert [cell[name].item() for name in TENSOR.names] == label
    factors = [tree["posterior"][f"{n}_factor"].values[2, 4] for n in TENSOR.names]
    rates = np.prod([f[TENSOR.indices[:, m]] for m, f in enumerate(factors)], axis=0).sum(axis=1)
    wanted = three.fitted_.likelihood.log_pmf(TENSOR.counts, rates)
    np.testing.assert_allclose(tree["log_likelihood"]["count"].values[2, 4], wanted, rtol=1e-9)
    drawn = tree["posterior_predictive"]["count"].values
    assert drawn.shape == (3, 5, TENSOR.nnz)
    assert drawn.min() >= 1  # of counts that are there
    assert np.array_equal(drawn, three.to_datatree(TENSOR, 5, 1)["posterior_predictive"]["count"])
    assert np.corrcoef(drawn.mean(axis=(0, 1)), three.predict(TENSOR))[0, 1] > 0.9


def test_a_point_estimate_has_one_draw_and_says_so(caplog):
    _say_one_draw.cache_clear()
    model = tf.PTFKL(n_components=2, max_iter=3).fit(TENSOR)
    tree = model.to_datatree(TENSOR)
    assert tree["posterior"].sizes["draw"] == tree["posterior"].sizes["chain"] == 1
    assert tree["log_likelihood"]["count"].shape == (1, 1, TENSOR.nnz)
    assert [record.message for record in caplog.records] == [
        "a point estimate has no posterior: its factors are given as one draw."
    ]
    with pytest.raises(ParameterError, match="point estimate, which has no posterior.*got 100"):
        model.to_datatree(n_draws=100)


def test_chains_are_of_the_same_cells_and_have_seeds_of_their_own(three):
    first = tf.GibbsBPTF(**CHAIN, n_draws=40).fit(TENSOR)
    assert three.posterior_.n_chains == 3
    assert three.posterior_.n_draws == 120
    assert np.array_equal(three.posterior_.samples[0][:40], first.posterior_.samples[0])
    assert not np.array_equal(three.posterior_.samples[0][40:80], first.posterior_.samples[0])


def test_components_of_chains_are_in_one_order():
    rng = np.random.default_rng(0)
    first = [rng.gamma(0.3, size=(5, size, 4)) for size in (30, 20)]
    order = [2, 0, 3, 1]
    found = matching_components(first, [each[..., order] for each in first])
    assert np.array_equal(np.array(order)[found], np.arange(4))


def test_chains_are_saved_resumed_and_interrupted(three, tmp_path):
    three.save(tmp_path / "m")
    again = tf.load(tmp_path / "m")
    assert again.posterior_.n_chains == 3
    assert np.array_equal(again.predict(TENSOR), three.predict(TENSOR))
    given = {**CHAIN, "n_draws": 5, "thin": 1, "burn_in": 2, "n_chains": 3}
    whole = tf.GibbsBPTF(**given).fit(TENSOR)
    steps = []

    def stop(progress):
        steps.append(progress)
        if len(steps) == 27 + 24:
            raise KeyboardInterrupt

    with pytest.warns(tf.errors.InterruptedWarning, match="It has 1 of 3 chains"):
        part = tf.GibbsBPTF(**given).fit(TENSOR, checkpoint=tmp_path / "c", callbacks=[stop])
    assert part.posterior_.n_chains == 1
    resumed = tf.GibbsBPTF(**given).fit(TENSOR, checkpoint=tmp_path / "c", resume=True)
    for left, right in zip(whole.posterior_.samples, resumed.posterior_.samples, strict=True):
        assert left.tobytes() == right.tobytes()


def test_the_other_sampler_has_chains_too():
    model = tf.OnlineGibbsBPTF(n_components=2, burn_in=5, n_draws=4, thin=1, n_chains=2)
    tree = model.fit(TENSOR).to_datatree(TENSOR)
    assert (tree["posterior"].sizes["chain"], tree["posterior"].sizes["draw"]) == (2, 4)


def test_posteriors_that_are_no_chain_are_drawn_anew():
    model = tf.BPTF(n_components=2, max_iter=5).fit(TENSOR)
    tree = model.to_datatree(TENSOR)
    assert tree["posterior"].sizes["draw"] == 1000
    assert set(tree.children) == GROUPS
    assert tf.VAEBPTF(n_components=2, max_iter=5).fit(TENSOR).to_datatree(n_draws=3)
    ones_and_nines = TENSOR.to_frame().assign(count=lambda f: 1 + 8 * (f.index % 2))
    two = tf.CountTensor.from_frame(ones_and_nines, TENSOR.names, "count")  # no factors say this
    with pytest.raises(ParameterError, match="whose counts follow the rates of its factors"):
        tf.BPTF(n_components=2, max_iter=5, amount="head").fit(two).to_datatree(two)


def test_more_numbers_than_memory_holds(one, monkeypatch):
    monkeypatch.setattr(count_groups, "MOST_NUMBERS", 20 * TENSOR.nnz)
    with pytest.raises(
        ParameterError, match=r"fewer n_draws=, or cells: tf.subsample\(tensor, 0.1"
    ):
        one.to_datatree(TENSOR)
    assert one.to_datatree(TENSOR, n_draws=20)
    assert one.to_datatree(tf.subsample(TENSOR, 0.1))


FEW = pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # of 120 draws


@FEW
def test_arviz_0_reads_the_groups(one, three):
    az = imported("arviz")
    if int(az.__version__.partition(".")[0]) > 0:
        pytest.skip("this ArviZ takes the tree itself")
    tree = three.to_datatree(TENSOR)
    data = az.InferenceData(**{name: tree[name].to_dataset() for name in GROUPS})
    table = az.summary(data, var_names=["what_factor"])
    assert len(table) == 10 * 2
    assert table["ess_bulk"].max() < 3 * three.posterior_.n_draws
    total = tree["log_likelihood"]["count"].sum("cell").values
    assert az.rhat(total) < 1.2
    assert np.isfinite(az.loo(data).elpd_loo)
    single = one.to_datatree()["posterior"]["what_factor"].values
    sizes = [az.ess(single[:, :, d, k]) for d in range(10) for k in range(2)]
    assert np.median(sizes) < 100  # 50 draws are no thousand


@FEW
def test_arviz_1_reads_the_tree(three):
    stats = imported("arviz_stats")
    tree = three.to_datatree(TENSOR)
    table = stats.summary(tree, var_names=["what_factor"])
    assert len(table) == 10 * 2
    assert float(stats.rhat(tree, group="log_likelihood")["count"].median()) < 1.2
    assert np.isfinite(stats.loo(tree).elpd)
