"""Imports point only down, and heavy packages stay out of module top levels."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallyfold

PACKAGE = Path(tallyfold.__file__).parent

LAYERS = (
    "cli",
    "paper",
    "report",
    "spark",
    "evaluation",
    "models",
    "inference",
    "posterior",
    "probability",
    "kernels",
)
"""From the top down: a module imports from its own layer and those after it."""

SEE_DATA = LAYERS[: LAYERS.index("inference") + 1]
SEEN_BY_ALL = {"errors", "scales", "version"}

HEAVY = {
    "duckdb",
    "matplotlib",
    "numba",
    "optuna",
    "pandas",
    "polars",
    "pyspark",
    "sklearn",
    "torch",
}
HEAVY_AT_TOP_LEVEL = {
    "kernels/fused/jit.py": {"numba"},
    "kernels/fused/prefetch.py": {"numba"},
    "kernels/fused/vectors.py": {"numba"},
    "models/base.py": {"sklearn"},
}
"""Files that may import a heavy package at their top, because they are nothing without it."""

WAYS_UP = {("models/fitted_model.py", "tallyfold.report.explorer")}
"""Methods that are a user's way to a layer above: `model.explore()`."""

SOURCES = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def allowed_for(layer: str) -> set[str]:
    if layer == "__init__":
        return {*SEEN_BY_ALL, "data", *LAYERS[1:]}
    if layer == "__main__":
        return {"cli"}
    if layer in SEEN_BY_ALL:
        return set()
    if layer == "data":
        return {*SEEN_BY_ALL, "data"}
    below = set(LAYERS[LAYERS.index(layer) :])
    if layer == "paper":  # it uses the library as a user does
        below |= set(tallyfold.__all__)
    return SEEN_BY_ALL | below | ({"data"} if layer in SEE_DATA else set())


def imported(node: ast.Import | ast.ImportFrom, path: Path) -> Iterator[str]:
    """Yield the dotted names an import statement asks for, relative ones made absolute."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = ["tallyfold", *path.relative_to(PACKAGE).parent.parts]
        kept = package[: len(package) - node.level + 1]
        base = ".".join([*kept, base] if base else kept)
    yield from (f"{base}.{alias.name}" for alias in node.names)


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def top_level_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when the module is loaded."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from top_level_imports(ast.Module(node.orelse, []))
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from top_level_imports(node)


def wrong_imports(source: str, path: Path) -> list[str]:
    """Return what the module imports against the layers, with line numbers."""
    layer = layer_of(path)
    allowed = allowed_for(layer)
    wrong = []
    for node in imports(ast.parse(source)):
        for dotted in imported(node, path):
            if (name_of(path), dotted.rpartition(".")[0]) in WAYS_UP:
                continue
            first, *rest = dotted.split(".")
            whole = layer == "paper" and not rest
            if first == "tallyfold" and not whole and (not rest or rest[0] not in allowed):
                wrong.append(f"{name_of(path)}:{node.lineno} ({layer}) imports {dotted}")
    return wrong


def heavy_imports(source: str, path: Path) -> set[str]:
    """Return the heavy packages that loading the module would load."""
    return {
        dotted.split(".")[0]
        for node in top_level_imports(ast.parse(source))
        for dotted in imported(node, path)
    } & HEAVY


def test_imports_point_down() -> None:
    assert [fault for path, text in SOURCES.items() for fault in wrong_imports(text, path)] == []


def test_no_heavy_package_at_top_level() -> None:
    heavy = {name_of(path): heavy_imports(text, path) for path, text in SOURCES.items()}
    assert {name: found for name, found in heavy.items() if found} == HEAVY_AT_TOP_LEVEL


def test_every_folder_is_a_layer() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= {*LAYERS, "data"}


@pytest.mark.parametrize(
    ("file", "source", "fault"),
    [
        ("kernels/x.py", "from tallyfold.probability import poisson", True),
        ("probability/x.py", "from tallyfold.kernels import reference", False),
        ("probability/x.py", "from tallyfold.data.tensor import CountTensor", True),
        ("inference/x.py", "from tallyfold.data.tensor import CountTensor", False),
        ("data/x.py", "def f():\n    from tallyfold.models import base", True),
        ("data/x.py", "from .tensor import CountTensor", False),
        ("data/formats/x.py", "from ...cli import main", True),
        ("models/x.py", "import tallyfold", True),
        ("models/x.py", "from tallyfold import errors", False),
        ("cli/x.py", "from tallyfold import CountTensor", True),
        ("paper/x.py", "import tallyfold as tf", False),
        ("paper/x.py", "from tallyfold import CountTensor", False),
        ("paper/x.py", "from tallyfold.report import plots", False),
        ("paper/x.py", "from tallyfold.cli import main", True),
        ("report/x.py", "from tallyfold.paper import published", True),
        ("errors.py", "from tallyfold import version", True),
    ],
)
def test_the_layer_rule_itself(file: str, source: str, fault: bool) -> None:
    assert bool(wrong_imports(source, PACKAGE / file)) is fault


@pytest.mark.parametrize(
    ("source", "heavy"),
    [
        ("import torch.nn as nn", {"torch"}),
        ("try:\n    from numba import njit\nexcept ImportError:\n    pass", {"numba"}),
        ("class A:\n    import pandas", {"pandas"}),
        ("def f():\n    import torch", set()),
        ("if TYPE_CHECKING:\n    import pandas\nelse:\n    import polars", {"polars"}),
        ("import numpy", set()),
    ],
)
def test_the_heavy_rule_itself(source: str, heavy: set[str]) -> None:
    assert heavy_imports(source, PACKAGE / "data" / "x.py") == heavy
