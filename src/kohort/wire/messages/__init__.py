"""The messages of the protocol, one file per family; each class serves every version of its message."""
