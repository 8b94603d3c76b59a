"""Tables: checked, standardized, equal rows merged, read in chunks; frames and archives."""
