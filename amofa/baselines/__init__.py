"""Other ways to a mixture, for comparison; each gives the same kind of model as `amofa.fit`."""
