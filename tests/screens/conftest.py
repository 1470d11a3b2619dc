"""Apps that a pilot drives are waited for as briefly as they draw often.

For every key Textual's pilot waits twice for 20 ms in which nothing was computed, so that an
update, every 17 ms, falls into them: that was two thirds of what tests of screens took. Both are
shorter here, in the same ratio; what Textual leaves to other timers is waited for where it matters.
"""

from __future__ import annotations

import textual._wait
import textual.screen

_TIMES_AS_OFTEN = 4

textual.screen.UPDATE_PERIOD /= _TIMES_AS_OFTEN  # type: ignore[misc]  # is Final
textual._wait.SLEEP_GRANULARITY /= _TIMES_AS_OFTEN
textual._wait.SLEEP_IDLE /= _TIMES_AS_OFTEN
