"""``python -m kohort`` is the command ``kohort``."""

from kohort.cli.main import main

if __name__ == "__main__":
    main()
