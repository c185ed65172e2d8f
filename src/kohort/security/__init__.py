"""Authentication, authorization and quotas, without I/O, for broker and client."""
