"""Semantic Scholar's open corpus: author x venue x word x year of the abstracts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.paper.datasets.reader import Reader, Unfit
from tallyfold.paper.datasets.records import checked_label, object_of, text_of, whole_number
from tallyfold.paper.datasets.texts import (
    Authors,
    StopWords,
    checked_years,
    count_texts,
    counter_of,
    repeated_authors,
)

NEEDED = ("id", "authors", "paperAbstract", "venue")


class Paper(NamedTuple):
    """What a line says of a paper."""

    identity: str
    abstract: str
    authors: list[tuple[str, str]]
    venue: str
    year: int | None
    sources: Sequence[Any]


def build_dblp(
    reader: Reader,
    files: Sequence[Path],
    *,
    source: str | None = None,
    sample: float | None = None,
    random_state: int = 0,
    years: tuple[int, int] | None = None,
    min_df: int | float = 1,
    max_words: int | None = 4619,
    stop_words: StopWords = "english",
) -> tf.CountTensor:
    """Count the words of abstracts; each author of a paper gets all of its words, once.

    ``source`` keeps papers that have it among their ``sources``; ``sample`` keeps a share of the
    papers, drawn by their ids, so that the order and the number of files make no difference.
    """
    counter, authors = counter_of(min_df, max_words, stop_words), Authors()
    texts = _texts(reader, files, authors, _Wanted(source, sample, random_state, years))
    return count_texts(reader, texts, ["author", "venue", "word", "year"], counter, authors)


def _texts(
    reader: Reader, files: Sequence[Path], authors: Authors, wanted: _Wanted
) -> Iterator[dict[str, Any]]:
    seen: set[bytes] = set()
    repeated = 0
    for file in files:
        for paper in reader.parsed(reader.lines(file), _paper):
            reason = wanted.why_not(paper)
            digest = hashlib.blake2b(paper.identity.encode(), digest_size=12).digest()
            if reason is None and digest in seen:
                reason = "a paper that was read already"
            if reason is not None:
                reader.leave_out(reason)
                continue
            seen.add(digest)
            keys = dict.fromkeys(authors.met(*author) for author in paper.authors)
            repeated += len(paper.authors) - len(keys)
            labels = {"author": list(keys), "venue": paper.venue, "year": paper.year}
            yield {"text": paper.abstract, **labels}
    if repeated:
        reader.record(repeated_authors(repeated))


class _Wanted:
    """Which papers to keep, and why a paper is not."""

    def __init__(self, source: str | None, sample: float | None, seed: int, years: Any) -> None:
        if sample is not None and not (isinstance(sample, int | float) and 0 < sample <= 1):
            raise ParameterError(
                f"`sample` must be a share of the papers, above 0 and up to 1; got {sample!r}."
            )
        if type(seed) is not int or seed < 0:
            raise ParameterError(f"`random_state` must be an integer from 0 on; got {seed!r}.")
        if source is not None and not isinstance(source, str):
            raise ParameterError(
                f"`source` must be a text such as 'DBLP', or None; got {source!r}."
            )
        self.source, self.sample = source, 1.0 if sample is None else float(sample)
        self.seed, self.years = seed, checked_years(years)

    def why_not(self, paper: Paper) -> str | None:
        first, last = self.years
        rules = (
            (not self._drawn(paper.identity), f"not in the random sample of {self.sample:g}"),
            (
                self.source is not None and self.source not in paper.sources,
                f"not from the source {self.source}",
            ),
            (not paper.abstract, "without an abstract"),
            (not paper.authors, "without an author"),
            (not paper.venue, "without a venue"),
            (paper.year is None, "without a year"),
            (not first <= (paper.year or first) <= last, f"not of the years {first} to {last}"),
        )
        return next((reason for fails, reason in rules if fails), None)

    def _drawn(self, identity: str) -> bool:
        if self.sample == 1.0:
            return True
        digest = hashlib.blake2b(f"{self.seed}:{identity}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) < self.sample * 2**64


def _paper(line: str) -> Paper:
    record = object_of(line, NEEDED)
    year, sources = record.get("year"), record.get("sources")
    venue = text_of(record, "venue")
    return Paper(
        checked_label(record["id"], "id"),
        text_of(record, "paperAbstract"),
        _authors(record["authors"]),
        checked_label(venue, "venue") if venue else "",
        whole_number(year, "year", 1, 9999) if year else None,
        sources if isinstance(sources, list) else [],
    )


def _authors(listed: Any) -> list[tuple[str, str]]:
    """Return identity and name of each author; one without either is nobody."""
    if not isinstance(listed, list) or not all(isinstance(author, dict) for author in listed):
        raise Unfit(f"must have a list of objects with a 'name' as 'authors'; got {listed!r:.60}.")
    found = []
    for author in listed:
        ids, name = author.get("ids"), text_of(author, "name")
        identity = str(ids[0]) if isinstance(ids, list) and ids and ids[0] else ""
        if name or identity:
            found.append((identity, checked_label(name, "name") if name else ""))
    return found
