"""Put first on PYTHONPATH, this shifts the wall clock of a Python process by SKEW_SECONDS."""

import os
import time

_read, _offset = time.time, float(os.environ.get("SKEW_SECONDS", "0"))
time.time = lambda: _read() + _offset
