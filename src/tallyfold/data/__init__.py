"""Sparse counts with labels: the container, ways in and out, splits and simulation.

Nothing here knows of models.
"""
