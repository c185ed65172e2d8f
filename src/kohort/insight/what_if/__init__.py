"""Predict the assignment of a group after a change, with the assignors of the client and the broker."""
