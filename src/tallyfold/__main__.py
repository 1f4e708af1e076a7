"""``python -m tallyfold`` is the ``tallyfold`` command."""

from tallyfold.cli import main

if __name__ == "__main__":
    main()
