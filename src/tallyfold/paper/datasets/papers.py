"""Papers: the abstracts of NIPS, as Kaggle has them, and of Semantic Scholar's open corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tallyfold as tf
from tallyfold.data.seeds import fixed_seed
from tallyfold.data.summary import Dropped
from tallyfold.errors import ParameterError
from tallyfold.models.parameters import NONE, RANDOM_STATE, Rule, check_parameters
from tallyfold.paper.datasets import records
from tallyfold.paper.datasets.reader import Reader, Unfit, one_file
from tallyfold.paper.datasets.texts import Authors, StopWords, checked_years, count_texts

TABLES = ("papers", "authors", "paper_authors")
NO_ABSTRACT = ("", "abstract missing")
MOST = 2**53
NEEDED = ("id", "authors", "paperAbstract", "venue")
SAMPLE = Rule(
    lambda share: share is None or (isinstance(share, int | float) and 0 < share <= 1),
    "a share of the papers, above 0 and up to 1, or None",
)
SOURCE = Rule(lambda text: isinstance(text, str), "a text such as 'DBLP'") | NONE
RULES = {"sample": SAMPLE, "random_state": RANDOM_STATE, "source": SOURCE}


def build_nips(
    reader: Reader,
    files: Sequence[Path],
    *,
    years: tuple[int, int] | None = (2003, 2016),
    min_df: int | float = 1,
    max_words: int | None = 4377,
    stop_words: StopWords = "english",
) -> tf.CountTensor:
    """Count the words of NIPS abstracts: author x word x year.

    Each author of a paper gets all of its words, once.
    """
    tables, authors = {table: _file_of(table, files) for table in TABLES}, Authors()
    texts = _nips_texts(reader, tables, authors, checked_years(years))
    words = (min_df, max_words, stop_words)
    return count_texts(reader, texts, ["author", "word", "year"], words, authors)


def _nips_texts(
    reader: Reader, tables: dict[str, Path], authors: Authors, years: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    names = dict(records.csv_records(reader, tables["authors"], ["id", "name"], _author))
    writers = _writers(reader, tables["paper_authors"], names)
    seen: set[int] = set()

    def paper(row: list[str]) -> tuple[int, int, str]:
        number, year = (
            records.whole_number(row[0], "id", 0, MOST),
            records.whole_number(row[1], "year", 1, 9999),
        )
        if number in seen:
            raise Unfit(f"begins paper {number}, which the file has already.")
        seen.add(number)
        return number, year, row[2].strip()

    columns = ["id", "year", "abstract"]
    for number, year, abstract in records.csv_records(reader, tables["papers"], columns, paper):
        written_by = writers.pop(number, {})
        if not years[0] <= year <= years[1]:
            reader.leave_out(f"not of the years {years[0]} to {years[1]}")
        elif abstract.lower() in NO_ABSTRACT:
            reader.leave_out("without an abstract")
        elif not written_by:
            reader.leave_out("without an author")
        else:
            keys = [authors.met(str(number), names[number]) for number in written_by]
            yield {"text": abstract, "author": keys, "year": year}
    if writers:
        reader.record(
            Dropped("in paper_authors but not among the papers read", documents=len(writers))
        )


def _writers(reader: Reader, file: Path, names: dict[int, str]) -> dict[int, dict[int, None]]:
    """Return the authors of each paper in their order, each once."""

    def pair(row: list[str]) -> tuple[int, int]:
        author = records.whole_number(row[1], "author_id", 0, MOST)
        if author not in names:
            raise Unfit(f"names author {author}, whom authors.csv does not have.")
        return records.whole_number(row[0], "paper_id", 0, MOST), author

    writers: dict[int, dict[int, None]] = {}
    repeated = 0
    for paper, author in records.csv_records(reader, file, ["paper_id", "author_id"], pair):
        known = writers.setdefault(paper, {})
        repeated += author in known
        known[author] = None
    reader.count_repeated_authors(repeated)
    return writers


def _author(row: list[str]) -> tuple[int, str]:
    return records.whole_number(row[0], "id", 0, MOST), records.checked_label(
        row[1], "name"
    ).strip()


def _file_of(table: str, files: Sequence[Path]) -> Path:
    """Find the file of a table by its name."""
    fitting = [file for file in files if file.name.lower().split(".")[0] == table]
    if not fitting:
        raise ParameterError(
            f"`files` must hold papers.csv, authors.csv and paper_authors.csv; there is no "
            f"{table}.csv among {', '.join(file.name for file in files)}. Give the folder."
        )
    return one_file(fitting, f"{table}.csv")


Paper = dict[str, Any]
"""What a line says of a paper: a text, its labels, and its ``"id"`` and ``"sources"``."""


def build_dblp(
    reader: Reader,
    files: Sequence[Path],
    *,
    source: str | None = None,
    sample: float | None = None,
    random_state: int | None = 0,
    years: tuple[int, int] | None = None,
    min_df: int | float = 1,
    max_words: int | None = 4619,
    stop_words: StopWords = "english",
) -> tf.CountTensor:
    """Count the words of Semantic Scholar's abstracts: author x venue x word x year.

    Each author of a paper gets all of its words, once.

    ``source`` keeps papers that have it among their ``sources``; ``sample`` keeps a share of the
    papers, drawn by their ids, so that the order and the number of files make no difference.
    """
    check_parameters({"sample": sample, "random_state": random_state, "source": source}, RULES)
    sample = 1.0 if sample is None else float(sample)
    (first, last), authors, seed = checked_years(years), Authors(), fixed_seed(random_state)

    def why_not(paper: Paper) -> str | None:
        rules = {
            f"not in the random sample of {sample:g}": not _is_drawn(paper["id"], sample, seed),
            f"not from the source {source}": source is not None and source not in paper["sources"],
            "without an abstract": not paper["text"],
            "without an author": not paper["author"],
            "without a venue": not paper["venue"],
            "without a year": paper["year"] is None,
            f"not of the years {first} to {last}": not first <= (paper["year"] or first) <= last,
        }
        return next((reason for reason, fails in rules.items() if fails), None)

    axes, words = ["author", "venue", "word", "year"], (min_df, max_words, stop_words)
    return count_texts(reader, _dblp_texts(reader, files, authors, why_not), axes, words, authors)


def _is_drawn(identity: str, sample: float, seed: int) -> bool:
    digest = hashlib.blake2b(f"{seed}:{identity}".encode(), digest_size=8).digest()
    return sample == 1 or int.from_bytes(digest) < sample * 2**64


def _dblp_texts(
    reader: Reader,
    files: Sequence[Path],
    authors: Authors,
    why_not: Callable[[Paper], str | None],
) -> Iterator[dict[str, Any]]:
    seen: set[bytes] = set()
    repeated = 0
    for file in files:
        for paper in reader.parsed(reader.lines(file), _paper):
            reason = why_not(paper)
            digest = hashlib.blake2b(paper["id"].encode(), digest_size=12).digest()
            if reason is None and digest in seen:
                reason = "a paper that was read already"
            if reason is not None:
                reader.leave_out(reason)
                continue
            seen.add(digest)
            keys = dict.fromkeys(authors.met(*author) for author in paper["author"])
            repeated += len(paper["author"]) - len(keys)
            paper["author"] = [*keys]
            yield {key: paper[key] for key in ("text", "author", "venue", "year")}
    reader.count_repeated_authors(repeated)


def _paper(line: str) -> Paper:
    record = records.object_of(line, NEEDED)
    year, sources = record.get("year"), record.get("sources")
    venue = records.text_of(record, "venue")
    return {
        "id": records.checked_label(record["id"], "id"),
        "text": records.text_of(record, "paperAbstract"),
        "author": _authors(record["authors"]),
        "venue": records.checked_label(venue, "venue") if venue else "",
        "year": records.whole_number(year, "year", 1, 9999) if year else None,
        "sources": sources if isinstance(sources, list) else [],
    }


def _authors(listed: Any) -> list[tuple[str, str]]:
    """Return identity and name of each author; one without either is nobody."""
    if not isinstance(listed, list) or not all(isinstance(author, dict) for author in listed):
        raise Unfit(f"must have a list of objects with a 'name' as 'authors'; got {listed!r:.60}.")
    found = []
    for author in listed:
        ids, name = author.get("ids"), records.text_of(author, "name")
        identity = str(ids[0]) if isinstance(ids, list) and ids and ids[0] else ""
        if name or identity:
            found.append((identity, records.checked_label(name, "name") if name else ""))
    return found
