"""What a fitted model does with rows."""
