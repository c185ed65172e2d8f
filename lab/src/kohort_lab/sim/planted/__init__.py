"""Planted bugs: the negative controls of the simulator. Off in every normal run."""
