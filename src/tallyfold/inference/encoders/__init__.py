"""The default VAE-BPTF: encoders trained to predict held-out cells."""
