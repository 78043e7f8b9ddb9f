# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads, also in native code without the GIL: the Python callers are still there."""
import re

from harness import NATIVE, PYTHON, check_stacks, profile_target, share, total

WHERE = {
    "native_pbkdf2": re.compile(r"libcrypto|_hashlib"),
    "native_zlib": re.compile(r"libz\.|zlib"),
    "native_ctypes": re.compile(r"libc[.-]"),
}


def native_leaf(stack):
    """The files of the native frames below the innermost Python frame."""
    files = []
    for frame in reversed(stack.frames):
        if frame.kind == PYTHON:
            break
        if frame.kind == NATIVE:
            files.append(frame.file)
    return files


def in_library(name):
    return lambda s: any(WHERE[name].search(f) for f in native_leaf(s))


def test_threads(python):
    result, truth = profile_target(python, "threads.py", seconds=2, options=["--threads"])
    result.complete()
    check_stacks(result.stacks, truth["stacks"])
    for name, tid in truth["tids"].items():
        of_thread = [s for s in result.stacks if s.tid == tid]
        assert of_thread, "no sample of thread " + name
        assert {s.thread for s in of_thread} == {truth["names"][name]}
        # Start-up and the frames that lead to the function aside, the thread does nothing else.
        assert share(of_thread, lambda s: s.leaf() and s.leaf().name == name) >= 0.95
        assert {"clone" in s.frames[0].name or s.frames[0].unnamed()
                for s in of_thread if not s.markers()} == {True}
        if name in WHERE:
            assert share(of_thread, in_library(name)) >= 0.9
    tid_of = {f: t for f, t in truth["tids"].items()}
    for stack in result.stacks:
        if stack.leaf() and stack.leaf().name in tid_of:
            assert stack.tid == tid_of[stack.leaf().name], stack


def test_threads_merged(any_python):
    result, truth = profile_target(any_python, "threads.py", seconds=2)
    check_stacks(result.stacks, truth["stacks"])
    assert not re.search(r"^[^;]*;thread [^;]* \(\d+\);", result.stdout, re.M)


def test_a_walk_for_one_thread_finds_others(any_python):
    """Each thread's state is its own, though most were noted on the way to another thread's."""
    result, truth = profile_target(any_python, "turns.py", 200, seconds=2, hz=1999, options=["--threads"])
    at_work = [s for s in result.stacks if s.leaf() and s.leaf().name.startswith("turn_")]
    for stack in at_work:
        assert stack.tid == truth["tids"][stack.leaf().name], stack
    assert total(at_work) > 0.5 * total(result.stacks)
    found = {s.tid for s in at_work}
    assert len(found) > 100
    assert result.counters["note_tstate_scan"] < len(found) / 2
