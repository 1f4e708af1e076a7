"""What a fit leaves: factors with their uncertainty, and the distribution of a cell's count."""
