"""A declared pipeline: one file, validated, run once or for ever."""
