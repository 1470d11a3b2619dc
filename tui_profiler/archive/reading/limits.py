"""Limits on reading a hostile file.

A file beyond a limit is refused, not guessed at. Each limit is several times what the largest
published models need, and all together keep reading under 512 MB of memory and 5 seconds of a free
core, which ``benchmarks/hostile/hostile_files.py`` checks.
"""

JSON_BYTES = 40 << 20
"""Of one safetensors header or index file. The format allows 100 MB; 200,000 tensors take 27 MB."""
JSON_MARKS = 3_000_000
"""Commas and opening brackets in one JSON text: each is at most one more value in memory."""
PROGRAM_BYTES = 128 << 20
"""Of the graph of an exported program. torch.export writes 1.5 MB for swin_t."""
PROGRAM_MARKS = 8_000_000
"""Commas and opening brackets in it; torch.export writes one per 24 bytes."""
CODE_MARKS = 1_000_000
"""Punctuation marks, spaces and lines in the code of a TorchScript archive, each of which can
become a node of 2 kB in the syntax tree. swin_t has 12,000."""
DEBUG_BYTES = 256 << 20
"""Of the compressed members that torch reads beside the code."""

TENSORS = 200_000
"""In one Found."""
DIMENSIONS = 64
"""Of one tensor; torch itself stops at 64."""
LARGEST_SIZE = 2**62
"""Elements or bytes of one tensor: torch's sizes are signed 64-bit numbers."""

MODULES = 200_000
"""In one Found."""
NAME_CHARACTERS = 65_536
"""Of one dotted path. A chain of 3,000 modules has paths of some 20,000 characters."""
ALL_NAMES_CHARACTERS = 64 << 20
"""Of all dotted paths together: each level of a deep tree repeats the whole path above it."""

GLOBALS = 10_000
"""Different names that the pickles of one file import."""

ZIP_ENTRIES = 200_000
ZIP_DIRECTORY_BYTES = 48 << 20
INFLATED_BYTES = 32 << 20
"""Of all compressed members that are read: only TorchScript's code is compressed."""

SHARDS = 10_000
"""Files of one directory or index."""

PICKLE_STEPS = 16_000_000
"""Opcodes of one pickle. A model of 100,000 modules has 13 million."""
PICKLE_BYTES = 320 << 20
"""Of memory for what one pickle makes, as estimated while it is read."""
TEXT_BYTES = 1 << 16
"""Of one text or bytes in a pickle; longer ones are passed over."""
INTEGER_BYTES = 64
LINE_BYTES = 4_096
"""Of one line in the pickles of protocol 0, and of the two names of a global."""
VISITS = 800_000
"""Values that a walk through one pickle comes by: a few shared ones can stand for 2**60."""
