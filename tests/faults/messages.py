"""What an error must be like, whatever went wrong."""

from tallyfold.errors import TallyfoldError

LONGEST = 2000


def assert_clear(error: TallyfoldError, word: str = "") -> None:
    """See that an error says something, names what it is to name, and can be read to its end."""
    assert 10 < len(str(error)) < LONGEST, str(error)[:LONGEST]
    assert word in str(error)
