"""NIPS papers, as Kaggle has them: author x word x year of the abstracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from tallyfold.data.datasets.entry import Dataset
from tallyfold.data.datasets.labels import Authors, repeated_authors
from tallyfold.data.datasets.raw_files import one_file
from tallyfold.data.datasets.reader import Reader, Unfit
from tallyfold.data.datasets.records import checked_label, csv_rows, whole_number
from tallyfold.data.datasets.texts import StopWords, Text, checked_years, count_texts
from tallyfold.data.dropped import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError

Table = Literal["papers", "authors", "paper_authors"]
TABLES: tuple[Table, ...] = ("papers", "authors", "paper_authors")
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
) -> CountTensor:
    """Count the words of abstracts; each author of a paper gets all of its words, once."""
    tables = {table: _file_of(table, files) for table in TABLES}
    names = dict(reader.parsed(csv_rows(reader, tables["authors"], ["id", "name"]), _author))
    authors = Authors()
    texts = _texts(reader, tables, names, authors, checked_years(years))
    return count_texts(
        reader,
        texts,
        ["author", "word", "year"],
        lists=["author"],
        relabel={"author": authors.labels},
        min_df=min_df,
        max_words=max_words,
        stop_words=stop_words,
    )


def _texts(
    reader: Reader,
    tables: dict[Table, Path],
    names: dict[int, str],
    authors: Authors,
    years: tuple[int, int],
) -> Iterator[Text]:
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
            yield Text(abstract, [[authors.met(str(a), names[a]) for a in written_by], year])
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


NIPS = Dataset(
    title="NIPS papers",
    what="How often the abstracts of an author's papers use a word in a year.",
    axes=("author", "word", "year"),
    shape=(6427, 4377, 14),
    nonzeros=757_366,
    origin="Kaggle dataset benhamner/nips-papers (https://www.kaggle.com/benhamner/nips-papers)",
    terms="Read them on the Kaggle page (not repeated here); abstracts belong to their authors.",
    files=tuple(f"{table}.csv{packed}" for table in TABLES for packed in ("", ".gz")),
    steps=(
        "Download the dataset benhamner/nips-papers from Kaggle (a free account is needed).",
        "Unpack the archive: papers.csv, authors.csv and paper_authors.csv are needed.",
        "tallyfold datasets build nips FOLDER --out nips.parquet",
    ),
    remarks=(
        "The paper says neither which 14 years nor how words were chosen. Here: papers of 2003 to "
        "2016 that have an abstract, words of three or more letters without English stop words, of "
        "these the 4,377 most frequent."
    ),
    build=build_nips,
)
