"""Run the tests that a pipeline file declares."""
