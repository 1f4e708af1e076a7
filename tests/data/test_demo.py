import hashlib
import json.decoder
import os
import subprocess
import sys
import textwrap
import tokenize
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold import load_demo
from tallyfold.data import demo
from tallyfold.data.demo import STOP_WORDS, count_words, split_words
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError

DIGEST = """
import hashlib
from tallyfold import load_demo
tensor = load_demo()
digest = hashlib.sha256(tensor.indices.tobytes("C") + tensor.counts.tobytes())
for axis in tensor.axes:
    digest.update(repr(axis.labels.to_pylist()).encode())
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def tensor() -> CountTensor:
    return load_demo()


def words_of(tensor: CountTensor, module: str, place: str) -> set[str]:
    part = tensor.sel(module=[module], place=[place]).compact()
    return set(part.axes[1].labels.to_pylist())


def labels(tensor: CountTensor, axis: int) -> list[str]:
    found: list[str] = tensor.axes[axis].labels.to_pylist()
    return found


def test_it_resembles_a_text_corpus(tensor: CountTensor) -> None:
    n_modules, n_words, n_places = tensor.shape
    assert 200 <= n_modules <= 1_000
    assert 2_000 <= n_words <= 10_000
    assert n_places == 3
    assert labels(tensor, 2) == ["identifier", "docstring", "comment"]
    assert 0.005 < tensor.density < 0.05
    assert (tensor.counts == 1).mean() > 0.65
    assert (tensor.marginal("place", "nonzeros") > 10_000).all()


def test_every_label_is_in_order_and_obeys_the_rules(tensor: CountTensor) -> None:
    modules, words = labels(tensor, 0), labels(tensor, 1)
    assert modules == sorted(modules)
    assert words == sorted(words)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    assert min(map(len, words)) >= 3
    assert not STOP_WORDS.intersection(words)
    pairs = np.unique(tensor.indices[:, :2], axis=0)
    assert np.bincount(pairs[:, 0]).min() >= demo.MIN_WORDS
    assert np.bincount(pairs[:, 1]).min() >= demo.MIN_MODULES


def test_tests_tables_and_strangers_are_left_out(tensor: CountTensor) -> None:
    modules = labels(tensor, 0)
    parts = {part for module in modules for part in module.split(".")}
    assert not parts & {"test", "tests", "idle_test", "site-packages", "pydoc_data", "encodings"}
    assert not {"keyword", "token", "html.entities", "stringprep"}.intersection(modules)
    assert not any(part.startswith(("test_", "_sysconfigdata")) for part in parts)
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names
    assert {"doctest", "unittest", "unittest.mock", "json", "json.decoder"} <= set(modules)


def test_a_known_module_has_its_words(tensor: CountTensor) -> None:
    assert {"scanner", "decode", "hook"} <= words_of(tensor, "json.decoder", "identifier")
    assert {"decode", "document"} <= words_of(tensor, "json.decoder", "docstring")
    assert {"backslash", "escape"} <= words_of(tensor, "json.decoder", "comment")
    with tokenize.open(json.decoder.__file__) as file:
        counts = count_words(file.read())
    found = tensor.sel(module=["json.decoder"]).to_frame("pandas")
    for row in found.itertuples():
        assert counts[row.word, row.place] == row.count


def test_a_small_source_is_counted_exactly() -> None:
    source = textwrap.dedent(
        '''
        """Module reads pages; reads twice."""
        import urllib.request  # fetch pages

        # first block about parsing
        # second line of the block parsing

        # another block
        class HTTPReader(urllib.request.Request):
            r"""Reader of pages \\d."""

            pageCount = 0x1FabC
            text = "# inString hidden_words" + 'single # quoted' "it's"

            async def read_page(self, pageCount=f"{names['a']} fstring # no"):
                "Read one page."
                if self:
                    def nested_helper():
                        \'\'\'Nested "helper" docs.\'\'\'
                return b"bytes", """not a docstring # nor comment""", "\\\\"  # trailing
        '''
    )
    counts = count_words(source)
    by_place = {
        place: {word: n for (word, where), n in counts.items() if where == place}
        for place in demo.PLACES
    }
    assert by_place == {
        "identifier": {
            "urllib": 1,
            "request": 2,
            "http": 1,
            "reader": 1,
            "page": 2,
            "count": 1,
            "text": 1,
            "read": 1,
            "nested": 1,
            "helper": 1,
        },
        "docstring": {
            "module": 1,
            "reads": 1,
            "pages": 2,
            "twice": 1,
            "reader": 1,
            "read": 1,
            "page": 1,
            "nested": 1,
            "helper": 1,
            "docs": 1,
        },
        "comment": {
            "fetch": 1,
            "pages": 1,
            "block": 2,
            "parsing": 1,
            "second": 1,
            "line": 1,
            "trailing": 1,
        },
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parseHTTPHeader2_file", {"parse", "http", "header", "file"}),
        ("XMLHttpRequest", {"xml", "http", "request"}),
        ("__init__", {"init"}),
        ("is_not_None", set()),
        ("self.cls don't doesn't", set()),
        ("a ab abc ABC AbC", {"abc"}),
        ("Löwis naïve plain", {"plain"}),
        ("sha256 utf8", {"sha", "utf"}),
    ],
)
def test_words_are_split(text: str, words: set[str]) -> None:
    assert split_words(text) == words


@given(st.text())
def test_words_are_lower_case_letters_whatever_the_text(text: str) -> None:
    for word in split_words(text):
        assert word.isascii()
        assert word.isalpha()
        assert word.islower()
        assert len(word) >= 3


@pytest.mark.parametrize("module", ["inspect", "tokenize", "argparse", "_pydecimal", "pydoc"])
def test_comments_and_names_agree_with_the_tokenizer(module: str) -> None:
    path = Path(os.__file__).parent / f"{module}.py"
    with tokenize.open(path) as file:
        source = file.read()
    comments, names, depth = [], set(), 0
    with path.open("rb") as raw:
        for token in tokenize.tokenize(raw.readline):
            kind = tokenize.tok_name[token.type]
            depth += (kind == "FSTRING_START") - (kind == "FSTRING_END")
            if kind == "COMMENT":
                comments.append(token.string)
            elif kind == "NAME" and not depth:
                names.add(token.string)
    pieces = demo._STRING_OR_COMMENT.split(source)
    assert [piece for piece in pieces[1::2] if piece] == comments
    found = set(demo._NAME.findall(" ".join(pieces[::2])))
    assert {name for name in found if len(name) > 2} == {name for name in names if len(name) > 2}


def test_an_f_string_may_nest_its_own_quote() -> None:
    pieces = demo._STRING_OR_COMMENT.split('a = f"{b["# hidden"]} {{" + c  # shown')
    assert [piece for piece in pieces[1::2] if piece] == ["# shown"]
    assert demo._NAME.findall(" ".join(pieces[::2])) == ["a", "f", "c"]


def test_no_warning_leaks_from_old_escapes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_words("pattern = '\\d' if 1 is 1 else 2") == {("pattern", "identifier"): 1}


def test_unreadable_files_are_skipped(tmp_path: Path) -> None:
    broken = {
        "syntax.py": b"def broken(:",
        "bytes.py": b"word = '\xff'",
        "null.py": b"word = 1\0",
        "cookie.py": b"# -*- coding: no-such-codec -*-\nword = 1",
        "generated.py": b"# Auto-generated by a script.\nword = 1",
        "deep.py": b"(" * 5_000 + b")" * 5_000,
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        assert not demo._words_of_file(tmp_path / name), name
    assert not demo._words_of_file(tmp_path / "absent.py")
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nword = '\xff'")
    assert demo._words_of_file(tmp_path / "latin.py")["word", "identifier"] == 1


def test_which_files_are_modules(tmp_path: Path) -> None:
    wanted = ["json/__init__.py", "json/decoder.py", "doctest.py", "unittest/case.py"]
    unwanted = [
        "stranger.py",
        "keyword.py",
        "_sysconfigdata_x.py",
        "encodings/ascii.py",
        "json/notes.txt",
        "json/tests/decoder.py",
        "json/test_decoder.py",
        "idlelib/idle_test/htest.py",
        "site-packages/json/decoder.py",
        "json/not-a-module.py",
    ]
    for name in wanted + unwanted:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = sorted(module for module, _ in demo._modules(tmp_path))
    assert found == ["doctest", "json", "json.decoder", "unittest.case"]


def test_a_library_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found 0 under"):
        demo._demo_of(str(tmp_path / "python311.zip"))


def test_the_result_is_kept(tensor: CountTensor) -> None:
    assert load_demo() is tensor


def test_it_depends_only_on_the_interpreter(tensor: CountTensor, tmp_path: Path) -> None:
    digest = hashlib.sha256(tensor.indices.tobytes("C") + tensor.counts.tobytes())
    for axis in tensor.axes:
        digest.update(repr(axis.labels.to_pylist()).encode())
    result = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", DIGEST],
        env={**os.environ, "PYTHONHASHSEED": "12345", "LC_ALL": "C", "PYTHONUTF8": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == digest.hexdigest()
    assert result.stderr == ""
