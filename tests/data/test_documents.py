import pandas as pd
import polars as pl
import pytest

from tallyfold import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError

PAPERS = {
    "abstract": ["The sparse tensor, a sparse tensor", "Dense matrix of the", "of the"],
    "author": [["ann", "bob"], ["bob"], ["cid"]],
    "year": [2003, 2004, 2004],
    "venue": ["x", "y", "y"],
}


@pytest.mark.parametrize("frame", [pd.DataFrame(PAPERS), pl.DataFrame(PAPERS)])
def test_each_author_gets_the_words_of_a_document(frame):
    tensor = CountTensor.from_documents(
        frame, "abstract", ["author", "year"], explode="author", stop_words="english"
    )
    assert tensor.names == ("author", "word", "year")
    cells = [tuple(row) for row in tensor.to_frame().itertuples(index=False)]
    assert cells == [
        ("ann", "sparse", 2003, 2),
        ("ann", "tensor", 2003, 2),
        ("bob", "dense", 2004, 1),
        ("bob", "matrix", 2004, 1),
        ("bob", "sparse", 2003, 2),
        ("bob", "tensor", 2003, 2),
    ]
    assert str(tensor.dropped[0]) == "no word left in the text: dropped 1 document"
    assert "cid" in tensor.axis("author").labels.to_pylist()


def test_the_word_axis_can_be_named_and_placed():
    frame = pd.DataFrame(PAPERS)
    tensor = CountTensor.from_documents(
        frame, "abstract", ["author", "venue", "token", "year"], explode="author", word_axis="token"
    )
    assert tensor.names == ("author", "venue", "token", "year")
    assert CountTensor.from_documents(frame, "abstract", ["venue"]).names == ("venue", "word")


def test_two_exploded_columns_make_every_pair():
    frame = pd.DataFrame({"text": ["word word"], "a": [["x", "y"]], "b": [[1, 2, 3]]})
    tensor = CountTensor.from_documents(frame, "text", ["a", "b"], explode=["a", "b"])
    assert tensor.nnz == 6
    assert set(tensor.counts) == {2}


def test_limits_on_words_and_an_own_vectoriser():
    from sklearn.feature_extraction.text import CountVectorizer

    frame = pd.DataFrame(PAPERS)
    few = CountTensor.from_documents(frame, "abstract", ["venue"], max_words=2)
    assert few.axis("word").labels.to_pylist() == ["sparse", "the"]
    often = CountTensor.from_documents(frame, "abstract", ["venue"], min_df=2)
    assert often.axis("word").labels.to_pylist() == ["of", "the"]
    pairs = CountVectorizer(ngram_range=(2, 2))
    tensor = CountTensor.from_documents(frame, "abstract", ["venue"], vectorizer=pairs)
    assert "sparse tensor" in tensor.axis("word").labels.to_pylist()


def test_dates_of_documents_can_be_binned():
    frame = pd.DataFrame(
        {"text": ["one", "two"], "who": ["a", "b"], "day": ["2020-01-05", "2020-02-05"]}
    )
    tensor = CountTensor.from_documents(frame, "text", ["who", "day"], bins={"day": "month"})
    assert tensor.axis("day").labels.to_pylist() == ["2020-01", "2020-02"]


def test_bad_documents():
    frame = pd.DataFrame(PAPERS)
    with pytest.raises(DataError, match="no words could be counted.*stop words"):
        CountTensor.from_documents(frame[2:], "abstract", ["venue"], stop_words="english")
    with pytest.raises(LabelError, match="no column 'title'"):
        CountTensor.from_documents(frame, "title", ["venue"])
    with pytest.raises(LabelError, match="'venue' must hold lists to be exploded"):
        CountTensor.from_documents(frame, "abstract", ["venue"], explode="venue")
    with pytest.raises(ParameterError, match="`explode` names 'author', not among the axes"):
        CountTensor.from_documents(frame, "abstract", ["venue"], explode="author")
    none = frame.assign(author=[["a"], [], ["b"]])
    with pytest.raises(LabelError, match="1 rows with no label, at row 1"):
        CountTensor.from_documents(none, "abstract", ["author"], explode="author")
    no_text = frame.assign(abstract=["x", None, "y"])
    with pytest.raises(DataError, match="1 rows without, at row 1"):
        CountTensor.from_documents(no_text, "abstract", ["venue"])
