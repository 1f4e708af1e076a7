"""Files stay short, and functions keep few parameters."""

import ast
import io
import tokenize
from pathlib import Path
from statistics import median

import pytest

import tallyfold

PACKAGE = Path(tallyfold.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 300
MOST_PARAMETERS = 20
MOST_OF_A_MODEL = 25
"""A model is made with keywords, each documented."""
LARGEST_MEDIAN_BODY = 6
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def is_text(node):
    """Return whether a statement is a docstring, or the text under a constant."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def code_lines(source):
    """Return the number of lines without docstrings, comments and blank lines."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if is_text(node):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def functions(source):
    return [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]


def parameters(source):
    """Return how many parameters each function has."""
    found = {}
    for node in functions(source):
        given = node.args
        found[node.name] = len(given.posonlyargs + given.args + given.kwonlyargs)
    return found


def body_length(node):
    body = node.body[1:] if is_text(node.body[0]) else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def test_no_file_is_long_and_no_function_takes_much():
    sources = {name_of(path): path.read_text(encoding="utf-8") for path in MODULES}
    lines = {name: code_lines(source) for name, source in sources.items()}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}
    for name, source in sources.items():
        found = {called: n for called, n in parameters(source).items() if n > MOST_PARAMETERS}
        assert found == {}, name


@pytest.mark.parametrize("name", tallyfold.MODELS)
def test_no_model_has_many_parameters(name):
    assert len(tallyfold.MODELS[name]().get_params()) <= MOST_OF_A_MODEL


def test_functions_are_short():
    bodies = [body_length(f) for path in MODULES for f in functions(path.read_text())]
    assert median(bodies) <= LARGEST_MEDIAN_BODY


def test_what_is_counted():
    source = '"""Text."""\n\n# no\nx = [\n    1,\n]\n"""Of x."""\n'
    source += 'def f(a, b):\n    "t"\n    return a\n'
    assert code_lines(source) == 5
    assert parameters(source) == {"f": 2}
    assert [body_length(f) for f in functions(source)] == [1]
