"""Passwords and tokens in addresses of databases, taken out of what is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

MASK = "***"
NAMES = re.compile(r"pass(word|wd|phrase)?$|pwd$|token|secret|credential|(api|access)_?key", re.I)
"""What settings are called that nobody else may see: ``password``, ``motherduck_token``, ..."""
SETTING = re.compile(
    r"""(?P<name>[\w.-]+)\s*=\s*
    (?:'(?P<single>(?:[^'\\]|\\.)*)(?:'|\\?$)      # libpq: password='two words', ' is \'
    |"(?P<double>(?:[^"\\]|\\.)*)(?:"|\\?$)
    |(?P<plain>(?:\\.|[^\s&;\\])*))                # in URIs up to &, in ODBC's strings up to ;
    """,
    re.X | re.S,
)
USER = re.compile(r"(?://|^)[^:@/]*:(?!//)(.*)@", re.S)
"""In ``//user:password@host``; one that is not well quoted may have any sign in it."""
LONG = 4
"""Secrets of so many characters are masked inside of words, too."""


def without_secrets(text: str, address: str) -> str:
    """Return a text with the passwords and tokens of an address, and every part of them, masked.

    Examples
    --------
    >>> without_secrets("bad port 'pa'", "postgresql://ann:pa/ss@host/name")
    "bad port '***'"
    >>> given = "host=db password='two words' user=ann"
    >>> without_secrets(given, given)
    "host=db password='***' user=ann"
    """
    for secret in sorted(_forms(address), key=len, reverse=True):
        word = re.escape(secret)
        text = re.sub(word if len(secret) >= LONG else rf"(?<!\w){word}(?!\w)", MASK, text)
    return text


def _forms(address: str) -> set[str]:
    """Return how secrets may be written: drivers cut those not well quoted at odd places."""
    whole = {form for secret in _secrets(address) for form in _spellings(secret)}
    parts = {part for text in whole for part in re.split(r"[/@:?#&;=\[\]\s'\"\\]+", text)}
    return {form for form in whole | parts if form and form != MASK}


def _secrets(address: str) -> Iterator[str]:
    yield from USER.findall(address)
    for found in SETTING.finditer(address):
        if NAMES.search(found["name"]):
            yield found["single"] or found["double"] or found["plain"] or ""


def _spellings(secret: str) -> set[str]:
    plain = {secret, re.sub(r"\\(.)", r"\1", secret, flags=re.S)}
    return {form for text in plain for form in (text, unquote(text), unquote_plus(text))}
