"""The sandbox of a worker that opens a file without ``--trust``.

It is Landlock, a system call filter, and the broker, the one process that stays outside.
``confinement`` is the face: who is confined, when, and what the user is told. ``docs/sandbox.md``.
"""
