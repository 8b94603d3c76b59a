"""The inside of a model: its parameters and report, rows with missing cells, files, and how a fit makes it."""
