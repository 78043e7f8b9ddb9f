# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Stacks of native code end where they should: at the process's entry, at a thread's start."""
import shutil

import pytest

import harness

pytestmark = pytest.mark.beside


def test_process_start():
    """Programs that do little else but start: the dynamic linker's _start has no unwind rows."""
    if not shutil.which("sh"):
        pytest.skip("sh is not installed")
    loop = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"
    result = harness.profile("-f", "-a", "-F", 4999, "--no-kernel", "--", "sh", "-c", loop).ok()
    # By the file alone: without its debug file the dynamic linker's _start has no name.
    starting = [s for s in result.stacks if "ld-" in (s.frames[0].file or "")]
    assert starting, "no sample in the dynamic linker's start"
    broken = [s for s in result.stacks
              if any(m.name.startswith("no-unwind-info ld-") for m in s.markers())]
    assert harness.total(broken) <= 0.05 * harness.total(starting) + 2, "\n".join(
        map(str, broken[:5]))
    # Of those that live for half a millisecond, many are sampled before they are analysed.
    known = result.counters["user_stacks"] - result.counters["note_pending"]
    assert result.counters["complete"] >= 0.98 * known, result.counters


LIBRARY = """
volatile long sink;
long inner(long n) { while (n--) sink += n; return sink; }
long outer(long n) { return inner(n) + 1; }
"""
CALLER = """
import ctypes, sys, threading
lib = ctypes.CDLL(sys.argv[1])
lib.outer(ctypes.c_long(1000))
threading.Thread(target=lambda: sys.stdin.read(), name="end").start()
print("ready", flush=True)
while threading.active_count() > 1:
    lib.outer(ctypes.c_long(3000000))
"""


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "no-rows"])
def test_what_was_jumped_over_is_not_complete(any_python, directory, rows):
    """Without rows for inner(), nobody knows that outer() called it: the next that is sure is Python."""
    (directory / "lib.c").write_text(LIBRARY)
    flags = "asynchronous-unwind-tables", "unwind-tables", "exceptions"
    harness.compile_c(directory / "lib.so", directory / "lib.c", "-shared", "-fPIC", "-O1",
                      "-fomit-frame-pointer", "-fno-inline", "-fno-optimize-sibling-calls",
                      *("-f%s%s" % ("" if rows else "no-", flag) for flag in flags))
    with harness.Process([any_python, "-c", CALLER, directory / "lib.so"]) as process:
        result = harness.profile_work(process.pid, 1, "--no-kernel", "-v").ok()
    inner = [s for s in result.stacks if s.frames[-1].text == "inner [lib.so]"]
    assert harness.share(result.stacks, lambda s: s in inner) > 0.9, harness.readable(result.stacks)
    assert harness.share(inner, lambda s: "outer [lib.so]" in str(s)) == rows
    share = result.counters["complete"] / result.counters["user_stacks"]
    assert share > 0.95 if rows else share < 0.1, result.counters
