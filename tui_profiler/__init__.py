"""Engine of the profiler: everything except the screens.

The probe (the only part that imports torch) loads, traces, costs and measures a model, and sends
messages. The screens (the only part that imports Textual) draw a session folded from them.
Data moves one way, and requests are the only way back:

    probe: load -> trace -> cost -> measure -> link
    wire -> source -> session -> queries -> screens

Everything between the halves is plain data, tested without either.
"""

__version__ = "0.1.0"
