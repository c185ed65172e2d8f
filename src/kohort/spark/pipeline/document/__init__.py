"""Read a pipeline file, and say what is wrong with it and where."""
