"""A long run of a broker and all that works with it, and whether it stays as it is: lab/tools/soak/README.md."""
