"""The searches for the numbers of components and factors."""
