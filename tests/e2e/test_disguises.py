# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Interpreters whose files tell nothing: renamed, deleted, replaced by others, never in a
directory."""
import os
import shutil
from pathlib import Path

import pytest

from harness import HZ, PROGRAMS, Process, Profiler, Target, check_stacks, profile_work, spend
from test_embedded import Library, check_life, compile_host, shared_library
from test_nesting import check_native

pytestmark = pytest.mark.beside

# Cases of nesting.py: between them they go through all that a stack is made of.
CASES = ["everything", "special_sort", "generator_next"]


def check_result(stacks, truth, python=None):
    """Every stack is one of the true ones, from its root on, with the C code on the way. `python` is
    the file that holds the interpreter, where its name does not say so."""
    images = {role: python or name if name == truth["images"]["python"] else name
              for role, name in truth["images"].items()}
    images = {role: name and name.replace(" (deleted)", "") for role, name in images.items()}
    for n, found in check_stacks(stacks, truth["stacks"]).items():
        for stack in found:
            check_native(stack, truth["stacks"][n]["native"], images)


def check_whole(target, pid=None, python=None):
    result = profile_work(pid or target.pid, 0.6)
    result.complete()
    check_result(result.stacks, target.stop(), python)


def copy_with(old, new, file, path):
    """A copy of a file with a string changed to another one of the same length."""
    data = Path(file).read_bytes()
    assert len(old) == len(new) and old in data
    path.write_bytes(data.replace(old, new))
    path.chmod(0o755)
    return path


def environment(library, **more):
    return dict(library.environment(), **more)


def test_nothing_is_called_python(directory):
    """Neither the executable, nor the process, nor the library, by its path or its soname."""
    library = shared_library("3.13")
    soname, other = b"libpython3.13.so.1.0", b"libnothingofkind.so1"
    exe = copy_with(soname, other, library.python, directory / "worker")
    copy_with(soname, other, library.shared, directory / other.decode())
    env = environment(library, LD_LIBRARY_PATH=str(directory))
    with Target("worker", "nesting.py", *CASES, executable=exe, env=env) as target:
        check_whole(target, python=other.decode())


def test_executable_under_another_name(directory):
    library = Library("any")
    exe = Path(shutil.copy(library.python, directory / "nginx: worker process"))
    with Target(exe, "nesting.py", *CASES, env=library.environment()) as target:
        exe.unlink()
        check_whole(target)


@pytest.fixture
def installed(directory):
    """(3.13, its library in a directory of its own, an environment that makes it use that)."""
    library = shared_library("3.13")
    file = Path(shutil.copy(library.shared, directory))
    return library, file, environment(library, LD_LIBRARY_PATH=str(directory))


def test_library_deleted(installed):
    library, file, env = installed
    with Target(library.python, "nesting.py", *CASES, env=env) as target:
        file.unlink()
        check_whole(target)


@pytest.mark.parametrize("slot", ["3.12", "3.13"])
def test_library_replaced(slot, installed, directory):
    """An upgrade: those that run have the old file, those that start the new one, at the same path;
    also of another version than the path says."""
    library, file, env = installed
    successor = shared_library(slot)
    with Target(library.python, "nesting.py", *CASES, env=env) as old:
        shutil.copy(successor.shared, directory / "new")
        (directory / "new").rename(file)
        env = dict(env, PYTHONHOME=successor.vars["HOME"])
        with Target(library.python, "nesting.py", *CASES, env=env) as new:
            profiler = Profiler("-v", "-f", "-F", HZ, "--threads", "-p",
                                "%d,%d" % (old.pid, new.pid))
            profiler.wait_sampling()
            spend(old.pid, 0.6)
            spend(new.pid, 0.1)
            profiler.interrupt_group()
            result = profiler.wait().ok()
            result.complete()
            for target in old, new:
                check_result([s for s in result.stacks if s.tid == target.pid], target.stop())


RUN_FROM_MEMFD = """
import os, sys
exe, *args = sys.argv[1:]
fd = os.memfd_create("image")
os.sendfile(fd, os.open(exe, os.O_RDONLY), 0, 1 << 30)
os.execve(fd, args, os.environ)
"""


def test_run_from_memfd():
    """There never was a file."""
    library = Library("any")
    prefix = [library.python, "-c", RUN_FROM_MEMFD, library.python]
    with Target("image", "nesting.py", *CASES, prefix=prefix, env=library.environment()) as target:
        assert "memfd:image" in os.readlink("/proc/%d/exe" % target.pid)
        check_whole(target)


def test_unpacked_and_cleaned(directory):
    """As PyInstaller does it: a library below /tmp, gone together with its directory."""
    library = shared_library("3.12")
    bundle = directory / "_MEI123456"
    bundle.mkdir()
    shutil.copy(library.shared, bundle)
    exe = compile_host(directory / "app")
    argv = [exe, "--load", bundle / Path(library.shared).name, PROGRAMS / "embedded.py"]
    with Process(argv, env=library.environment()) as target:
        shutil.rmtree(bundle)
        exe.unlink()
        check_life(target, exe)
