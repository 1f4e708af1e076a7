"""The loop that fits every model, its checkpoints, and calibration."""
