"""Options of the Spark source and sink ``format("kohort")``."""
