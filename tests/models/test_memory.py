"""A fit without room in memory is refused before it begins."""

import pytest

import tallyfold as tf
from tallyfold.errors import NotEnoughMemoryError, ParameterError
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.models import memory
from tallyfold.models.fit_cost import fit_cost

TENSOR = tf.simulate((12, 10, 5), 1, density=0.5, random_state=0).tensor
QUICK = {"n_components": 2, "max_iter": 2, "zeros": "missing", "amount": "negative-binomial"}
quick = pytest.mark.filterwarnings("ignore::tallyfold.errors.TallyfoldWarning")


def test_too_little_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setenv("TALLYFOLD_MEMORY", "50 kB")
    with pytest.raises(NotEnoughMemoryError) as refused:
        tf.VAEBPTF(**QUICK).fit(TENSOR)
    told = str(refused.value)
    needed = fit_cost(TENSOR, 2).bytes
    assert f"needs roughly {needed / 1000:.1f} KB" in told
    assert "there are 50.0 KB" in told
    assert isinstance(refused.value, MemoryError)


@quick
@pytest.mark.parametrize("word", ["unlimited", "Unlimited", "1TB", "2.5gb", "900000000"])
def test_it_can_be_overruled(word, monkeypatch):
    monkeypatch.setattr(memory, "_free", lambda file: 1)
    with pytest.raises(NotEnoughMemoryError):
        tf.VAEBPTF(**QUICK).fit(TENSOR)
    monkeypatch.setenv("TALLYFOLD_MEMORY", word)
    assert tf.VAEBPTF(**QUICK).fit(TENSOR).n_iter_ > 0


@quick
def test_what_the_message_names_makes_room(monkeypatch):
    monkeypatch.setenv("TALLYFOLD_MEMORY", "55KB")
    with pytest.raises(NotEnoughMemoryError, match=r"n_components=.*TALLYFOLD_MEMORY=[0-9.]+KB"):
        tf.VAEBPTF(**QUICK).check_fit(TENSOR)
    tf.VAEBPTF(**QUICK).check_fit(tf.subsample(TENSOR, 0.1))
    tf.VAEBPTF(**QUICK).check_fit(TENSOR.filter(top={"axis_0": 2}))
    monkeypatch.setenv("TALLYFOLD_MEMORY", "72KB")
    tf.VAEBPTF(**QUICK | {"n_components": 1}).check_fit(TENSOR)


def test_other_models_are_refused_if_factors_alone_have_no_room(monkeypatch):
    monkeypatch.setenv("TALLYFOLD_MEMORY", "1KB")
    tf.BPTF(n_components=2).check_fit(TENSOR)  # 27 labels x 2 components x 2 x 8 bytes
    tf.Constant().check_fit(TENSOR)
    with pytest.raises(NotEnoughMemoryError, match="the factors of bptf with 3 .* at least 1.3 KB"):
        tf.BPTF(n_components=3).check_fit(TENSOR)
    with pytest.raises(NotEnoughMemoryError, match=r"or draws \(n_draws=\)"):
        tf.GibbsBPTF(n_components=2, n_draws=5).check_fit(TENSOR)
    tf.GibbsBPTF(n_components=1, n_draws=2).check_fit(TENSOR)


def test_each_of_several_processes_needs_room_for_the_factors(monkeypatch):
    monkeypatch.setenv("TALLYFOLD_MEMORY", "1KB")
    tf.VAEBPTF(n_components=2)._check_memory(TENSOR, 2)
    with pytest.raises(NotEnoughMemoryError, match="the factors of vae-bptf"):
        tf.VAEBPTF(n_components=3)._check_memory(TENSOR, 2)


@pytest.mark.parametrize("word", ["much", "-3GB", "4XB"])
def test_an_amount_that_is_none(word, monkeypatch):
    monkeypatch.setenv("TALLYFOLD_MEMORY", word)
    with pytest.raises(ParameterError, match="must be an amount such as 64GB, or unlimited"):
        memory.available_memory()


@pytest.mark.parametrize(
    ("names", "limit", "left"),
    [
        (("memory.max", "memory.current"), "1000", 700),
        (("memory.limit_in_bytes", "memory.usage_in_bytes"), "1000", 700),
        (("memory.max", "memory.current"), "max", None),
    ],
)
def test_what_a_container_has_left(names, limit, left, tmp_path):
    for name, text in zip(names, (limit, "500"), strict=True):
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 200\n")
    assert [each for each in memory._left_in_groups(tmp_path) if each is not None] == (
        [] if left is None else [left]
    )


def test_what_linux_says(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    3 kB\n")
    assert memory._free(tmp_path / "meminfo") == 3072
    assert memory._free(tmp_path / "none") is None


def test_many_cells_take_less_each():
    cost = fit_cost(TENSOR)

    class Many:
        nnz, shape = 100_195_749, (2_000_000, 200_000, 1_000)

    assert 14e9 < fit_cost(Many()).bytes < 22e9  # 14.9 GiB were measured: docs/scale.md
    assert cost.bytes < 1e6


def test_a_process_needs_room_for_the_factors_that_live_in_it(monkeypatch):
    tensor = tf.simulate((900, 20, 8), 2, density=0.05).tensor
    given = {"n_components": 10, "tables": 2, "name": "bptf"}
    monkeypatch.setenv("TALLYFOLD_MEMORY", "20KB")
    memory.check_factors_memory(
        tensor, OwnRows(0, 500, 590, 900), **given
    )  # 118 labels: 18,880 bytes
    with pytest.raises(NotEnoughMemoryError, match="for 928 labels need at least"):
        memory.check_factors_memory(tensor, None, **given)
