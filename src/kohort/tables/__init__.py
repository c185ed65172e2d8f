"""Load topics into Delta and Iceberg tables, exactly once and without Spark.

Guide: docs/guides/tables.md; decision: docs/adr/0022-the-table-holds-the-offsets.md.
"""

from kohort.extras import needs

with needs("arrow", "kohort.tables"):
    from kohort.tables.delta import DeltaSink
    from kohort.tables.iceberg import IcebergSink
    from kohort.tables.load import Loaded, load
    from kohort.tables.sink import TableSink

__all__ = ["DeltaSink", "IcebergSink", "Loaded", "TableSink", "load"]
