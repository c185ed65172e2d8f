"""Lets Spark find the data source by its name; everything is in kohort.spark."""
