"""Results of commands and of the console, as structs. docs/schemas has their JSON schemas."""
