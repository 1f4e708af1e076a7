"""The explorer: one HTML page that shows what a fitted model found."""

from tallyfold.report.explorer.page import write_report
from tallyfold.report.explorer.shown import Explorer, explore

__all__ = ["Explorer", "explore", "write_report"]
