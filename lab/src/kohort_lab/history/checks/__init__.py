"""What is looked for when a history has been gathered: one file for each thing that Kafka promises."""
