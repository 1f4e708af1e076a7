"""How factors are found: the one loop, the steps it takes, stopping, checkpoints, calibration."""
