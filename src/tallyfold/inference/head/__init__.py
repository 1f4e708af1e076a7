"""How the count head is trained."""
