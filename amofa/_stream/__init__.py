"""What a stream is made of: a running mixture, a sample of its rows, and the look for another structure."""
