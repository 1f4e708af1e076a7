"""Components that are asked for in a file of parameters."""

import pytest

import tallyfold as tf
from tallyfold.cli import main

SEEDS = """
[model]
name = "bptf"
n_components = 4
zeros = "observed"
max_iter = 5
background = true
seed_strength = "strong"

[model.seeds.first]
axis_1 = ["axis_1-00", "axis_1-01"]
"""


@pytest.fixture
def counts(tmp_path):
    tensor = tf.simulate((30, 20, 8), 3, density=0.25, random_state=4).tensor
    tf.write_counts(tensor, tmp_path / "counts.npz")
    return str(tmp_path / "counts.npz")


def ended(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([*arguments])
    return stopped.value.code


def test_seeds_of_a_file_name_components_in_the_lists(counts, tmp_path, capsys):
    (tmp_path / "seeds.toml").write_text(SEEDS)
    model, config = str(tmp_path / "model"), str(tmp_path / "seeds.toml")
    assert ended("fit", counts, "--config", config, "--out", model) in (0, None)
    assert ended("components", model, "--axis", "axis_1") in (0, None)
    assert ", first, " in capsys.readouterr().out
    assert ended("describe", model) in (0, None)
    assert "first: axis_1 axis_1-00, axis_1-01" in capsys.readouterr().out
    assert ended("topics", model, counts, "--axis", "axis_1") in (0, None)
    said = capsys.readouterr().out
    assert "coherence (NPMI)" in said
    assert "background" not in said


def test_a_label_that_is_not_there_is_said_with_the_nearest(counts, tmp_path, capsys):
    (tmp_path / "seeds.toml").write_text(SEEDS.replace("axis_1-01", "axis_1-0l"))
    asked = ["fit", counts, "--config", str(tmp_path / "seeds.toml")]
    assert ended(*asked, "--out", str(tmp_path / "model")) == 2
    assert "Did you mean 'axis_1-" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
