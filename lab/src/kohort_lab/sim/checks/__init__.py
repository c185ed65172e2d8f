"""What must hold after every event."""
