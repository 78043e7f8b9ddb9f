# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Interpreters in roots of their own, whose files are nowhere to be seen from outside: chroot,
overlay, mount, pid and user namespaces. The profiler's own namespace is test_namespaces.py's."""
import os
from pathlib import Path

import pytest

from harness import PROGRAMS, Target
from test_disguises import CASES, check_whole
from test_embedded import Library, shared_library
from test_namespaces import need, only_child

pytestmark = pytest.mark.beside

# $1: an empty directory, $2: a file that is to be in /mnt of the new root, and nowhere else.
ENTER = """set -e
root=$1 file=$2
shift 2
{make}
cp "$file" "$root/mnt"
{enter}
"""
BIND = """
mount --rbind / "$root"
mount -t tmpfs none "$root/mnt"
"""
OVERLAY = """
mount -t tmpfs none "$root"
mkdir "$root/upper" "$root/work" "$root/merged"
mount -t overlay none -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/merged"
root=$root/merged
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root{programs}"
mount --bind "{programs}" "$root{programs}"
"""
CHROOT = 'exec chroot "$root" "$@"'
PIVOT = """
cd "$root"
mkdir -p mnt/old
pivot_root . mnt/old
umount -l /mnt/old
exec "$@"
"""
MOUNT = ["--mount", "--propagation", "private"]
PID = ["--pid", "--fork", "--kill-child"]
USER = ["--user", "--map-root-user"]


def inside(directory, flags, make, enter, file):
    """A command's prefix: run in a root of its own, where alone `file` is in /mnt."""
    need(["unshare", *flags])
    script = ENTER.format(make=make.format(programs=PROGRAMS), enter=enter)
    return ["unshare", *flags, "bash", "-c", script, "bash", directory, file]


def check_contained(target, file, pid=None):
    """The process has that file, the outside has not, and its stacks are whole."""
    maps = Path("/proc/%d/maps" % (pid or target.pid)).read_text()
    mapped = {line.split()[-1] for line in maps.splitlines()}
    assert any(name.endswith(file) for name in mapped), mapped
    assert not os.path.exists(file)
    check_whole(target, pid)


def test_library_in_a_chroot(directory):
    library = shared_library("3.13")
    prefix = inside(directory, MOUNT, BIND, CHROOT, library.shared)
    env = dict(library.environment(), LD_LIBRARY_PATH="/mnt")
    with Target(library.python, "nesting.py", *CASES, prefix=prefix, env=env) as target:
        check_contained(target, "/mnt/" + os.path.basename(library.shared))


@pytest.mark.parametrize("flags, make, enter", [
    (MOUNT + PID, OVERLAY, PIVOT),
    (USER + MOUNT + PID, BIND, CHROOT),
], ids=["overlay", "user"])
def test_container(flags, make, enter, directory):
    """An executable as in a container, with its own pids, by the pid that it has here."""
    library = Library("any")
    prefix = inside(directory, flags, make, enter, library.python)
    exe = "/mnt/" + os.path.basename(library.python)
    with Target(exe, "nesting.py", *CASES, prefix=prefix, env=library.environment()) as target:
        check_contained(target, exe, only_child(target.pid))
