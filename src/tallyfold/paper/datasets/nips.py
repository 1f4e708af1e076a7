"""NIPS papers, as Kaggle has them: author x word x year of the abstracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tallyfold as tf
from tallyfold.data.summary import Dropped
from tallyfold.errors import ParameterError
from tallyfold.paper.datasets.reader import Reader, Unfit, one_file
from tallyfold.paper.datasets.records import checked_label, csv_rows, whole_number
from tallyfold.paper.datasets.texts import (
    Authors,
    StopWords,
    checked_years,
    count_texts,
    counter_of,
    repeated_authors,
)

TABLES = ("papers", "authors", "paper_authors")
NO_ABSTRACT = ("", "abstract missing")
MOST = 2**53


def build_nips(
    reader: Reader,
    files: Sequence[Path],
    *,
    years: tuple[int, int] | None = (2003, 2016),
    min_df: int | float = 1,
    max_words: int | None = 4377,
    stop_words: StopWords = "english",
) -> tf.CountTensor:
    """Count the words of abstracts; each author of a paper gets all of its words, once."""
    counter, authors = counter_of(min_df, max_words, stop_words), Authors()
    tables = {table: _file_of(table, files) for table in TABLES}
    names = dict(reader.parsed(csv_rows(reader, tables["authors"], ["id", "name"]), _author))
    texts = _texts(reader, tables, names, authors, checked_years(years))
    return count_texts(reader, texts, ["author", "word", "year"], counter, authors)


def _texts(
    reader: Reader,
    tables: dict[str, Path],
    names: dict[int, str],
    authors: Authors,
    years: tuple[int, int],
) -> Iterator[dict[str, Any]]:
    writers = _writers(reader, tables["paper_authors"], names)
    seen: set[int] = set()

    def paper(row: list[str]) -> tuple[int, int, str]:
        number, year = whole_number(row[0], "id", 0, MOST), whole_number(row[1], "year", 1, 9999)
        if number in seen:
            raise Unfit(f"begins paper {number}, which the file has already.")
        seen.add(number)
        return number, year, row[2].strip()

    rows = csv_rows(reader, tables["papers"], ["id", "year", "abstract"])
    for number, year, abstract in reader.parsed(rows, paper):
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
        author = whole_number(row[1], "author_id", 0, MOST)
        if author not in names:
            raise Unfit(f"names author {author}, whom authors.csv does not have.")
        return whole_number(row[0], "paper_id", 0, MOST), author

    writers: dict[int, dict[int, None]] = {}
    repeated = 0
    for paper, author in reader.parsed(csv_rows(reader, file, ["paper_id", "author_id"]), pair):
        known = writers.setdefault(paper, {})
        repeated += author in known
        known[author] = None
    if repeated:
        reader.record(repeated_authors(repeated))
    return writers


def _author(row: list[str]) -> tuple[int, str]:
    return whole_number(row[0], "id", 0, MOST), checked_label(row[1], "name").strip()


def _file_of(table: str, files: Sequence[Path]) -> Path:
    """Find the file of a table by its name."""
    fitting = [file for file in files if file.name.lower().split(".")[0] == table]
    if not fitting:
        raise ParameterError(
            f"`files` must hold papers.csv, authors.csv and paper_authors.csv; there is no "
            f"{table}.csv among {', '.join(file.name for file in files)}. Give the folder."
        )
    return one_file(fitting, f"{table}.csv")
