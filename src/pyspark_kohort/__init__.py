"""Lets Spark find the data source by its name; everything is in kohort.spark."""

from kohort.spark.source import KohortDataSource as DefaultSource

__all__ = ["DefaultSource"]
