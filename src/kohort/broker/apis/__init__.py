"""Handlers of the broker's APIs: one module for each API, or for each group of related APIs."""
