"""Predict the assignment of a group after a change, by the assignors of client and broker."""
