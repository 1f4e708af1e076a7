"""The text that says where a database is; a password in it never gets out."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tallyfold.errors import FormatError, ParameterError

KINDS = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "sqlite": "SQLite",
    "duckdb": "DuckDB",
}
"""The beginnings of addresses, and the database each is for."""

WANTED = (
    "`connection_or_uri` must be an address (postgresql://user@host/name, sqlite:///file.db, "
    "duckdb:///file.duckdb), the path of a SQLite or DuckDB file, or an open connection"
)


class Address(NamedTuple):
    """A kind of database, and where it is: a file's path, or the whole address of a server."""

    kind: str
    place: str

    def __repr__(self) -> str:
        return f"Address({self.kind!r}, {without_secrets(self.place, self.place)!r})"


def parsed_address(text: str | os.PathLike[str]) -> Address:
    """Read an address, or look into a file for what kind of database it holds.

    Examples
    --------
    >>> parsed_address("postgresql://ann:secret@db.example.org/sales")
    Address('PostgreSQL', 'postgresql://ann:***@db.example.org/sales')
    """
    place = os.fspath(text)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", place)
    if scheme is None:
        path = os.path.expanduser(place)
        return Address(_kind_of_file(_existing(path)), path)
    if scheme[1] not in KINDS:
        raise ParameterError(f"{WANTED}; got one that begins with {scheme[0]!r}.")
    kind = KINDS[scheme[1]]
    if kind == "PostgreSQL":
        return Address(kind, place)
    path = re.sub(r"^\w+:///?", "", place)
    return Address(kind, str(_existing(os.path.expanduser(path))))


def without_secrets(text: str, uri: str) -> str:
    """Return a text with the password of an address, and every part of it, blotted out.

    Examples
    --------
    >>> without_secrets("bad port 'pa'", "postgresql://ann:pa/ss@host/name")
    "bad port '***'"
    """
    for secret in sorted(_secrets(uri), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def _secrets(uri: str) -> set[str]:
    """Return what may be a password: drivers cut one that is not well quoted at odd places."""
    whole = re.findall(r"(?://|^)[^:@/]*:(?!//)(.*)@", uri, re.DOTALL)
    whole += re.findall(r"password=([^&\s]*)", uri, re.IGNORECASE)
    parts = {part for text in whole for part in (text, *re.split(r"[/@:?#&\[\]\s]+", text))}
    return {form for part in parts for form in (part, unquote(part)) if form}


def _existing(path: str) -> Path:
    if "\0" in path or not os.path.isfile(path):
        shown = without_secrets(path, path)
        raise FileNotFoundError(f"there is no file {shown!r}. {WANTED}.")
    return Path(path)


def _kind_of_file(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(16)
    if head[8:12] == b"DUCK":
        return "DuckDB"
    if head in (b"SQLite format 3\0", b""):  # an empty file is a SQLite database without tables
        return "SQLite"
    raise FormatError(
        f"{str(path)!r} is neither a SQLite nor a DuckDB database. For tables in files use "
        "tallyfold.read_counts."
    )
