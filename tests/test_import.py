"""`import tallyfold` is instant and gives every public name."""

import subprocess
import sys

import pytest

import tallyfold
from tallyfold.version import __version__

HEAVY = ("torch", "numba", "matplotlib", "duckdb", "optuna", "numpy", "pyarrow", "pandas")


def loaded_after(code: str) -> set[str]:
    """Return the heavy packages loaded in a fresh process after running the code."""
    report = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import tallyfold") == set()


def test_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_after("import tallyfold.cli") == set()


def test_data_loads_no_model_package() -> None:
    code = "import tallyfold\n[getattr(tallyfold, name) for name in tallyfold.__all__]"
    assert not loaded_after(code) & {"torch", "numba", "matplotlib", "duckdb", "optuna"}


@pytest.mark.parametrize("name", tallyfold.__all__)
def test_public_names_resolve(name: str) -> None:
    value = getattr(tallyfold, name)
    assert value is getattr(tallyfold, name)
    assert name in dir(tallyfold)


def test_version() -> None:
    assert tallyfold.__version__ == __version__


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'CountTenser'"):
        tallyfold.CountTenser  # noqa: B018
