"""Raw files: found, unpacked and read line by line, strict about what is bad."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from tallyfold.data.axis import listing
from tallyfold.data.summary import Dropped
from tallyfold.errors import FormatError, ParameterError

Raw = TypeVar("Raw")
Record = TypeVar("Record")
PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], None]
"""Called, now and then, with the number of bytes read and the number of bytes in all files."""

LONGEST_LINE = 1 << 26
LINES_BETWEEN_REPORTS = 2000
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character: a byte that could not be decoded, or what JSON may hold but no file."""


class Place(NamedTuple):
    """Where a record begins."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"line {self.line:,} of {str(self.file)!r}"


class Unfit(Exception):
    """Why one record cannot be used; the reader turns it into an error or leaves the record out."""


class Reader:
    """Reads lines, refuses or skips the bad ones, and keeps count of all that is left out."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        bad_lines: str = "error",
        encoding: str = "utf-8",
        progress: Progress | None = None,
    ) -> None:
        if bad_lines not in ("error", "skip"):
            raise ParameterError(f"`bad_lines` must be 'error' or 'skip'; got {bad_lines!r}.")
        self._skips, self._encoding = bad_lines == "skip", _checked_encoding(encoding)
        self._progress, self._done = progress, 0
        self._size = sum(file.stat().st_size for file in files)
        self._left_out: Counter[str] = Counter()
        self._records: list[Dropped] = []
        self._first_bad = ""

    def lines(self, file: Path) -> Iterator[tuple[Place, str]]:
        """Yield each line that holds more than white space, with its place."""
        for number, text in enumerate(self.raw_lines(file), start=1):
            if why := self.not_decoded(text):
                self.refuse(Place(file, number), why)
            elif text.strip():
                yield Place(file, number), text

    def raw_lines(self, file: Path) -> Iterator[str]:
        """Yield every line; a bad byte becomes a lone surrogate, and so spoils only its field."""
        for number, line in enumerate(self._bytes_of(file)):
            text = line.decode(self._encoding, "surrogateescape")
            yield text if number else text.removeprefix("\ufeff")

    def parsed(
        self, pieces: Iterable[tuple[Place, Raw]], parse: Callable[[Raw], Record]
    ) -> Iterator[Record]:
        """Parse each piece; one that is `Unfit` is refused."""
        for place, piece in pieces:
            try:
                record = parse(piece)
            except Unfit as error:
                self.refuse(place, str(error))
                continue
            yield record

    def refuse(self, place: Place, why: str) -> None:
        """Raise an error that says where and why, or count the line as left out."""
        self._first_bad = self._first_bad or f"{place} {why}"
        if not self._skips:
            raise FormatError(
                f"{place} {why} Mend the line, or leave such lines out with bad_lines='skip'."
            )
        self.leave_out("a line that cannot be used")

    def leave_out(self, reason: str) -> None:
        """Count a document that is left out."""
        self._left_out[reason] += 1

    def record(self, dropped: Dropped) -> None:
        """Keep a record of something else that was left out."""
        self._records.append(dropped)

    def count_repeated_authors(self, number: int) -> None:
        """Record authors whom a paper lists more than once."""
        if number:
            reason = "an author listed twice counts once"
            self.record(Dropped(reason, labels={"repeated author": number}))

    @property
    def dropped(self) -> list[Dropped]:
        """What was left out so far."""
        counted = [Dropped(reason, documents=n) for reason, n in self._left_out.items()]
        return counted + self._records

    def nothing_left(self) -> str:
        """Say why no document is left."""
        reasons = "; ".join(map(str, self.dropped)) or "the files hold no line"
        first = f" The first line that cannot be used: {self._first_bad}" if self._first_bad else ""
        return f"no document is left to count: {reasons}.{first}"

    def not_decoded(self, text: str) -> str:
        """Say that a text is not in the encoding that was asked for; nothing if it is."""
        found = None if text.isascii() else LONE_SURROGATE.search(text)
        if found is None:
            return ""
        byte = found[0].encode("utf-8", "surrogateescape")
        return (
            f"is not written in {self._encoding}: it has the byte 0x{byte.hex()}. Say "
            "encoding='latin-1', for example, if the file is written so."
        )

    def _bytes_of(self, file: Path) -> Iterator[bytes]:
        number = 0
        with file.open("rb") as raw, _unpacked(raw, file) as stream:
            try:
                while line := stream.readline(LONGEST_LINE):
                    number += 1
                    if len(line) == LONGEST_LINE:
                        raise FormatError(
                            f"line {number:,} of {str(file)!r} is longer than 64 MiB; wanted is one"
                            " record a line. Is it another file?"
                        )
                    if number % LINES_BETWEEN_REPORTS == 0:
                        self._report(raw.tell())
                    yield line
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise FormatError(
                    f"{str(file)!r} is damaged after line {number:,}: {str(error).rstrip('.')}. "
                    "Its download may have broken off: get it again."
                ) from error
            self._done += raw.tell()
            self._report(0)

    def _report(self, more: int) -> None:
        if self._progress is not None:
            self._progress(self._done + more, self._size)


