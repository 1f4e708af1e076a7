"""The words of one Python source text, by the place they stand in."""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from collections import Counter
from collections.abc import Iterator

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
