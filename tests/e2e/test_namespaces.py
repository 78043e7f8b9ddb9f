# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes in other pid and mount namespaces, and a profiler in one."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import HZ, PROGRAMS, Target, clean_environment, parse_folded, profile, profiler_argv

pytestmark = pytest.mark.beside

PIDNS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
MOUNTNS = ["unshare", "--mount", "--propagation", "private"]


def need(unshare):
    done = subprocess.run([*unshare, "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("cannot unshare: " + done.stderr.strip())


def only_child(pid):
    (child,) = Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()
    return int(child)


def test_profiler_in_a_pid_namespace(any_python):
    """-p is a pid of the caller's namespace."""
    need(PIDNS)
    done = subprocess.run([*PIDNS, any_python, "-B", str(PROGRAMS / "in_pidns.py"),
                           *profiler_argv("-v", "--glue", "-f", "-F", HZ, "-d", 1)],
                          capture_output=True, text=True, timeout=120, env=clean_environment())
    answer = json.loads(done.stdout)
    assert answer["own"] == 1 and answer["pid"] < 100, "not in a namespace of its own"
    assert answer["status"] == 0, answer["stderr"]
    leaves = {s.leaf().name for s in parse_folded(answer["stdout"]) if s.leaf()}
    assert leaves == {"spin_inside"}, answer["stdout"]


def test_target_in_a_pid_namespace(any_python):
    """A container, seen from outside, by the pid it has outside."""
    need(PIDNS)
    with Target(any_python, "spinner.py", "spin_contained", prefix=PIDNS) as target:
        pid = only_child(target.pid)
        result = profile("-f", "-F", HZ, "-d", 1, "-p", pid).ok()
    assert result.only("spin_contained") == {"spin_contained"}
    result.complete()


def test_threads_of_a_pid_namespace(any_python):
    """Thread states carry thread ids of the inner namespace."""
    need(PIDNS)
    with Target(any_python, "threads.py", prefix=PIDNS) as target:
        result = profile("-f", "-F", HZ, "-d", 2, "-p", only_child(target.pid), "--threads").ok()
        truth = target.stop()
    assert set(truth["tids"]) <= result.only()
    for stack in result.stacks:
        if stack.leaf() and stack.leaf().name in truth["names"]:
            assert stack.thread == truth["names"][stack.leaf().name]
    result.complete()


INSTALL = """set -e
mount -t tmpfs none "$1"
cp "$2" "$1/python"
[ -z "$3" ] || cp "$3" "$1/"
shift 3
exec "$@"
"""


def loaded_libpython(python):
    out = subprocess.run(["ldd", python], capture_output=True, text=True).stdout
    found = [word for word in out.split() if "/libpython" in word]
    return os.path.realpath(found[0]) if found else ""


@pytest.mark.few_pythons
def test_target_in_a_mount_namespace(python, directory):
    """The interpreter's files exist in the target's mount namespace only."""
    need(MOUNTNS)
    lib = loaded_libpython(python)
    ask = [python, "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    home = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    env = clean_environment(PYTHONHOME=home)
    prefix = [*MOUNTNS, "sh", "-c", INSTALL, "sh", str(directory), python, lib, "env"]
    # By its soname it takes the place of the one that the executable's RUNPATH finds.
    prefix += ["LD_PRELOAD=" + str(directory / os.path.basename(lib))] if lib else []
    with Target(str(directory / "python"), "nesting.py", prefix=prefix, env=env) as target:
        maps = Path("/proc/%d/maps" % target.pid).read_text()
        assert str(directory / (os.path.basename(lib) or "python")) in maps
        assert not list(directory.iterdir()), "the files are visible outside"
        result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid).ok()
    assert "spin" in result.only()
    result.complete()


def test_deleted_interpreter(any_python, directory):
    """Replaced by a package upgrade while it runs: the file is gone, the mapping is not."""
    program = directory / "python"
    shutil.copy(any_python, program)
    ask = [any_python, "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    home = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    with Target(str(program), "spinner.py", "spin_deleted",
                env=clean_environment(PYTHONHOME=home)) as target:
        program.unlink()
        result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid).ok()
    assert "spin_deleted" in result.only()
