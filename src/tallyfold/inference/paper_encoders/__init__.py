"""VAE-BPTF as in its paper: encoders trained on the evidence bound."""
