from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.pairing import paired, signed_rank, summary


def rows_of(values, metric="rmse", zeros="missing"):
    """Make tidy rows of {model: {dataset: [value of seed 0, of seed 1, ...]}}."""
    return [
        {
            "dataset": dataset,
            "zeros": zeros,
            "model": model,
            "seed": seed,
            "metric": metric,
            "value": value,
        }
        for model, datasets in values.items()
        for dataset, seeds in datasets.items()
        for seed, value in enumerate(seeds)
    ]


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    base = {f"d{n}": rng.normal(5, 2, 3) for n in range(6)}
    return rows_of(
        {
            "new": {name: value - rng.normal(0.3, 0.2, 3) for name, value in base.items()},
            "old": base,
        }
    )


def test_summary_over_seeds():
    table = summary(rows_of({"a": {"x": [1.0, 2.0, 6.0], "y": [4.0]}}))
    x, y = table.to_dict("records")
    assert (x["mean"], x["n"], x["missing"]) == (3.0, 3, 0)
    assert x["standard_error"] == pytest.approx(np.std([1, 2, 6], ddof=1) / np.sqrt(3))
    assert (y["mean"], y["n"]) == (4.0, 1)
    assert pd.isna(y["standard_error"])


def test_summary_counts_what_is_missing_and_keeps_splits_apart():
    rows = rows_of({"a": {"x": [1.0, None, 3.0]}})
    assert summary(rows).loc[0, ["mean", "n", "missing"]].tolist() == [2.0, 2, 1]
    rows = [row | {"split": way} for row in rows for way in ("80-20", "by user")]
    assert summary(rows)["split"].tolist() == ["80-20", "by user"]


def test_tests_agree_with_scipy(many):
    found = paired(many, "new", "old", "rmse")
    table = pd.DataFrame(many).pivot_table(index="dataset", columns="model", values="value")
    t = stats.ttest_rel(table["new"], table["old"], alternative="less")
    assert found.t.p == pytest.approx(t.pvalue)
    assert abs(found.t.statistic) == pytest.approx(abs(t.statistic))
    wilcoxon = stats.wilcoxon(table["new"], table["old"], alternative="less", method="exact")
    assert found.wilcoxon.p == pytest.approx(wilcoxon.pvalue)
    assert found.t.n == found.wilcoxon.n == 6
    assert found.wins == (table["new"] < table["old"]).sum()
    assert found.notes == ()
    differences = found.differences.set_index("dataset")["difference"]
    pd.testing.assert_series_equal(
        differences, table["new"] - table["old"], check_names=False, check_like=True
    )


def test_the_direction_is_that_of_the_metric(many):
    better = paired(many, "new", "old", "rmse")
    worse = paired(many, "old", "new", "rmse")
    assert better.t.p < 0.05 < worse.t.p
    assert better.t.p + worse.t.p == pytest.approx(1)
    other = [row | {"metric": "log-pmf"} for row in many]
    assert paired(other, "old", "new", "log-pmf").t.p == pytest.approx(better.t.p)
    own = [row | {"metric": "seconds"} for row in many]
    assert paired(own, "new", "old", "seconds", better="smaller").t.p == pytest.approx(better.t.p)


def test_coverage_is_better_nearer_to_its_level():
    values = {
        "near": {"x": [0.79], "y": [0.82], "z": [0.8]},
        "far": {"x": [0.9], "y": [0.65], "z": [0.99]},
    }
    found = paired(rows_of(values, "coverage-80"), "near", "far", "coverage-80")
    assert found.wins == 3
    assert found.differences["difference"].tolist() == pytest.approx([-0.09, -0.13, -0.19])


def test_only_common_seeds_count():
    values = {
        "a": {"x": [1.0, 2.0, 9.0], "y": [1.0]},
        "b": {"x": [2.0, 4.0], "y": [3.0], "w": [1.0]},
    }
    found = paired(rows_of(values), "a", "b", "rmse")
    x, y = found.differences.to_dict("records")
    assert (x["dataset"], x["n"], x["left_out"], x["difference"]) == ("x", 2, 1, -1.5)
    assert x["standard_error"] == pytest.approx(0.5)
    assert (y["dataset"], y["n"], y["left_out"]) == ("y", 1, 0)
    assert found.notes[-1] == (
        "2 values of a dataset and seed that only one has were left out."  # w is one of them
    )


