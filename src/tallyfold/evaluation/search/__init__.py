"""Parameters and the number of components, chosen by held-out scores."""
