"""What each cause, pattern and error means: the one table from which commands, findings and pages take their words."""
