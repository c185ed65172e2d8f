"""Checks of a gathered history, one file per guarantee of Kafka."""
