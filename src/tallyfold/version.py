"""The package's version: the single place that states it."""

__version__ = "0.1.0.dev0"
