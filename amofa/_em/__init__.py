"""EM, and the factor analysis of one component."""
