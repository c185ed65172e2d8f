"""What is simulated: one broker, three nodes, copies in transactions; each with its actors and checks."""
