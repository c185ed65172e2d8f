"""SASL mechanisms, client side and broker side, without I/O."""
