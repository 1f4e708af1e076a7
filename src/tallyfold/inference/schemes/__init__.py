"""Schemes of inference: one step of each is one iteration."""
