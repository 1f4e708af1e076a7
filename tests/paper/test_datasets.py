"""Builders of the paper's tensors, on small files in the true formats, against plain counting."""

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from tallyfold.data.demo import load_demo
from tallyfold.data.simulate import simulate
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, DroppedWarning, FormatError, ParameterError, TallyfoldError
from tallyfold.paper.datasets import DATASETS, build_dataset
from tallyfold.paper.datasets.reader import Reader
from tallyfold.paper.datasets.records import csv_records

REVIEWS = [
    {"reviewerID": "A1", "asin": "B1", "reviewText": "Funny. Really FUNNY!", "overall": 5.0,
     "unixReviewTime": 1389657600, "summary": "yes", "helpful": [0, 0]},
    {"reviewerID": "A2", "asin": "B1", "reviewText": "It&#34;s a &quot;café&quot; café, 34 times",
     "overall": 2.0, "unixReviewTime": 1389744000, "summary": "no"},
    {"reviewerID": "A2", "asin": "B2", "reviewText": "", "overall": 1.0,
     "unixReviewTime": 1389744000, "summary": "empty"},
    {"reviewerID": "A1", "asin": "B1", "reviewText": "funny comedy \\d", "overall": 3.0,
     "unixReviewTime": 1389657600, "summary": "same day"},
]  # fmt: skip

PAPERS = [
    (1, 2003, "One", "Abstract Missing", "text"),
    (2, 2004, "Two", 'Sparse "counts",\nsparse tensors\r\nof the counts.', "a,b\n" * 60_000),
    (3, 2005, "Three", "Dense naïve tensors", ""),
    (4, 2006, "Four", "Nobody wrote tensors", ""),
    (5, 1999, "Five", "Too early tensors", ""),
    (6, 2006, "Six", "of the 42", ""),
]
AUTHORS = [(10, "Çağlar Gülçehre"), (11, "Wei Wang"), (12, "Wei Wang"), (13, "李雷")]
PAPER_AUTHORS = [(2, 10), (2, 11), (2, 10), (3, 12), (3, 13), (1, 13), (5, 10), (6, 13), (99, 10)]


def cells_of(tensor: CountTensor) -> Counter[tuple[Any, ...]]:
    rows = tensor.to_frame().itertuples(index=False)
    return Counter({tuple(row)[:-1]: row[-1] for row in rows})


