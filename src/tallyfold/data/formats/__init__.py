"""Counts from files and to files: Parquet, CSV, TSV, JSON lines, FROSTT .tns, .npz."""

from tallyfold.data.formats.files import FORMATS, read_counts, write_counts

__all__ = ["FORMATS", "read_counts", "write_counts"]
