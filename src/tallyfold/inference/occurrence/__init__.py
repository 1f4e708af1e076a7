"""Whether there is a count: factors with a gate, and what combinations of labels add."""
