"""A real tensor that needs no download: the words of the standard library that runs it."""

from __future__ import annotations

import ast
import keyword
import os
import re
import sys
import sysconfig
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError

PLACES = ("identifier", "docstring", "comment")
"""Where a word can stand, in the order of the demo tensor's axis."""

_ENGLISH = """
    about above after again against all already also although always among and another any
    anyway are aren around because been before being below between both but can cannot could
    couldn did didn does doesn doing don done down during each either else even ever every few
    first for from further had hadn has hasn have haven having hence her here hers him himself
    his how however instead into isn its itself just least less let like many may maybe might
    mine more most much must neither never nor not nothing now off often once one only onto
    other others otherwise our ours out over own per perhaps quite rather really same shall she
    should shouldn simply since some something still such than that the their them then there
    therefore these they thing things this those though three through thus together too toward
    towards two under unless until upon use used uses using usually very via was wasn well were
    weren what whatever when where whether which while who whole whom whose why will with within
    without won would wouldn yes yet you your cls self
"""
STOP_WORDS = frozenset((*_ENGLISH.split(), *map(str.lower, keyword.kwlist)))
"""English function words, the rest of contractions such as "don't", and Python's own words."""

# Strings are matched so as to be skipped; only comments are captured. Every alternative starts
# with a quote or a hash, which lets the regular expression engine leap from one to the next.
_F_PREFIX = r"(?:(?<=\b[fFtT].)|(?<=\b[fFtT][rR].)|(?<=\b[rR][fFtT].))"  # just behind a quote
_FIELD = r"\{\{|\{(?:[^{}\n]|\{[^{}\n]*\})*\}"  # since Python 3.12 it may hold the same quote
_STRING_OR_COMMENT = re.compile(
    rf"""
    \"\"\" [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* \"\"\"
    | \'\'\' [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* \'\'\'
    | " {_F_PREFIX} (?: [^"\\\n{{] | \\. | {_FIELD} )* "
    | ' {_F_PREFIX} (?: [^'\\\n{{] | \\. | {_FIELD} )* '
    | " [^"\\\n]* (?: \\. [^"\\\n]* )* "
    | ' [^'\\\n]* (?: \\. [^'\\\n]* )* '
    | ( \# [^\n]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"\b[^\W\d]\w*")
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_NOT_ASCII = re.compile(r"\w*[^\x00-\x7f]+\w*")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def count_words(source: str) -> Counter[tuple[str, str]]:
    r"""Count the words of a source text as (word, place) pairs.

    A count is the number of distinct names, of docstrings or of comments that have the word, not
    of its occurrences; comments on consecutive lines are one comment. Text in other strings,
    f-strings included, does not count. A text that is not Python is a SyntaxError or ValueError.

    Examples
    --------
    >>> counts = count_words("class HTTPReader:  # reads pages\n    page_reader = 'ignored'")
    >>> sorted(counts.items())  # doctest: +NORMALIZE_WHITESPACE
    [(('http', 'identifier'), 1), (('page', 'identifier'), 1), (('pages', 'comment'), 1),
     (('reader', 'identifier'), 2), (('reads', 'comment'), 1)]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old escapes such as "\d" are not the reader's concern
        tree = ast.parse(source)
    pieces = _STRING_OR_COMMENT.split(source)
    texts = {
        "identifier": set(_NAME.findall(" ".join(pieces[::2]))),
        "docstring": _docstrings(tree),
        "comment": _comments(pieces),
    }
    return Counter(
        (word, place) for place in PLACES for text in texts[place] for word in split_words(text)
    )


def split_words(text: str) -> set[str]:
    """Return the distinct words of a text: cut at underscores, digits and camel case.

    Examples
    --------
    >>> sorted(split_words("_parseHTTPHeader2 of the XML_file"))
    ['file', 'header', 'http', 'parse', 'xml']
    """
    if not text.isascii():
        text = _NOT_ASCII.sub(" ", text)
    return {word.lower() for word in _WORD.findall(text)} - STOP_WORDS


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield every docstring; only statements are visited, never expressions."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""
        for field in _BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list):  # the body of a lambda is an expression
                pending.extend(block)


def _comments(pieces: list[str]) -> list[str]:
    """Return the comments; those on consecutive lines with no code between are one."""
    comments: list[str] = []
    after_comment = False
    for code, comment in zip(pieces[::2], pieces[1::2], strict=False):
        if comment and after_comment and code.count("\n") == 1 and code.isspace():
            comments[-1] += "\n" + comment
        elif comment:
            comments.append(comment)
        after_comment = bool(comment)
    return comments


