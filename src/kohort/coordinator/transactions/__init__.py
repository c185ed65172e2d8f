"""Transaction coordinator: states, transitions and records of transactional ids."""
