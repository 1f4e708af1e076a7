"""The examples of the documentation and the README run as they stand."""

import doctest
import re
from functools import cache
from pathlib import Path

import pytest

import tallyfold

ROOT = Path(__file__).parent.parent
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if ">>>" in page.read_text("utf-8"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


load_demo = cache(tallyfold.load_demo)


@pytest.fixture(autouse=True)
def _demo_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the words of the library once: a tensor never changes."""
    monkeypatch.setattr(tallyfold, "load_demo", load_demo)


def without_fences(text: str) -> str:
    """Blank the fence lines, which doctest would take for output; line numbers stay."""
    return re.sub(r"^\s*(```|:::).*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = without_fences(page.read_text("utf-8"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert result.attempted > 5
    assert result.failed == 0, "".join(report)


def test_start_and_data_have_examples() -> None:
    assert {"start", "data"} <= {page.stem for page in PAGES}


def test_readme_example(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 1
    fewer = load_demo().filter(top={"module": 150, "word": 1000})  # as many as on the start page
    monkeypatch.setattr(tallyfold, "load_demo", lambda: fewer)
    exec(compile(blocks[0], "README.md", "exec"), {})
    assert "component" in capsys.readouterr().out
    assert tallyfold.load(tmp_path / "model").name == "vae-bptf"


def table_rows(text: str, head: str) -> dict[str, list[str]]:
    """Return the rows of the table whose head begins so, by their first cells."""
    lines = text[text.index(head) :].split("\n\n")[0].splitlines()
    cells = [[cell.strip(" *") for cell in line.strip("| ").split("|")] for line in lines]
    return {first: others for first, *others in [cells[0], *cells[2:]]}


def test_readme_has_the_figures_of_the_results() -> None:
    readme = table_rows((ROOT / "README.md").read_text("utf-8"), "| | constant")
    results = (ROOT / "docs" / "results" / "complete-logs.md").read_text("utf-8")
    measured = table_rows(results, "| tensor | constant")
    tables = {"copies hidden": "nips-copies", "venue": "acl", "hotel": "hotel_review"}
    tables |= {"groceries": "grocery", "films": "movie_events"}
    models = ["constant", "main effects", "boosting on counts", "VAE-BPTF K=10"]
    column = {model: measured["tensor"].index(model) for model in models}
    assert len(readme) == len(tables) + 1
    for words, tensor in tables.items():
        shown = next(row for name, row in readme.items() if words in name)
        assert shown == [f"{float(measured[tensor][column[model]]):.2f}" for model in models]


def test_reference_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    listed = re.findall(r"^(?:   |\.\. py:data:: )(\w+)$", page, re.MULTILINE)
    assert set(listed) == set(tallyfold.__all__) - {"__version__", "errors"}
