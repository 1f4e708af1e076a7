"""Models: one file each, behind one estimator."""
