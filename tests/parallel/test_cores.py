"""How many threads there are."""

import math
import os
import threading

import numpy as np
import pytest

import amofa
from amofa._parallel import cores
from amofa.threads import single_blas_thread, use_threads


def cgroup(root, lines, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("\n".join(lines) + "\n")
    for path, text in files.items():
        file = root / "sys/fs/cgroup" / path.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("lines", "files", "quota"),
    [
        (["0::/"], {"cpu_dot_max": "150000 100000\n"}, 1.5),
        (["0::/"], {"cpu_dot_max": "max 100000\n"}, math.inf),
        # The limit of a group above holds.
        (["0::/a/b"], {"a__cpu_dot_max": "300000 100000\n", "a__b__cpu_dot_max": "max 100000\n"}, 3.0),
        # A path of the host, which is not mounted in the container.
        (["0::/docker/f00"], {"cpu_dot_max": "200000 100000\n"}, 2.0),
        (["4:memory:/a", "3:cpuset:/"], {}, math.inf),
    ],
)
def test_limits_of_control_groups(tmp_path, lines, files, quota):
    cgroup(tmp_path, lines, **files)
    assert cores.cgroup_quota(tmp_path) == quota


def test_no_control_groups(tmp_path):
    assert cores.cgroup_quota(tmp_path) == math.inf


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(cores, "_cached_quota", lambda: math.inf)
    assert cores.available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.setattr(cores, "_cached_quota", lambda: 0.5)
    assert cores.available_cores() == 1
    monkeypatch.setattr(cores, "_cached_quota", lambda: 2.9)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cores.available_cores() == 2


def test_without_affinities_all_cores_may_be_used(monkeypatch):
    """As on macOS and Windows."""
    monkeypatch.setattr(cores, "_cached_quota", lambda: math.inf)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.available_cores() == 1


@pytest.mark.parametrize(("value", "n"), [("", 8), ("0", 8), ("words", 8), ("3", 3), ("3,2", 3), ("20", 8)])
def test_openmp_limits_the_default(monkeypatch, value, n):
    monkeypatch.setattr(cores, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert cores.default_threads() == n


def test_callers_share_the_cores(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen = []
    with single_blas_thread():
        assert cores.n_threads() == 8
        other = threading.Thread(target=lambda: seen.append(cores.n_threads()))
        other.start()
        other.join()
    assert seen == [4]


def test_use_threads(monkeypatch):
    monkeypatch.setattr(cores, "default_threads", lambda: 7)
    assert cores.n_threads() == 7
    with use_threads(3):
        assert cores.n_threads() == 3
        with use_threads(None):
            assert cores.n_threads() == 3
        with use_threads(2):
            assert cores.n_threads() == 2
        assert cores.n_threads() == 3
    assert cores.n_threads() == 7


@pytest.mark.parametrize("value", [0, -1])
def test_n_threads_is_at_least_one(value):
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        amofa.fit(np.ones((5, 2)), n_threads=value)


@pytest.mark.parametrize("value", [True, 2.0, "2"])
def test_n_threads_is_a_whole_number(value):
    with pytest.raises(TypeError, match="n_threads must be a whole number"):
        amofa.fit(np.ones((5, 2)), n_threads=value)
