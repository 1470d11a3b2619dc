"""``python -m screens`` in a checkout, ``python -m tui_profiler`` once installed."""

import sys

from .cli.main import main

sys.exit(main())
