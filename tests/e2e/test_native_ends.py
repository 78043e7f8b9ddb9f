# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Stacks of native code end where they should: at the process's entry, at a thread's start."""
import shutil

import pytest

import harness


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
