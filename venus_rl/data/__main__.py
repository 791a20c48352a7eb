"""``python -m venus_rl.data``."""

from venus_rl.data.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
