import pytest

from tallyfold.models.vae_presets import PAPER_PRESETS

DATA = ("dblp", "nips", "game", "review", "rating")


def test_there_is_a_row_for_each_data_set_whole_and_thinned():
    assert {*PAPER_PRESETS} == {*DATA} | {f"{name}-subsampled" for name in DATA}


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_rows_are_within_what_the_paper_searched(name):
    row = PAPER_PRESETS[name]
    assert row["output_activation"] == "softplus"
    assert row["hidden_activation"] == ("relu" if name.startswith("rating") else "softplus")
    assert 3 <= row["n_components"] <= 15
    assert row["hidden_layers"] in (0, 1, 2)
    assert row["weight_variance"] in (0.1, 1.0, 5.0)


def test_a_thinned_data_set_gets_a_smaller_network():
    for name in DATA:
        whole, thinned = PAPER_PRESETS[name], PAPER_PRESETS[f"{name}-subsampled"]
        assert thinned["n_components"] <= whole["n_components"]
        assert thinned["hidden_units"] <= whole["hidden_units"]
        assert thinned["weight_variance"] <= whole["weight_variance"]
