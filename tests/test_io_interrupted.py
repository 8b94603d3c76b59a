"""A save that is killed, or finds the disk full: the file that was there is whole, and the next save finds its way."""

import os
import sys
import textwrap

import pytest
from processes import run_python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals and limits here")

# ---- killed ----------------------------------------------------------------------------------------------------------

MODELS = """
import builtins, io, os, signal, sys, time
import numpy as np
import amofa

D = 2000

def model(i):
    of_all = np.full((D, 3), float(i))
    return amofa.MixtureOfFactorAnalyzers([1.0], of_all[:, :1].T, [of_all], np.ones((1, D)))

def number_of(path):
    found = amofa.load(path)
    number = int(found.means[0, 0])
    assert (found.means == number).all() and (found.loadings[0] == number).all()
    return number

def left_by_a_kill(path):
    others = [name for name in os.listdir(os.path.dirname(path)) if name != os.path.basename(path)]
    assert len(others) <= 1 and all(name.startswith(".amofa-") and name.endswith(".tmp") for name in others), others
    # Whatever it is, it is in nobody's way.
    model(3).save(path)
    assert number_of(path) == 3
    for name in others:
        os.unlink(os.path.join(os.path.dirname(path), name))
    return len(others)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_kill_at_any_call_of_the_system_leaves_a_whole_file(tmp_path):
    """Before and after each of them, and after half of what is written."""
    script = """
    path = sys.argv[1]
    original = builtins.open
    left = [0]

    def step():
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

    def watched(function):
        def call(*arguments, **options):
            step()
            result = function(*arguments, **options)
            step()
            return result
        return call

    class File(io.FileIO):
        def write(self, data):
            step()
            data = memoryview(data).cast("B")
            half = super().write(data[: len(data) // 2])
            os.fsync(self.fileno())
            step()
            return half + super().write(data[half:])

    def opened(file, mode="r", *arguments, **options):
        if "amofa-" not in str(file):
            return original(file, mode, *arguments, **options)
        step()
        return io.BufferedRandom(File(file, "x+"))

    def save_and_die(number):
        left[0], builtins.open = number, opened
        for name in ("fsync", "replace", "unlink", "chmod"):
            setattr(os, name, watched(getattr(os, name)))
        model(2).save(path)
        os._exit(0)

    found, number, code, n_left = [], 0, 9, 0
    while code == 9:
        model(1).save(path)
        child = os.fork()
        if child == 0:
            save_and_die(number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found.append(number_of(path))
        n_left += left_by_a_kill(path)
        number += 1
    # The old one up to some moment, and then the new one.
    assert code == 0 and found == sorted(found) and set(found) == {1, 2}, (code, found)
    print(number, n_left)
    """
    n_points, n_left = map(int, run_python(MODELS + textwrap.dedent(script), tmp_path / "model.npz").stdout.split())
    assert n_points > n_left > 20


# ---- a full disk -----------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path):
    """Whatever fits before there is an end; a limit to the size of files is what every user can set."""
    script = """
    import resource, signal
    path = sys.argv[1]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    model(1).save(path)
    size = os.path.getsize(path)
    before = open(path, "rb").read()
    endings = []
    for limit in [0, 1, 100, 4096, 8192, size // 2, size - 30_000, size - 100, size - 1, size]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            model(2).save(path)
            endings.append("saved")
        except OSError as error:
            assert error.filename == path, error
            endings.append(error.errno)
            assert open(path, "rb").read() == before
        assert os.listdir(os.path.dirname(path)) == ["model.npz"]
    assert amofa.load(path).means[0, 0] == 2
    print(*endings)
    """
    process = run_python(MODELS + textwrap.dedent(script), tmp_path / "model.npz")
    assert process.stdout.split() == ["27"] * 9 + ["saved"]
