"""Texts on the command line: ``tallyfold convert --text COLUMN`` counts their words."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from tallyfold.cli import options
from tallyfold.cli.files import files_of
from tallyfold.cli.options import option
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor

PANEL = {"rich_help_panel": "Texts"}
TEXT = "Count the words of the texts in this column: an axis word is added to --axes."
Text = Annotated[str | None, option("COLUMN", TEXT, **PANEL)]
EXPLODE = (
    "A column with several labels each, such as authors: a list, or text that SIGN parts. "
    "Repeatable."
)
Explode = Annotated[list[str] | None, option("COLUMN[=SIGN]", EXPLODE, **PANEL)]
MIN_DF = "Keep words of at least N texts."
MinDf = Annotated[int | None, option("N", MIN_DF, min=1, **PANEL)]
MAX_WORDS = "Keep the N most frequent words."
MaxWords = Annotated[int | None, option("N", MAX_WORDS, min=1, **PANEL)]
STOP_WORDS = "Leave common English words out."
StopWords = Annotated[str | None, option("english", STOP_WORDS, **PANEL)]


class Texts(NamedTuple):
    """Which column has the texts, and how their words are counted."""

    column: str | None
    explode: list[str] | None
    min_df: int | None
    max_words: int | None
    stop_words: str | None

    def check(self) -> None:
        """Refuse options for texts where there are none."""
        if self.column is None and any(each is not None for each in self[1:]):
            raise ParameterError(
                "--explode, --min-df, --max-words and --stop-words are for texts: name their "
                "column with --text."
            )

    def counts(self, sources: Sequence[str], reading: options.Reading) -> "CountTensor":
        """Count the words of texts in files, or of a query."""
        import pyarrow as pa

        from tallyfold.data.formats.files import ending_of, read_rows
        from tallyfold.data.formats.grouped_labels import natural_labels
        from tallyfold.data.query.whole_rows import query_rows
        from tallyfold.data.tensor import CountTensor

        how = dict(reading.keywords)
        refused = [name for name in ("value", "repeated") if name in how]
        if refused or "axes" not in how:
            raise ParameterError(
                "--text needs --axes, the columns that label a text, and counts words: leave "
                "--value, --count-rows and --repeated out."
            )
        delimiter, axes = how.pop("delimiter", None), how.pop("axes")
        wanted = [name for name in axes if name != "word"] + [self.column or ""]
        with files_of(sources) as paths:
            query = reading.query, reading.database
            rows = (
                read_rows(paths, wanted, delimiter=delimiter)
                if query[0] is None
                else query_rows(query[1], query[0], wanted)
            )
            with closing(rows) as tables:
                table = pa.concat_tables(part.select(wanted) for part in tables)
            of_text = query[0] is None and ending_of(Path(paths[0])) in (".csv", ".tsv")
        lists, table = self._lists(table)
        cut = how.get("bins") or {}
        for place, name in enumerate(wanted[:-1]):
            if of_text and name not in (*lists, *cut):  # as read_counts reads such labels
                labels = natural_labels(table[name].combine_chunks())
                table = table.set_column(place, name, labels)
        counted: dict[str, Any] = {
            "min_df": self.min_df or 1, "max_words": self.max_words, "stop_words": self.stop_words
        }  # fmt: skip
        return CountTensor.from_documents(
            table, self.column or "", axes, explode=lists, **counted, **how
        )

    def _lists(self, table: Any) -> tuple[list[str], Any]:
        """Return the columns with several labels, and the table with texts of them parted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = []
        for text in self.explode or []:
            name, _, sign = text.partition("=")
            names.append(name)
            if sign and name in table.column_names:
                parts = pc.split_pattern(pc.cast(table[name], pa.string()), sign).to_pylist()
                clean = [
                    None if each is None else [label.strip() for label in each if label.strip()]
                    for each in parts
                ]
                place = table.column_names.index(name)
                table = table.set_column(place, name, pa.array(clean, pa.list_(pa.string())))
        return names, table
