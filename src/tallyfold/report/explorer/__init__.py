"""The explorer: one HTML file that shows what a fitted model found."""

from tallyfold.report.explorer.page import write_report

__all__ = ["write_report"]
