"""Tables: numbers are never cut, text gives way, titles stand above."""

import io

import pytest
from rich.console import Console

from tallyfold.cli.terminal import show_table

NUMBERS = ["1234.5678", "-9876.5432"]


def shown(width: int, title: str, columns: list[str], rows: list[list[str]]) -> list[str]:
    file = io.StringIO()
    show_table(Console(file=file, width=width, highlight=False), title, columns, rows)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [10, 40, 60, 80])
def test_numbers_are_whole_at_any_width(width):
    columns = ["who", "what", "mean>", "high>"]
    rows = [["a name that is rather long", "another of those", *NUMBERS], ["ann", "b", *NUMBERS]]
    lines = shown(width, "", columns, rows)
    assert len(lines) == 4
    assert all(number in line for line in lines[2:] for number in NUMBERS)


def test_the_widest_text_gives_way_first():
    lines = shown(40, "", ["who", "day", "n>"], [["x" * 50, "2024-06-01", "7"]])
    assert lines[-1] == "x" * 22 + "…   2024-06-01   7"
    assert len(lines[-1]) == 40


def test_a_table_that_cannot_fit_is_as_wide_as_it_has_to_be():
    row = ["a label of some length", *["12345.678"] * 5]
    lines = shown(40, "", ["label", *(f"column{n}>" for n in range(5))], [row])
    assert all(cell in lines[-1] for cell in row)


def test_a_title_wraps_at_the_width_of_the_console():
    title = "a title that is much wider than the table below"
    assert shown(30, title, ["a", "b>"], [["x", "1"]])[0].startswith("a title that is much wider")
    assert shown(80, title, ["a", "b>"], [["x", "1"]])[0] == title


def test_nothing_in_a_cell_is_markup_and_no_rows_are_no_error():
    assert shown(80, "", ["[red]a", "b>"], [["[red]x[/]", "1"]])[-1].startswith("[red]x[/]")
    assert shown(80, "t", ["a", "b>"], [])[:2] == ["t", "a   b"]
