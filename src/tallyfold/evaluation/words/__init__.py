"""Do the words that a model puts together occur together."""
