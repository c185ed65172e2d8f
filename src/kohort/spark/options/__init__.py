"""Options of the source and the sink: names, values, what they mean."""
