"""One module for each API of the broker, or for each group of related APIs."""
