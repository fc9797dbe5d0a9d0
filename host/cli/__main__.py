"""``python -m muntin.host.cli``."""

from muntin.host.cli import main

if __name__ == "__main__":
    main(prog_name="muntin")
