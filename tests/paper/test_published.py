"""The published figures are those that the paper printed."""

from pathlib import Path

import pytest

from tallyfold.paper.published import published, published_loglik, published_value

PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper" / "vae-bptf.tex"


def test_every_figure_names_its_place():
    table = published()
    assert (table["place"].str.match("Table|Figure|Section")).all()
    assert not table.duplicated(["experiment", "dataset", "model", "quantity"]).any()
    assert set(table.loc[table["experiment"] == "mae", "dataset"]) >= {"DBLP", "NIPS", "Game"}


def test_look_ups_go_by_what_a_tensor_stands_for():
    assert published_value("mae", "nips", "VAE-BPTF", "MAE") == 0.532
    assert published_value("mae", "acl", "MLP-TF", "MAE") == 0.728
    assert published_value("coherence", "hotel_review", "BPTF", "NPMI") == -0.241
    assert published_value("mae", "my own tensor", "BPTF", "MAE") is None
    assert published_value("loglik", "nips", "MLP-TF", "LL") is None


def test_log_likelihoods_are_per_test_cell():
    # worked out in the reading notes: totals over a fifth of the cells
    expected = {"acl": -1.056, "nips": -0.865, "grocery": -0.281, "hotel_review": -0.902}
    for name, value in (expected | {"movie_rating": 2.359}).items():
        assert published_loglik("loglik", name, "VAE-BPTF") == pytest.approx(value, abs=5e-4)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_the_figures_stand_in_the_paper():
    text = PAPER.read_text().replace("\\textbf", "").replace("{", "").replace("}", "")
    text = text.replace("$", "").replace("\\boldsymbol", "").replace(",", "")
    for row in published().itertuples():
        if not row.place.startswith("Table"):
            continue
        printed = f"{row.value:.3f}"
        if row.quantity == "LL":
            mantissa, exponent = f"{row.value:.2e}".split("e")
            printed = f"{mantissa}\\times10^{int(exponent)}"
        assert printed in text, f"{row.place}: {printed} is not printed"
