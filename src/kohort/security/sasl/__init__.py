"""The mechanisms of SASL, both sides of each: bytes in, bytes out."""
