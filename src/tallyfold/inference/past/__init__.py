"""How the past leads to the next period, learned on the last periods of training counts."""
