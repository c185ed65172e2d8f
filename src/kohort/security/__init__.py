"""Who somebody is and what they may do: machines without I/O that broker and client share."""
