"""A real tensor that needs no download: the words of the standard library that runs it."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.source_words import PLACES, count_words
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError

MIN_MODULES = 3
"""A word is kept if at least so many modules have it ..."""
MAX_SHARE = 0.3
"""... and no more than this share of them: what stands everywhere tells nothing apart."""
MIN_WORDS = 20
"""A module is kept if it has at least so many different kept words."""

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
    tensor = _tensor(counts)
    return tensor.with_cells(_kept(tensor)).compact()


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
    words = sorted({word for module in counts.values() for word, _ in module})
    word_number = {word: number for number, word in enumerate(words)}
    place_number = {place: number for number, place in enumerate(PLACES)}
    keys = list(chain.from_iterable(counts.values()))
    columns = (
        np.repeat(np.arange(len(counts)), [len(module) for module in counts.values()]),
        np.fromiter((word_number[word] for word, _ in keys), np.int64),
        np.fromiter((place_number[place] for _, place in keys), np.int64),
    )
    numbers = np.fromiter(chain.from_iterable(c.values() for c in counts.values()), np.int64)
    axes = [Axis("module", list(counts)), Axis("word", words), Axis("place", PLACES)]
    return CountTensor(axes, np.stack(columns, axis=1), numbers)


def _kept(tensor: CountTensor) -> npt.NDArray[np.bool_]:
    """Mark the cells of common enough words in large enough modules, until both rules hold."""
    module_N, word_N = tensor.indices[:, 0], tensor.indices[:, 1]
    too_common = _spread(word_N, module_N, tensor.shape[1]) > MAX_SHARE * tensor.shape[0]
    keep: npt.NDArray[np.bool_] = ~too_common[word_N]
    while True:
        modules_of_word = _spread(word_N[keep], module_N[keep], tensor.shape[1])
        words_of_module = _spread(module_N[keep], word_N[keep], tensor.shape[0])
        good = (modules_of_word >= MIN_MODULES)[word_N] & (words_of_module >= MIN_WORDS)[module_N]
        if not np.any(keep & ~good):
            return keep
        keep &= good


def _spread(
    these_N: npt.NDArray[np.int32], those_N: npt.NDArray[np.int32], size: int
) -> npt.NDArray[np.int64]:
    """Return for each of these how many different ones of those it stands with."""
    pairs = np.unique(these_N * np.int64(2**32) + those_N)
    return np.bincount(pairs >> 32, minlength=size).astype(np.int64)
