"""Scores: how well predictions meet counts that were held out."""