def test_too_few_datasets_are_said_to_be():
    one = paired(rows_of({"a": {"x": [1.0]}, "b": {"x": [2.0]}}), "a", "b", "rmse")
    assert one.t is one.wilcoxon is None
    assert one.notes == ("one dataset: no test can be made.",)
    names, gains = "wxyz", (1.0, 2.0, 3.0, 4.5)
    values = {
        "a": {n: [1.0] for n in names},
        "b": dict(zip(names, ([1 + g] for g in gains), strict=True)),
    }
    four = paired(rows_of(values), "a", "b", "rmse")
    assert four.t.p < 0.05
    assert four.wilcoxon.p == 1 / 16
    assert four.notes == ("with 4 datasets that differ, Wilcoxon's p cannot be below 0.0625.",)


def test_differences_that_are_all_the_same():
    values = {"a": {"x": [1.0], "y": [2.0]}, "b": {"x": [1.0], "y": [2.0]}}
    equal = paired(rows_of(values), "a", "b", "rmse")
    assert equal.t is equal.wilcoxon is None
    assert equal.wins == 0
    assert "the same on all datasets" in equal.notes[0]


def test_treatments_of_zeros_are_chosen():
    missing = rows_of({"a": {"x": [1.0], "y": [1.5]}, "b": {"x": [2.0], "y": [3.0]}})
    rows = missing + rows_of({"b": {"x": [5.0], "y": [6.0]}}, zeros="observed")
    with pytest.raises(ParameterError, match="rows of 'b' have more than one zeros: missing, obs"):
        paired(rows, "a", "b", "rmse")
    same = paired(rows, "a", "b", "rmse", zeros="missing")
    assert same.differences["difference"].tolist() == [-1.0, -1.5]
    as_run = paired(rows, "a", "b", "rmse", zeros="missing", other_zeros="observed")
    assert as_run.differences["difference"].tolist() == [-4.0, -4.5]


@pytest.mark.parametrize("seed", range(5))
def test_signed_ranks_with_ties_by_brute_force(seed):
    sizes = np.random.default_rng(seed).integers(-3, 4, 9).astype(float)
    kept = sizes[sizes != 0]
    ranks = stats.rankdata(np.abs(kept))
    observed = ranks[kept > 0].sum()
    sums = [ranks @ signs for signs in product((0, 1), repeat=len(kept))]
    statistic, p = signed_rank(sizes)
    assert statistic == observed
    assert p == pytest.approx(np.mean(np.array(sums) >= observed))


@pytest.mark.parametrize("n", [5, 20, 60])
def test_signed_ranks_without_ties_agree_with_scipy(n):
    sizes = np.random.default_rng(n).normal(0.2, 1, n)
    expected = stats.wilcoxon(sizes, alternative="greater", method="exact")
    assert signed_rank(sizes) == pytest.approx((expected.statistic, expected.pvalue))


def test_bad_rows_are_explained(many):
    with pytest.raises(DataError, match="must have the columns .*; zeros, seed not found"):
        summary([{"dataset": 1, "model": 1, "metric": 1, "value": 1}])
    with pytest.raises(DataError, match="1 rows are there twice; the first is .*'seed': 0"):
        summary([*many, many[0]])
    with pytest.raises(DataError, match="values must be numbers or missing"):
        summary([many[0] | {"value": "good"}])
    with pytest.raises(DataError, match="finite or missing"):
        summary([many[0] | {"value": -np.inf}])
    with pytest.raises(DataError, match="no row of model 'newer', metric 'rmse'"):
        paired(many, "newer", "old", "rmse")
    with pytest.raises(ParameterError, match="`better` must be 'larger' or 'smaller' for 'luck'"):
        paired(many, "new", "old", "luck")
    apart = rows_of({"a": {"x": [1.0]}, "b": {"y": [1.0]}})
    with pytest.raises(DataError, match="'a' and 'b' have no dataset and seed in common"):
        paired(apart, "a", "b", "rmse")
