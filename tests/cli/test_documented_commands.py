"""Every command that the README and the documentation show has the options that it is given."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tallyfold.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENDS = ("|", ">", "<", "&", "&&")


def commands(page: Path) -> list[list[str]]:
    """Return the words after ``tallyfold`` of each command that a page shows at a prompt."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    found = []
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line[2:], comments=True) if line.startswith("$ ") else []
        if "tallyfold" in words:
            words = words[words.index("tallyfold") + 1 :]
            end = next((n for n, word in enumerate(words) if word in ENDS), len(words))
            found.append(words[:end])
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda p: p.stem)
def test_commands_are_understood(page, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    for words in commands(page):
        if words[0].startswith("-"):
            continue
        verb = get_command(app).commands[words.pop(0)]
        while words and hasattr(verb, "commands"):
            verb = verb.commands[words.pop(0)]
        if not hasattr(verb, "commands"):
            verb.make_context(verb.name, words)  # an option or a word too many is an error


def test_there_are_commands():
    assert sum(len(commands(page)) for page in PAGES) > 60
