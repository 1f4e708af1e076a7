"""Stores written by Spark's own operations, and fits that Spark runs as barrier jobs.

The extra ``spark`` installs what is needed: ``pip install tallyfold[spark]``, and a Java runtime.
"""

from tallyfold.spark.fitting import fit
from tallyfold.spark.writing import write_store

__all__ = ["fit", "write_store"]
