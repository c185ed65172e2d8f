"""The client as a machine: polled for requests, given responses."""
