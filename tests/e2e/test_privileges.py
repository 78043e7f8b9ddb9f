# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Root is not needed: the capabilities that the manual lists are enough, and what lacks is named."""
import os
import shutil

import pytest

from harness import HZ, PYPERF, Profiler, Target, find_tool

CAPS = ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "syslog"]


def run(directory, caps, *args):
    if not find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    os.chmod(directory, 0o755)
    program = shutil.copy(PYPERF, directory / "pyperf-bpf")
    sets = ",".join("+" + c for c in caps)
    profiler = Profiler("-v", "-f", "-F", HZ, "-d", 1, *args, program=program,
                        prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                "--inh-caps=-all," + sets, "--ambient-caps=-all," + sets,
                                "--bounding-set=-all," + sets])
    return profiler.wait()


def test_capabilities_are_enough(any_python, directory):
    with Target(any_python, "spinner.py", "spin_of_root") as target:
        result = run(directory, CAPS, "-p", target.pid).ok()
    assert "spin_of_root" in result.only()
    result.complete()
    assert "CAP_" not in result.stderr, result.stderr


@pytest.mark.parametrize("missing", ["sys_ptrace", "dac_read_search", "syslog"])
def test_missing_capability_is_named(missing, directory, any_python):
    # --syscalls: the kernel's names are asked for at the first kernel frame.
    with Target(any_python, "spinner.py", "spin_of_root", "--syscalls"):
        result = run(directory, [c for c in CAPS if c != missing]).ok()
    assert "CAP_" + missing.upper() in result.stderr, result.stderr


@pytest.mark.parametrize("missing", ["bpf", "perfmon"])
def test_essential_capability(missing, directory):
    result = run(directory, [c for c in CAPS if c != missing])
    assert result.status == 1
    assert "CAP_" + missing.upper() in result.messages[-1]
