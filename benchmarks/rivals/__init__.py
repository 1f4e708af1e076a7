"""Ways to predict a count, given that there is one, that the library must beat."""
