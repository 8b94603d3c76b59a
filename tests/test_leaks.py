"""Many fits in one process leave nothing behind: the short form of bench/leaks.py."""

from pathlib import Path

import pytest
from processes import run_python


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here")
def test_fits_leave_nothing_behind():
    script = """
    import sys, tracemalloc
    sys.path.insert(0, sys.argv[1])
    import leaks

    look, traced = leaks.measured, []

    def measured():
        found = look()
        traced.append(tracemalloc.get_traced_memory()[0])
        return found

    leaks.measured = measured
    n = len(leaks.KINDS)
    tracemalloc.start()
    first, last = leaks.run(2 * n, 4 * n)
    more = [last[name] - first[name] for name in ("objects", "threads", "files")]
    print(*more, traced[1] - traced[0], first["threads"])
    """
    bench = Path(__file__).parents[1] / "bench"
    objects, threads, files, traced, n_threads = map(int, run_python(script, bench).stdout.split())
    assert n_threads == 3
    assert (threads, files) == (0, 0)
    assert objects < 100
    # A model is some thousands of bytes at least, and there were two dozen.
    assert traced < 30_000
