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
import pyarrow as pa

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
