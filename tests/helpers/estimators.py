"""Options of the estimators in tests."""

# A classifier without estimates by cross-validation.
FIXED = {"pooled_rows": 10, "single_weight": 1}
