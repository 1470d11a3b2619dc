"""What NVML answers, in words: why a figure is missing, and what holds a clock down.

Source: NVIDIA, NVML API Reference Guide, ``nvmlReturn_t`` and ``nvmlClocksEventReasons``.
"""

from __future__ import annotations

from tui_profiler.messages import Unknown

# nvmlReturn_t. Written down here, since pynvml is imported only where there is a driver.
UNINITIALIZED, NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED = 1, 3, 6, 9
FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH = 13, 15, 16, 18
ARGUMENT_VERSION, DEPRECATED = 25, 26

NO_DRIVER = Unknown("no NVIDIA driver on this machine")
OLD_DRIVER = Unknown("this NVIDIA driver does not report it")

_REASONS = {
    UNINITIALIZED: "the NVIDIA driver was lost",
    2: "no GPU with this index",
    NOT_SUPPORTED: "this GPU does not report it",
    4: "no permission to read it",
    NOT_FOUND: "the NVIDIA driver has none",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    12: NO_DRIVER.reason,
    FUNCTION_NOT_FOUND: OLD_DRIVER.reason,
    GPU_IS_LOST: "the GPU was lost",
    RESET_REQUIRED: "the GPU needs a reset",
    VERSION_MISMATCH: "the NVIDIA driver and its library differ in version",
}

# Not held down: 0x1 is idle. 0x8 (hardware slowdown) is the sum of 0x40 and 0x80 on GPUs that tell
# them apart, and is left out where one of them is set.
_HARDWARE_SLOWDOWN, _HARDWARE_CAUSES, _IDLE = 0x8, 0x40 | 0x80, 0x1
_THROTTLES = {
    0x2: "clock setting",
    0x4: "power limit",
    _HARDWARE_SLOWDOWN: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature",
    0x40: "temperature, by hardware",
    0x80: "power brake",
    0x100: "display clock",
    0x200: "board limit",
    0x400: "reliability",
}


def reason(error: Exception) -> Unknown:
    """Say why a call failed.

    Args:
        error: a ``pynvml.NVMLError``.
    """
    code: int = getattr(error, "value", 0)
    return Unknown(_REASONS.get(code) or f"NVML error {code}: {error}")


def reason_of_code(code: int) -> Unknown:
    """Say why one value of several in an answer is missing."""
    return Unknown(_REASONS.get(code) or f"NVML error {code}")


def throttles(answer: int | Unknown) -> str:
    """Put the reasons that hold the clock down into words; an idle GPU is not held down."""
    if isinstance(answer, Unknown):
        return ""
    reasons = answer & ~_IDLE
    if reasons & _HARDWARE_CAUSES:
        reasons &= ~_HARDWARE_SLOWDOWN
    words = [word for bit, word in _THROTTLES.items() if reasons & bit]
    unnamed = reasons & ~sum(_THROTTLES)
    if unnamed:
        words.append(f"reason {unnamed:#x}")
    return ", ".join(words)
