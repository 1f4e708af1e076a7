"""Figures, and pages to explore a model with."""
