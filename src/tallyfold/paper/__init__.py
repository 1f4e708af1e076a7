"""The paper on VAE-BPTF, reproduced: its data sets, experiments, published figures and plots.

Nothing else in the library needs this package, which uses the library as a user would.
"""