MIN_MODULES = 3
"""A word is kept if at least this number of modules have it ..."""
MAX_SHARE = 0.3
"""... and no more than this share of them: what stands everywhere tells nothing apart."""
MIN_WORDS = 20
"""A module is kept if it has at least this number of different kept words."""

_FEWEST_MODULES = 50
_TABLES = {
    "_opcode_metadata",
    "encodings",
    "html.entities",
    "keyword",
    "lib2to3.pgen2",
    "pydoc_data",
    "stringprep",
    "token",
}
_GENERATED = re.compile(r"\b(?:auto)?-?generated\b", re.IGNORECASE)
_HEADER = 300
_TEST = re.compile(r"_?tests?(?:_.*)?|_test.*|.*_tests?")


def load_demo() -> CountTensor:
    """Count the words of the Python standard library: module x word x place.

    The places are identifier, docstring and comment. A count is the number of distinct names, of
    docstrings or of comments of the module that have the word. Words are cut at underscores and
    camel case, lower-cased, of three letters or more, without English stop words and Python
    keywords. Left out are tests, codecs, generated tables, words in fewer than 3 modules or in
    more than 30 % of them, and modules with fewer than 20 such words.

    Returns
    -------
    CountTensor
        Some 540 modules x 5,500 words x 3 places in Python 3.11, with 1.4 % of the cells filled,
        73 % of them with a count of one. It depends only on the interpreter, takes three to four
        seconds to build, and is kept for the next call.

    Examples
    --------
    >>> tensor = load_demo()
    >>> tensor.names
    ('module', 'word', 'place')
    >>> json = tensor.sel(module=["json.decoder"], place=["identifier"]).compact()
    >>> "decode" in json.axes[1].labels.to_pylist()
    True
    """
    return _demo_of(sysconfig.get_path("stdlib"))


@cache
def _demo_of(root: str) -> CountTensor:
    counts = {module: _words_of_file(path) for module, path in sorted(_modules(Path(root)))}
    counts = {module: words for module, words in counts.items() if words}
    if len(counts) < _FEWEST_MODULES:
        raise DataError(
            "the demo is made of the standard library's source files, some hundreds; found "
            f"{len(counts)} under {root!r}. Use a Python that has them installed (a zipped or "
            "stripped one does not)."
        )
    return _kept(_tensor(counts))


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and file of each module, without tests and tables, in any order."""
    for folder, folders, files in os.walk(root):
        package = Path(folder).relative_to(root).parts
        folders[:] = [name for name in folders if _wanted((*package, name))]
        for file in files:
            stem, suffix = os.path.splitext(file)
            parts = (*package, stem)
            if suffix == ".py" and _wanted(parts):
                yield ".".join(package if stem == "__init__" else parts), Path(folder, file)


def _wanted(parts: tuple[str, ...]) -> bool:
    """Whether a module or package belongs to the standard library and is neither test nor table."""
    return (
        parts[0] in sys.stdlib_module_names
        and parts[-1].isidentifier()
        and not _TEST.fullmatch(parts[-1])
        and ".".join(parts) not in _TABLES
    )


def _words_of_file(path: Path) -> Counter[tuple[str, str]]:
    """Count the words of a file; none if it is generated or cannot be read as Python."""
    try:
        with tokenize.open(path) as file:
            source = file.read()
        return Counter() if _GENERATED.search(source[:_HEADER]) else count_words(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return Counter()


def _tensor(counts: Mapping[str, Counter[tuple[str, str]]]) -> CountTensor:
    modules = np.repeat(list(counts), [len(module) for module in counts.values()])
    words, places = zip(*chain.from_iterable(counts.values()), strict=True)
    place_codes = pa.array(map(PLACES.index, places), pa.int8())
    table = {
        "module": modules,
        "word": words,
        "place": pa.DictionaryArray.from_arrays(place_codes, list(PLACES), ordered=True),
        "count": list(chain.from_iterable(module.values() for module in counts.values())),
    }
    return CountTensor.from_frame(pa.table(table), ["module", "word", "place"], "count")


def _kept(tensor: CountTensor) -> CountTensor:
    """Keep common enough words in large enough modules, until both rules hold."""
    pairs = tensor.collapse("place")
    rare = pairs.marginal("word", "nonzeros") <= MAX_SHARE * tensor.shape[0]
    pairs = pairs.sel(word=pairs.axis("word").labels.filter(pa.array(rare)))
    core = pairs.filter(min_nonzeros={"word": MIN_MODULES, "module": MIN_WORDS})
    kept = tensor.sel(word=core.axis("word").labels, module=core.axis("module").labels)
    return kept.compact()
