"""Groups of KIP-848: the coordinator assigns, and moves each member by itself."""
