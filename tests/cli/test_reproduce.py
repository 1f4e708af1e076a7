import pytest

import tallyfold as tf


def test_the_list_names_every_experiment(run):
    from tallyfold.paper.experiments import EXPERIMENTS

    listed = run("reproduce", "--list")
    assert listed.code == 0
    assert all(name in listed.out for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["mea"], "one of synthetic-rank"),
        (["mae", "--data", "nowhere"], "folder"),
        (["mae", "--tensors", "nips"], "--tensors"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed = run("reproduce", *arguments)
    assert failed.code == 2
    assert text in failed.err
    assert not list(tmp_path.iterdir())


def test_a_run_of_ones_own_data_goes_on_where_it_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tallyfold.paper.line_up.paper_form",
        lambda dataset, **more: tf.VAEBPTF.paper(
            n_components=2, hidden_units=4, max_iter=3, **more
        ),
    )
    folder = tmp_path / "tensors"
    folder.mkdir()
    tensor = tf.simulate((15, 12, 4), 2, density=0.3, axes=("a", "b", "c")).tensor
    tf.write_counts(tensor, folder / "mine.parquet")
    arguments = ["reproduce", "ablation", "--quick", "--data", folder, "--out", tmp_path / "out"]
    first = run(*arguments)
    assert first.code == 0, first.err
    assert "without reweighting" in first.out
    assert "[1/4]" in first.out
    again = run(*arguments)
    assert again.code == 0
    assert "[1/4]" not in again.out  # the fits are there already
    page = (tmp_path / "out" / "ablation.md").read_text()
    assert "`tallyfold reproduce ablation --quick --data FOLDER`" in page
    assert str(tmp_path) not in page
