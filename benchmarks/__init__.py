"""The script behind every figure in the documents, a folder for each subject.

- ``times``: live times, rates and roofs, and what is concluded from them, against other timers
- ``costs``: trees, MACs and memory against published figures and other counters; what loads
- ``weights``: statistics and sensitivity of parameters
- ``training``: steps of training: their parts, backward, memory, FLOPs and overhead
- ``watching``: what watching does to a program: overhead, the GIL, viewers, signals, hours of it
- ``terminal``: what is drawn and typed: start, bytes, key to paint, every key, pictures
- ``files``: what is written: reports of every format, recordings, full disks
- ``hostile``: files, operators, frames and requests made to do harm

Beside them, about the project itself: ``house`` (how the code is divided), ``mutations`` (do the
tests notice), ``schemas`` (JSON schemas in ``docs/``) and ``versions`` (tests with other releases).
"""