def words_of(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    letters = [w for w in words if len(w) >= 3 and w.isalpha()]
    return [word for word in letters if word not in ENGLISH_STOP_WORDS]


def said(tensor: CountTensor) -> list[str]:
    return [str(record) for record in tensor.dropped]


def zipped(path: Path, *members: str) -> Path:
    path.write_bytes(b"".join(gzip.compress(member.encode()) for member in members))
    return path


def json_lines(records: Iterable[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Two gzip members; the last review is a Python dict, as in older files."""
    old = repr({**REVIEWS[3], "reviewText": "X"}).replace("'X'", '"it\'s funny comedy \\d"') + "\n"
    file = tmp_path / "reviews_Amazon_Instant_Video_5.json.gz"
    return zipped(file, json_lines(REVIEWS[:2]), json_lines(REVIEWS[2:3]) + "\n" + old)


def write_csv(path: Path, head: list[str], rows: Iterable[tuple[Any, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


@pytest.fixture
def nips(tmp_path: Path) -> Path:
    folder = tmp_path / "nips-papers"
    folder.mkdir()
    head = ["id", "year", "title", "event_type", "pdf_name", "abstract", "paper_text"]
    rows = [(i, year, title, "", f"{i}.pdf", *rest) for i, year, title, *rest in PAPERS]
    write_csv(folder / "papers.csv", head, rows)
    write_csv(folder / "authors.csv", ["id", "name"], AUTHORS)
    pairs = [(n, paper, author) for n, (paper, author) in enumerate(PAPER_AUTHORS, 1)]
    write_csv(folder / "paper_authors.csv", ["id", "paper_id", "author_id"], pairs)
    return folder


def paper(identity: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "id": identity,
        "title": "A title",
        "paperAbstract": "Sparse tensors of sparse words",
        "authors": [{"name": "Ann Lee", "ids": ["7"]}],
        "venue": "ICML",
        "year": 2004,
        "sources": ["DBLP"],
        "inCitations": [],
    }
    return {**usual, **changes}


LEE, OTHER_LEE = {"name": "Ann Lee", "ids": ["7"]}, {"name": "Ann Lee", "ids": ["8"]}
CORPUS = [
    [
        paper(
            "p1",
            authors=[LEE, {"name": "Jiří Žák", "ids": [None]}, {"name": "A. Lee", "ids": ["7"]}],
        ),
        paper("p2", venue="NIPS", year=2005, authors=[OTHER_LEE], sources=["Medline"]),
        paper("p3", paperAbstract=""),
        paper("p4", authors=[]),
    ],
    [
        paper("p5", venue=""),
        {key: value for key, value in paper("p6").items() if key != "year"},
        paper("p1", venue="again"),
        paper("p7", paperAbstract="Sparse graphs", year=2005),
    ],
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number, papers in enumerate(CORPUS):
        zipped(folder / f"s2-corpus-{number:02}.gz", json_lines(papers))
    (folder / "license.txt").write_text("terms")
    return folder


# -- reviews ------------------------------------------------------------------------------------


def test_reviews_are_counted_by_user_video_and_word(reviews: Path) -> None:
    tensor = build_dataset("video-review", reviews)
    assert tensor.names == DATASETS["video-review"].axes
    assert cells_of(tensor) == Counter(
        {
            ("A1", "B1", "comedy"): 1,
            ("A1", "B1", "funny"): 3,
            ("A1", "B1", "really"): 1,
            ("A2", "B1", "café"): 2,
            ("A2", "B1", "times"): 1,
        }
    )
    assert said(tensor) == ["without a text: dropped 1 document"]
    assert tensor.axis("video").labels.to_pylist() == ["B1"]


def test_a_folder_gives_the_same_and_a_file_unpacked_by_the_browser_too(reviews: Path) -> None:
    tensor = build_dataset("video-review", reviews.parent)
    reviews.write_bytes(gzip.decompress(reviews.read_bytes()))  # the name still ends in .gz
    assert build_dataset("video-review", reviews) == tensor


def test_choices_of_words(reviews: Path) -> None:
    one = build_dataset("video-review", reviews, max_words=1)
    assert one.axis("word").labels.to_pylist() == ["funny"]
    assert "no word left in the text: dropped 1 document" in said(one)
    assert "without a cell: dropped 1 user label" in said(one)
    often = build_dataset("video-review", reviews, min_df=2, stop_words=["comedy"])
    assert often.axis("word").labels.to_pylist() == ["funny"]
    free = build_dataset("video-review", reviews, stop_words=None, max_words=None)
    assert free.axis("word").labels.to_pylist() == ["café", "comedy", "funny", "really", "times"]


def test_a_stream_of_texts_counts_as_a_frame_of_them_does(tmp_path: Path) -> None:
    vocabulary = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    records = [
        {
            "reviewerID": f"A{n % 7}",
            "asin": f"B{n % 5}",
            "reviewText": " ".join(vocabulary[(n * k) % 6] for k in range(n % 9 + 1)),
        }
        for n in range(200)
    ]
    file = tmp_path / "r.json"
    file.write_text(json_lines(records))
    frame = pd.DataFrame(records).rename(columns={"reviewerID": "user", "asin": "video"})
    wanted = CountTensor.from_documents(frame, "reviewText", ["user", "video", "word"])
    assert build_dataset("video-review", file) == wanted
    counted = Counter(
        (r["reviewerID"], r["asin"], word) for r in records for word in words_of(r["reviewText"])
    )
    assert cells_of(wanted) == counted


# -- ratings ------------------------------------------------------------------------------------

RATINGS = [
    ("A1", "B1", "5.0", 1389657600),  # 2014-01-14
    ("A1", "B1", "2.0", 1389657700),  # later on that day: this one stands
    ("A1", "B1", "3.0", 1389657650),
    ("A1", "B2", "4.0", 1389657600),
    ("A2", "B1", "1.0", 1391212800),  # 2014-02-01
]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    file = tmp_path / "ratings_Amazon_Instant_Video.csv"
    file.write_text("".join(",".join(map(str, row)) + "\n" for row in RATINGS))
    return file


def test_the_last_rating_of_a_cell_stands(ratings: Path) -> None:
    with pytest.warns(DroppedWarning, match="2 ratings were left out") as caught:
        tensor = build_dataset("video-rating", ratings)
    assert caught[0].filename == __file__
    assert cells_of(tensor) == Counter(
        {
            ("A1", "B1", "2014-01-14"): 2,
            ("A1", "B2", "2014-01-14"): 4,
            ("A2", "B1", "2014-02-01"): 1,
        }
    )
    (line,) = said(tensor)
    assert line.endswith("replaces it: dropped 2 cells (total count 8)")


def test_of_ratings_at_the_same_second_the_last_in_the_file_stands(reviews: Path) -> None:
    with pytest.warns(DroppedWarning, match="1 rating was left out"):
        tensor = build_dataset("video-rating", reviews)
    assert cells_of(tensor)["A1", "B1", "2014-01-14"] == 3
    assert cells_of(tensor)["A2", "B2", "2014-01-15"] == 1


def test_other_units_of_time_and_no_warning_without_a_repeat(tmp_path: Path) -> None:
    file = tmp_path / "ratings_x.csv"
    file.write_text("A1,B1,5.0,1389657600\nA1,B1,4.0,1391212800\n")
    tensor = build_dataset("video-rating", file, unit="month")
    assert tensor.names == ("user", "video", "month")
    assert tensor.axis("month").labels.to_pylist() == ["2014-01", "2014-02"]
    with pytest.warns(DroppedWarning):
        year = build_dataset("video-rating", file, unit="year")
    assert year.counts.tolist() == [4]


def test_ratings_in_the_order_of_2018_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "ratings_x.csv"
    file.write_text("B00ABCDEFG,A1RSDE90N6RSZF,5.0,1389657600\n")
    with pytest.raises(FormatError, match="line 1 .*columns=\\['item', 'user'"):
        build_dataset("video-rating", file)
    order = ["item", "user", "rating", "timestamp"]
    tensor = build_dataset("video-rating", file, columns=order)
    assert tensor.axis("user").labels.to_pylist() == ["A1RSDE90N6RSZF"]


def test_folders_with_two_candidates_are_not_guessed_at(ratings: Path, reviews: Path) -> None:
    with pytest.raises(ParameterError, match="one file of ratings or reviews.*Name the one"):
        build_dataset("video-rating", ratings.parent)


# -- nips ---------------------------------------------------------------------------------------


def test_abstracts_are_counted_by_author_word_and_year(nips: Path) -> None:
    tensor = build_dataset("nips", nips)
    assert tensor.names == ("author", "word", "year")
    wanted: Counter[tuple[Any, ...]] = Counter()
    labels = {10: "Çağlar Gülçehre", 11: "Wei Wang (11)", 12: "Wei Wang (12)", 13: "李雷"}
    texts = {number: (abstract, year) for number, year, _, abstract, _ in PAPERS}
    for number, author in set(PAPER_AUTHORS):
        if number in (2, 3):
            abstract, year = texts[number]
            wanted.update((labels[author], word, year) for word in words_of(abstract))
    assert cells_of(tensor) == wanted
    assert cells_of(tensor)["Çağlar Gülçehre", "sparse", 2004] == 2
    assert said(tensor) == [
        "without an abstract: dropped 1 document",
        "without an author: dropped 1 document",
        "not of the years 2003 to 2016: dropped 1 document",
        "an author listed twice counts once: dropped 1 repeated author label",
        "in paper_authors but not among the papers read: dropped 1 document",
        "no word left in the text: dropped 1 document",
        "without a cell: dropped 1 year label",
    ]


def test_years_can_be_chosen(nips: Path) -> None:
    assert build_dataset("nips", nips, years=None).axis("year").labels.to_pylist() == [
        1999, 2004, 2005,
    ]  # fmt: skip
    assert build_dataset("nips", nips, years=(2004, 2004)).shape[2] == 1
    for years in ((2005, 2004), "2004", (2004,), 2004, (2004.0, 2005)):
        with pytest.raises(ParameterError, match="`years` must be the first and the last year"):
            build_dataset("nips", nips, years=years)


def test_long_fields_are_read_and_the_limit_of_csv_is_put_back(nips: Path) -> None:
    before = csv.field_size_limit()
    assert len(PAPERS[1][4]) > before
    build_dataset(
        "nips", [nips / f"{table}.csv" for table in ("authors", "papers", "paper_authors")]
    )
    assert csv.field_size_limit() == before


def test_the_limit_of_csv_is_not_raised_while_a_reader_waits(nips: Path) -> None:
    before = csv.field_size_limit()
    columns = ("id", "abstract")
    first = csv_records(Reader([]), nips / "papers.csv", columns, tuple)
    second = csv_records(Reader([]), nips / "papers.csv", columns, tuple)
    while next(first, None) is not None and next(second, None) is not None:
        assert csv.field_size_limit() == before
    assert csv.field_size_limit() == before


def test_gzipped_tables_and_a_byte_order_mark(nips: Path) -> None:
    tensor = build_dataset("nips", nips)
    for table in ("papers", "authors"):
        file = nips / f"{table}.csv"
        file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + file.read_bytes()))
        file.rename(nips / f"{table}.csv.gz")
    assert build_dataset("nips", nips) == tensor


# -- semantic scholar -----------------------------------------------------------------------------


def test_the_corpus_is_counted_by_author_venue_word_and_year(corpus: Path) -> None:
    tensor = build_dataset("dblp", corpus)
    assert tensor.names == ("author", "venue", "word", "year")
    assert cells_of(tensor) == Counter(
        {
            (author, venue, word, year): count
            for author, venue, year, words in (
                ("Ann Lee (7)", "ICML", 2004, {"sparse": 2, "tensors": 1, "words": 1}),
                ("Jiří Žák", "ICML", 2004, {"sparse": 2, "tensors": 1, "words": 1}),
                ("Ann Lee (8)", "NIPS", 2005, {"sparse": 2, "tensors": 1, "words": 1}),
                ("Ann Lee (7)", "ICML", 2005, {"sparse": 1, "graphs": 1}),
            )
            for word, count in words.items()
        }
    )
    assert said(tensor) == [
        "without an abstract: dropped 1 document",
        "without an author: dropped 1 document",
        "without a venue: dropped 1 document",
        "without a year: dropped 1 document",
        "a paper that was read already: dropped 1 document",
        "an author listed twice counts once: dropped 1 repeated author label",
    ]


def test_one_source_some_years_and_a_pattern(corpus: Path) -> None:
    dblp = build_dataset("dblp", corpus / "s2-*.gz", source="DBLP")
    assert dblp.axis("venue").labels.to_pylist() == ["ICML"]
    assert dblp.axis("author").labels.to_pylist() == ["Ann Lee", "Jiří Žák"]
    assert "not from the source DBLP: dropped 1 document" in said(dblp)
    late = build_dataset("dblp", corpus, years=(2005, 2005))
    assert late.axis("year").labels.to_pylist() == [2005]


def test_a_sample_goes_by_the_paper_not_by_its_place(tmp_path: Path) -> None:
    papers = [paper(f"p{n}", paperAbstract=f"word{'abcdefghij'[n % 10]} x{n}") for n in range(2000)]
    papers = [{**one, "venue": f"v{n}"} for n, one in enumerate(papers)]
    first, second = tmp_path / "s2-corpus-0.json", tmp_path / "s2-corpus-1.json"
    first.write_text(json_lines(papers))
    sample = build_dataset("dblp", first, sample=0.2)
    assert 320 < sample.shape[1] < 480
    first.write_text(json_lines(papers[:1500:-1]))
    second.write_text(json_lines(papers[:1501]))
    assert build_dataset("dblp", tmp_path, sample=0.2) == sample
    assert build_dataset("dblp", tmp_path, sample=0.2, random_state=1) != sample
    drawn = [build_dataset("dblp", tmp_path, sample=0.2, random_state=None) for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert build_dataset("dblp", tmp_path, sample=1.0).shape[1] == 2000
    for share in (0, 1.5, "x", float("nan")):
        with pytest.raises(ParameterError, match="`sample` must be a share"):
            build_dataset("dblp", tmp_path, sample=share)


def test_limits_on_labels_are_applied_and_recorded(corpus: Path) -> None:
    tensor = build_dataset("dblp", corpus, top={"author": 1})
    assert tensor.axis("author").labels.to_pylist() == ["Ann Lee (7)"]
    assert any("beyond the top 1 of author" in line for line in said(tensor))


# -- what can be wrong ----------------------------------------------------------------------------

GOOD = json.dumps(REVIEWS[0])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{broken", "is not an object in JSON, nor a Python dict; got '{broken'"),
        (b"[1, 2]", "is not an object"),
        (b"{'a': __import__('os')}", "is not an object"),
        (b"[" * 100_000, "is not an object"),
        (b'{"reviewerID": "A9"}', "has no 'asin'; it has 'reviewerID'"),
        (b'{"reviewerID": "", "asin": "B"}', "must have a text as 'reviewerID'; got ''"),
        (b'{"reviewerID": 5, "asin": "B"}', "must have a text as 'reviewerID'; got 5"),
        (b'{"reviewerID": "\\ud800", "asin": "B"}', "must have valid Unicode as 'reviewerID'"),
        (b'{"reviewerID": "A", "asin": "B", "reviewText": 3}', "a text as 'reviewText'; got 3"),
        ('{"reviewerID": "Zoë", "asin": "B"}'.encode("latin-1"), "is not written in utf-8: .*0xeb"),
    ],
)
def test_a_bad_line_is_named_or_skipped(tmp_path: Path, line: bytes, message: str) -> None:
    file = tmp_path / "reviews_x.json"
    file.write_bytes(GOOD.encode() + b"\n" + line + b"\n" + GOOD.encode() + b"\n")
    with pytest.raises(FormatError, match=f"line 2 of .*{message}.*bad_lines='skip'"):
        build_dataset("video-review", file)
    tensor = build_dataset("video-review", file, bad_lines="skip")
    assert cells_of(tensor) == Counter({("A1", "B1", "funny"): 4, ("A1", "B1", "really"): 2})
    assert said(tensor) == ["a line that cannot be used: dropped 1 document"]
    file.write_bytes(line + b"\n")
    with pytest.raises(DataError, match="no document is left.*first line that cannot be used"):
        build_dataset("video-review", file, bad_lines="skip")


def test_another_encoding_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "reviews_x.json"
    file.write_bytes('{"reviewerID": "Zoë", "asin": "B", "reviewText": "good"}'.encode("latin-1"))
    tensor = build_dataset("video-review", file, encoding="latin-1")
    assert tensor.axis("user").labels.to_pylist() == ["Zoë"]
    for encoding in ("utf-16", "klingon", 5):
        with pytest.raises(ParameterError, match="`encoding` must be one that Python knows"):
            build_dataset("video-review", file, encoding=encoding)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A1,B1,5.5,1389657600", "whole number from 1 to 5 as 'rating'; got '5.5'"),
        ("A1,B1,0,1389657600", "whole number from 1 to 5 as 'rating'"),
        ("A1,B1,nan,1389657600", "whole number from 1 to 5 as 'rating'"),
        ("user,item,rating,timestamp", "as 'rating'; got 'rating'"),
        ("A1,B1,5.0,1389657600000", "as 'timestamp'; got '1389657600000'"),
        ("A1,B1,5.0", "begins a row of 3 fields; wanted are 4"),
        (",B1,5.0,1389657600", "must have a text as 'user'"),
        ('A1,"B1"x,5.0,1389657600', "begins a row that is not CSV"),
    ],
)
def test_a_bad_rating_is_named_or_skipped(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "ratings_x.csv"
    file.write_text(f"A1,B1,5.0,1389657600\n{row}\nA2,B1,4.0,1389657600\n")
    with pytest.raises(FormatError, match=f"line 2 of .*{message}"):
        build_dataset("video-rating", file)
    tensor = build_dataset("video-rating", file, bad_lines="skip")
    assert tensor.counts.tolist() == [5, 4]
    assert said(tensor) == ["a line that cannot be used: dropped 1 document"]


def nips_with(**tables: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for table, text in tables.items():
            (folder / f"{table}.csv").write_bytes(text)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda f: (f / "authors.csv").unlink(), ParameterError, "there is no authors.csv among"),
        (nips_with(authors=b""), FormatError, "no column 'id', 'name'; it is empty"),
        (nips_with(authors=b"id,who\n"), FormatError, "no column 'name'; it has 'id', 'who'"),
        (nips_with(authors=b"id,name\n10\n"), FormatError, "line 2 of .*a row of 1 fields"),
        (nips_with(authors=b"id,name\nx,Ann\n"), FormatError, "as 'id'; got 'x'"),
        (nips_with(authors=b"id,name\n10,Ann\n"), FormatError, "line 3 .*author 11, whom"),
        (nips_with(authors=b"id,name\n10,\xff\n"), FormatError, "line 2 .*utf-8: .*0xff"),
        (nips_with(papers=b'id,year,abstract\n1,2004,"x\ny'), FormatError, "line 2 .*not CSV"),
        (nips_with(papers=b"id,year,abstract\n1,MM,x\n"), FormatError, "as 'year'; got 'MM'"),
        (
            nips_with(papers=b'id,year,abstract\n2,2004,"x\ny"\n2,2005,z\n'),
            FormatError,
            "line 4 of .*begins paper 2, which the file has already",
        ),
        (nips_with(papers=b"id,year,abstract\n"), DataError, "no document is left to count"),
        (nips_with(papers=b"PK\x03\x04rest"), FormatError, "is a zip archive. Unpack it first"),
    ],
)
def test_broken_tables(
    nips: Path, spoil: Callable[[Path], None], error: type[TallyfoldError], message: str
) -> None:
    spoil(nips)
    before = csv.field_size_limit()
    with pytest.raises(error, match=message):
        build_dataset("nips", nips)
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"authors": "Ann"}, "a list of objects with a 'name' as 'authors'; got 'Ann'"),
        ({"authors": [{"name": 5}]}, "a text as 'name'; got 5"),
        ({"year": "soon"}, "as 'year'; got 'soon'"),
        ({"venue": ["ICML"]}, "a text as 'venue'"),
        ({"id": None}, "a text as 'id'; got None"),
    ],
)
def test_broken_papers(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = tmp_path / "s2-corpus-0.json"
    file.write_text(json_lines([{**paper("p1"), **changes}]))
    with pytest.raises(FormatError, match=f"line 1 of .*{message}"):
        build_dataset("dblp", tmp_path)


def test_broken_gzip_files(reviews: Path) -> None:
    whole = reviews.read_bytes()
    for broken in (whole[:-12], whole[:60] + b"\0\0\0\0" + whole[64:]):
        reviews.write_bytes(broken)
        with pytest.raises(FormatError, match="is damaged after line .*get it again"):
            build_dataset("video-review", reviews, bad_lines="skip")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no file called papers.csv.*it is empty"):
        build_dataset("nips", tmp_path)
    (tmp_path / "archive.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(FileNotFoundError, match="Unpack 'archive.zip' first"):
        build_dataset("nips", tmp_path)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        build_dataset("video-review", tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        build_dataset("dblp", tmp_path / "*.gz")
    for files in (None, [], [5]):
        with pytest.raises(ParameterError, match="`files` must be the folder"):
            build_dataset("video-review", files)  # type: ignore[arg-type]


def test_only_stop_words(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(json_lines([{"reviewerID": "A", "asin": "B", "reviewText": "the of and"}]))
    with pytest.raises(DataError, match="no words could be counted"):
        build_dataset("video-review", file)


def test_options_are_those_of_the_dataset(reviews: Path) -> None:
    with pytest.raises(
        ParameterError, match="'video-review' has no option 'max_word'; it has 'min"
    ):
        build_dataset("video-review", reviews, max_word=5)
    with pytest.raises(ParameterError, match="`name` must be one of dblp.*Did you mean 'nips'"):
        build_dataset("nip", reviews)
    with pytest.raises(ParameterError, match="`bad_lines` must be 'error' or 'skip'"):
        build_dataset("video-review", reviews, bad_lines="ignore")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="`max_words` must be a positive integer"):
        build_dataset("video-review", reviews, max_words=0)
    with pytest.raises(ParameterError, match="`unit` must be one of"):
        build_dataset("video-rating", reviews, unit="minute")


# -- the rest -------------------------------------------------------------------------------------


def test_what_needs_no_download_and_what_cannot_be_had() -> None:
    assert DATASETS["demo"].build is load_demo
    assert build_dataset("simulated", random_state=2) == simulate.paper(random_state=2).tensor
    assert build_dataset("simulated").shape == DATASETS["simulated"].shape
    with pytest.raises(ParameterError, match="'demo' needs no files"):
        build_dataset("demo", "folder")
    with pytest.raises(DataError, match="'game' cannot be built. Proprietary"):
        build_dataset("game", "folder")


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_is_complete(name: str) -> None:
    dataset = DATASETS[name]
    assert dataset.title
    assert dataset.what.endswith(".")
    assert dataset.origin
    assert dataset.terms
    assert dataset.remarks
    assert len(dataset.shape) in (0, len(dataset.axes))
    if dataset.build is not None:
        assert f"tallyfold datasets build {name}" in dataset.steps[-1]
    if dataset.files:
        assert dataset.options


@pytest.mark.parametrize("name", ["dblp", "nips"])
def test_progress_reaches_the_end(name: str, corpus: Path, nips: Path) -> None:
    folder = {"dblp": corpus, "nips": nips}[name]
    told: list[tuple[int, int]] = []
    build_dataset(name, folder, progress=lambda done, size: told.append((done, size)))
    raw = [file for file in folder.iterdir() if file.suffix != ".txt"]
    size = sum(file.stat().st_size for file in raw)
    assert told[-1] == (size, size)
    assert told == sorted(told)
    assert len(told) >= len(raw)
