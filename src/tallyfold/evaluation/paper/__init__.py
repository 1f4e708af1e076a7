"""The paper's experiments, on any data."""
