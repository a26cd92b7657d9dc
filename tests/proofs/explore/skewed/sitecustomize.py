"""Put first on PYTHONPATH, this shifts the wall clock of a Python process.

By SKEW_SECONDS; or by the number in the file SKEW_FILE, which may change while the process runs.
"""

import mmap
import os
import struct
import time

_read = time.time

if path := os.environ.get("SKEW_FILE"):
    with open(path, "rb") as _file:
        _skew = mmap.mmap(_file.fileno(), 8, prot=mmap.PROT_READ)
    time.time = lambda: float(_read() + struct.unpack_from("d", _skew)[0])
else:
    _offset = float(os.environ.get("SKEW_SECONDS", "0"))
    time.time = lambda: _read() + _offset
