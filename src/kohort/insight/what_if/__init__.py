"""Prediction of a group's assignments after a change, computed with client-side and server-side assignors."""
