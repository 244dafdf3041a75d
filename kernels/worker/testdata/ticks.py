"""ticks.py FILE runs a worker with a clock that advances at each reading, by a power of two of a second."""

import itertools
import runpy
import sys
import time

ticks = itertools.count()
time.perf_counter = lambda: next(ticks) / (1 << 18)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
