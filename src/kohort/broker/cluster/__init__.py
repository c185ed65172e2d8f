"""Several nodes over one storage: who leads which partition, and what one node must tell the others."""
