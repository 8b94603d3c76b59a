"""The package's one warning class."""


class AmofaWarning(UserWarning):
    """A fit succeeded, but its result should be read with care: degenerate columns, or EM that did not converge."""
