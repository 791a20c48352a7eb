"""``python -m venus_env``."""

from venus_env.cli import main

raise SystemExit(main())
