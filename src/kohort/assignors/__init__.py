"""Who gets which partition: pure functions."""
