# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Tables of the kernel half that no user has a share of: code objects, threads, stacks and their counts.

A tenant floods each of them beside a program of another user that finds a new stack at each sample, too.
"""
import contextlib
import os

import pytest

import harness
from conftest import Beside, COMM, NEIGHBOUR

HZ = 299  # of Beside
SAMPLES = HZ * os.cpu_count()  # a second
# user/follow/object_config.c
CODES, THREADS = min(max(32 * SAMPLES, 16384), 32768), 8192
CHUNKS, CHUNK = min(max(7 * SAMPLES, 4096), 32768), 16


def many_codes(ground):
    """More functions than the table has room for, and 80 of them in each sample."""
    return ground.tenant("stacks.py", CODES + 8192, 80, 2)


def deep_stacks(ground):
    """Each sample has 56 chunks that no other one has."""
    return ground.tenant("stacks.py", 200, 900, 2)


def short_threads(ground):
    """Each of them has a wait, and so an entry."""
    return ground.tenant("short_threads.py", 2)


@pytest.mark.parametrize("attack, options, seconds, counter, least", [
    (many_codes, (), 2.0, "note_code_new", CODES),
    # Many windows: a window that is half full ends.
    (deep_stacks, (), 1.0, "frames_python", 2 * CHUNKS * CHUNK),
    (short_threads, ("-e", "wall"), 2.0, "note_tstate_scan", THREADS)],
    ids=["codes", "chunks and counts", "threads"])
def test_flooded(ground, attack, options, seconds, counter, least):
    """All samples of the neighbour are counted, complete, and named, although the table was filled more than once."""
    with attack(ground), ground.start("stacks.py", 100, 20, 1, COMM, uid=NEIGHBOUR) as neighbour:
        run = Beside(*options)
        try:
            begin = harness.cpu_seconds(neighbour.pid)
            run.watch(neighbour, seconds)
            ran = harness.cpu_seconds(neighbour.pid) - begin
            result = run.end()
        finally:
            if run.profiler.process.poll() is None:
                run.profiler.process.kill()
    assert result.counters[counter] > least, result.counters
    # Of waits there are any number. What is cut off is a marker, and so is what a thread waits for.
    stacks = [s for s in result.stacks if s.comm == COMM and not any(m.name.startswith("waits: ") for m in s.markers())]
    good = [s for s in stacks if s.leaf() and not s.markers()]
    assert harness.total(good) >= 0.99 * harness.total(stacks), "\n".join(str(s) for s in stacks if s not in good)[:2000]
    unit = 1e9 if options else HZ
    assert harness.total(good) >= 0.9 * ran * unit, (harness.total(good) / unit, ran, result.counters)
