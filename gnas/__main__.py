"""``python -m gnas`` is ``gnas``."""

from gnas.cli import main

if __name__ == "__main__":
    main()
