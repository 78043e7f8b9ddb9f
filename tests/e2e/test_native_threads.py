# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that C code made: those that call Python, and those that Python never saw."""
import subprocess

import pytest

from harness import PROGRAMS, check_stacks, profile_target, readable, total


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "libnative_threads.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-pthread", "-o", path,
                    PROGRAMS / "native_threads.c"], check=True)
    path.parent.parent.chmod(0o755)
    return path


def check_never_seen(stacks, library):
    """Whole native stacks, in the library, and nothing of Python."""
    assert stacks
    for stack in readable(stacks):
        assert not stack.python() and not stack.markers(), stack
        root = stack.frames[0]
        # Without libc's debug file the function has no name.
        assert "clone" in root.name or (root.unnamed() and "libc" in root.file), stack
        assert "native_spin" in [f.name for f in stack.native() if f.file == library.name], stack


def test_native_threads(python, library):
    result, truth = profile_target(python, "native_threads.py", library, 3, seconds=2,
                                   options=["--threads"])
    result.complete()
    found = check_stacks(result.stacks, truth["stacks"])
    for n, stacks in found.items():
        label = truth["stacks"][n]["label"]
        assert {s.tid for s in stacks} == {truth["tids"][label]}
        for stack in stacks:
            assert "native_" + label in [f.name for f in stack.native()], stack
    check_never_seen([s for s in result.stacks if s.tid == truth["tids"]["spin"]], library)


def test_never_seen_is_not_searched(any_python, library):
    """The thread is looked for in the list of thread states once, not at each sample."""
    result, truth = profile_target(any_python, "native_threads.py", library, 1, seconds=1,
                                   options=["--threads"])
    spun = [s for s in result.stacks if s.tid == truth["tids"]["spin"]]
    check_never_seen(spun, library)
    others = total(result.stacks) - total(spun)
    assert result.counters["note_tstate_scan"] <= others + 2 < total(spun) / 2, result.counters
