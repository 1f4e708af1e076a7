"""What components are called."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from tallyfold.errors import ParameterError
from tallyfold.posterior.component_names import (
    AxisWeights,
    automatic_names,
    checked_name,
    number_of,
    numbers_of,
    renamed,
)

SHARES = np.array([0.6, 0.4])
NAMES = ["server, host", "lines"]


def axis(mean, labels, sd=None):
    mean = np.asarray(mean, float)
    return AxisWeights(mean, np.zeros_like(mean) if sd is None else sd, pa.array(labels))


WORDS = axis(
    [[9, 0.1], [8, 0.1], [7, 0.1], [0.1, 9], [0.1, 8], [10, 10]],
    ["server", "host", "url", "lines", "indent", "the"],
)
EVEN = axis([[1, 1], [1, 1]], ["x", "y"])
PLACES = axis([[9, 0.1], [0.1, 9]], ["code", "comment"])


def test_common_labels_name_nothing_and_axes_that_do_not_tell_are_left_out():
    assert automatic_names([WORDS, EVEN], SHARES) == ["server, host", "lines, indent"]


def test_a_second_axis_that_tells_stands_beside_the_longest():
    found = automatic_names([PLACES, WORDS], SHARES)
    assert found == ["server, host (code)", "lines, indent (comment)"]


def test_words_come_before_identifiers():
    users = axis(np.tile(np.array([[9, 0.1], [0.1, 9]]), (20, 1)), [f"user {n}" for n in range(40)])
    assert automatic_names([users, WORDS], SHARES) == ["server, host", "lines, indent"]
    years = axis([[9, 0.1], [0.1, 9]], [2010, 2011])
    assert automatic_names([years, users], SHARES)[0] == "user 0, user 2"
    assert automatic_names([years, EVEN], SHARES) == ["2010", "2011"]
    months = np.tile(np.array([[9, 0.1], [0.1, 9]]), (6, 1))
    months = axis(months, [f"2024-{n + 1:02}" for n in range(12)])
    few = axis([[9, 0.1], [0.1, 9]], ["user 0", "user 1"])
    assert automatic_names([few, months], SHARES) == ["user 0", "user 1"]


def test_what_was_seen_once_names_nothing():
    sd = np.zeros((6, 2))
    sd[0, 0] = 20.0  # "server" may be strong, or not
    unsure = WORDS._replace(sd_DK=sd)
    assert automatic_names([unsure, EVEN], SHARES)[0] == "host, url"


def test_names_are_different_short_and_in_words():
    same = axis([[1, 1], [2, 2]], ["x", "y"])
    assert automatic_names([same, same], SHARES) == ["x (x) [0]", "x (x) [1]"]
    days = axis([[9, 0.1], [0.1, 9]], [dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)])
    assert automatic_names([days, EVEN], SHARES)[0] == "2024-05-01"
    long = axis([[9, 0.1], [0.1, 9]], ["x" * 99, "y"])
    assert automatic_names([long, EVEN], SHARES)[0] == "x" * 23 + "…"
    assert automatic_names([axis([[1], [2]], ["x", "y"])], np.ones(1)) == ["everything"]


def test_components_are_found_by_number_and_by_name():
    assert numbers_of([1, "server, host"], NAMES) == [1, 0]
    assert numbers_of(np.array([1]), NAMES) == [1]
    with pytest.raises(ParameterError, match=r"no component called 'line'\. Did you mean 'lines'"):
        number_of("line", NAMES)
    for wrong in (2, -1, True, 1.0, None):
        with pytest.raises(ParameterError, match=r"from 0 to 1, .*; got "):
            number_of(wrong, NAMES)
    with pytest.raises(ParameterError, match=r"component 1 \(lines\) is given twice"):
        numbers_of([1, "lines"], NAMES)
    for wrong in ("lines", 3):
        with pytest.raises(ParameterError, match=r"a list of numbers or names, such as \[3, 7\]"):
            numbers_of(wrong, NAMES)


def test_names_are_given_and_taken_back():
    given = renamed((None, None), {"lines": "text"}, NAMES)
    assert given == (None, "text")
    assert renamed(given, {1: None, 0: "net"}, NAMES) == ("net", None)
    with pytest.raises(ParameterError, match="cannot both be called 'text'"):
        renamed(given, {0: "text"}, NAMES)
    for wrong in ({}, [(0, "x")]):
        with pytest.raises(ParameterError, match="must be given by component"):
            renamed(given, wrong, NAMES)


@pytest.mark.parametrize("name", ["", " x", "7", "two\nlines", "\x1b[31m", "x" * 81, 3, True])
def test_names_that_cannot_be_read_on_a_line_are_refused(name):
    with pytest.raises(ParameterError, match="1 to 80 printable characters"):
        checked_name(name)
