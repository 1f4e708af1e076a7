"""Training and held-out cells as inference uses them."""
