"""A long run of a broker and its clients, with a check for growth: lab/tools/soak/README.md."""
