# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Root is not needed: the capabilities that the manual lists are enough, and what lacks is named."""
import contextlib
import os
import shutil
import subprocess

import pytest

from harness import HZ, PYPERF, Process, Profiler, Target, clean_environment, find_tool, share
from conftest import INTERPRETERS
from test_namespaces import loaded_libpython

pytestmark = pytest.mark.beside

CAPS = ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "syslog", "checkpoint_restore"]


def permitted(caps):
    """What to begin a command with that is to have these capabilities, and is not root's."""
    if not find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    sets = ",".join(["-all", *("+" + c for c in caps)])
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=" + sets,
            "--ambient-caps=" + sets, "--bounding-set=" + sets]


def installed(directory):
    """The program, where other users can run it."""
    os.chmod(directory, 0o755)
    return shutil.copy(PYPERF, directory / "pyperf-bpf")


def run(directory, caps, *args):
    prefix = permitted(caps)
    return Profiler("-v", "-f", "-F", HZ, "-d", 1, *args, program=installed(directory),
                    prefix=prefix).wait()


def test_capabilities_are_enough(any_python, directory):
    with Target(any_python, "spinner.py", "spin_of_root") as target:
        result = run(directory, CAPS, "-p", target.pid).ok()
    assert "spin_of_root" in result.only()
    result.complete()
    assert "CAP_" not in result.stderr, result.stderr


@pytest.mark.parametrize("missing", ["sys_ptrace", "dac_read_search", "syslog", "checkpoint_restore"])
def test_missing_capability_is_named(missing, directory, any_python):
    # --syscalls: the kernel's names are asked for at the first kernel frame.
    with Target(any_python, "spinner.py", "spin_of_root", "--syscalls"):
        result = run(directory, [c for c in CAPS if c != missing]).ok()
    assert "CAP_" + missing.upper() in result.stderr, result.stderr


@pytest.mark.parametrize("event", ["cpu-clock", "off-cpu", "gil", "wall"])
def test_no_rights(event, directory):
    """One sentence, which says what is missing."""
    result = Profiler("-e", event, "-d", 1, program=installed(directory), prefix=permitted([])).wait()
    assert result.status == 1 and not result.stacks
    assert result.stderr.count("pyperf-bpf: ") == 1 and "CAP_BPF is missing" in result.stderr, result.stderr


@contextlib.contextmanager
def upgraded(python, directory):
    """A Python whose executable and a library were replaced while it runs, as an upgrade does."""
    program, library, source = directory / "python", directory / "libspin.so", directory / "spin.c"
    shutil.copy(python, program)
    source.write_text("long spin_in_c(long n) { for (volatile long i = 0; i < n; i++) ; return n; }")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    ask = [python, "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    home = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    with Process([program, "-c", UPGRADED, library], env=clean_environment(PYTHONHOME=home)) as target:
        for path in program, library:
            (directory / "new").write_text("another version")
            os.rename(directory / "new", path)
        yield target


UPGRADED = """
import ctypes, sys, threading
spin_in_c = ctypes.CDLL(sys.argv[1]).spin_in_c
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
def calls_c():
    while threading.active_count() > 1:
        spin_in_c(ctypes.c_long(1000000))
calls_c()
"""


def test_replaced_files(any_python, directory):
    """With the rights of the agent's unit, a Python is known though its files have been replaced, and so are its libraries."""
    with upgraded(any_python, directory) as target:
        result = run(directory, CAPS, "-p", target.pid).ok()
        assert "calls_c" in result.only()
        assert share(result.stacks, lambda s: s.frames[-1].name == "spin_in_c") > 0.8
        result.complete(0.98)


def test_replaced_files_without_the_right(any_python, directory):
    """The executable can be had all the same; a library cannot, and a message says what is missing."""
    with upgraded(any_python, directory) as target:
        result = run(directory, [c for c in CAPS if c != "checkpoint_restore"], "-p", target.pid).ok()
    assert "calls_c" in result.only()
    assert "CAP_CHECKPOINT_RESTORE" in result.stderr, result.stderr


def test_libpython_out_of_reach(directory):
    """Each command says why it does not know a Python whose libpython was replaced, and what would help."""
    python = next(filter(loaded_libpython, INTERPRETERS.values()), None)
    if not python:
        pytest.skip("no Python here is linked with libpython")
    library = loaded_libpython(python)
    path = directory / os.path.basename(library)
    shutil.copy(library, path)
    program = [python, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"]
    with Process(program, env=clean_environment(LD_PRELOAD=path)) as target:
        (directory / "new").write_text("another version")
        os.rename(directory / "new", path)
        prefix = [*permitted([c for c in CAPS if c != "checkpoint_restore"]), installed(directory)]
        for command in ["check", "-p"], ["dump"], ["heap", "-p"], ["record", "-d", "1", "-p"]:
            result = subprocess.run([*prefix, *command, str(target.pid)],
                                    capture_output=True, text=True)
            text = result.stdout + result.stderr
            assert result.returncode == 1, (command, text)
            assert "(%s) was replaced or deleted" % path in text, (command, text)
            assert "CAP_CHECKPOINT_RESTORE is needed to read it" in text, (command, text)


@pytest.mark.parametrize("missing", ["bpf", "perfmon"])
def test_essential_capability(missing, directory):
    result = run(directory, [c for c in CAPS if c != missing])
    assert result.status == 1
    assert "CAP_" + missing.upper() in result.messages[-1]