def _unpacked(raw: IO[bytes], file: Path) -> Any:
    """Look at the first bytes, not at the name: browsers unpack files and keep their names."""
    head = raw.read(4)
    raw.seek(0)
    if head.startswith(b"PK\x03\x04"):
        raise FormatError(f"{str(file)!r} is a zip archive. Unpack it first.")
    if head.startswith(b"\x1f\x8b"):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 18)
    return raw


def _checked_encoding(encoding: str) -> str:
    """Refuse encodings that do not exist, and those whose lines do not end in one byte."""
    try:
        fits = isinstance(encoding, str) and "\n".encode(codecs.lookup(encoding).name) == b"\n"
    except LookupError:
        fits = False
    if not fits:
        raise ParameterError(
            "`encoding` must be one that Python knows and in which a line ends with one byte, such "
            f"as 'utf-8' or 'latin-1'; got {encoding!r}. Save the file as UTF-8 otherwise."
        )
    return encoding


def raw_files(source: PathLike | Sequence[PathLike] | None, patterns: Sequence[str]) -> list[Path]:
    """Return the files meant, sorted; in a folder, those whose names fit one of the patterns.

    A file that is named is taken whatever it is called.
    """
    several = isinstance(source, Sequence) and not isinstance(source, str)
    asked: list[Any] = list(source) if several else [source]  # type: ignore[arg-type]
    if not asked or not all(isinstance(one, str | os.PathLike) for one in asked):
        raise ParameterError(
            f"`files` must be the folder of your download, a file, a pattern or a list of these; "
            f"got {source!r}. Wanted are {' or '.join(patterns)}."
        )
    paths = [os.path.expanduser(os.fspath(one)) for one in asked]
    found = [file for path in paths for file in _files_of(path, patterns)]
    return sorted({os.path.realpath(file): file for file in found}.values())


def one_file(files: Sequence[Path], what: str) -> Path:
    """Return the only file there is; refuse to choose among several."""
    if len(files) != 1:
        raise ParameterError(
            f"`files` must mean one file of {what}; got {listing([str(file) for file in files])}. "
            "Name the one you want."
        )
    return files[0]


def _files_of(path: str, patterns: Sequence[str]) -> list[Path]:
    if os.path.isdir(path):
        inside = sorted(file for file in Path(path).iterdir() if file.is_file())
        found = [f for f in inside if any(fnmatch(f.name.lower(), p.lower()) for p in patterns)]
        if not found:
            names = [file.name for file in inside]
            packed = [name for name in names if name.lower().endswith((".zip", ".tar", ".7z"))]
            hint = "Name the file if it is called other."
            hint = f"Unpack {listing(packed)} first." if packed else hint
            held = f"it holds {listing(names)}" if names else "it is empty"
            raise FileNotFoundError(
                f"folder {path!r} has no file called {' or '.join(patterns)}; {held}. {hint}"
            )
        return found
    if os.path.exists(path):
        return [Path(path)]
    files = [Path(file) for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
    if not files:
        pattern = any(sign in path for sign in "*?[")
        raise FileNotFoundError(
            f"no file matches {path!r}." if pattern else f"there is no file or folder {path!r}."
        )
    return files
