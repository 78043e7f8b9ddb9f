# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Attacks of an unprivileged user, each beside another user's program that must not notice."""
import os
import stat

import harness
from conftest import as_user, TENANT


def test_kernel_log_as_perf_map(ground, beside):
    """A read of /proc/kmsg never ends, and what it takes nobody else sees."""
    with ground.tenant("kernel_log.py", namespace="user"):
        beside()


def test_leases(ground, beside):
    """The kernel holds up who opens a leased file, for 45 s each."""
    with ground.tenant("leased.py", ground.room, 20):
        beside()


def test_memory_of_fuse(ground, beside):
    """Who reads the name of this code waits for a server that does not answer, and cannot be killed."""
    place = ground.room / "mnt"
    place.mkdir()
    os.chown(place, TENANT, TENANT)
    with ground.tenant("fuse_name.py", place, namespace="mount"):
        beside()


def test_hollow_files(ground, beside):
    """Files of some KiB on disk whose sections claim 500 MiB each."""
    with ground.tenant("hollow.py", ground.room, 4):
        beside()


def test_big_perf_map(ground, beside):
    with ground.tenant("big_map.py", 100) as tenant:
        try:
            beside()
        finally:
            os.unlink("/tmp/perf-%d.map" % tenant.pid)


def test_full_table_of_mappings(ground, beside):
    """Who starts when others fill the table is named all the same."""
    with ground.tenant("mapper.py", 20, 4000, 10, 400, 20, 40, 20, 2):
        beside(late=True)


def test_planted_fifo(ground):
    """What others have put where root writes does not get the profile."""
    shared = ground.path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    fifo = shared / "profile.folded"
    harness.subprocess.run([*map(str, as_user(TENANT)), "mkfifo", fifo], check=True)
    link = shared / "link.folded"
    harness.subprocess.run([*map(str, as_user(TENANT)), "ln", "-s", "/dev/full", link], check=True)
    for path in (fifo, link):
        result = harness.profile("-d", "0.1", "-o", path)
        assert result.status == 1 and "special file" in result.stderr, result.stderr
    assert stat.S_ISFIFO(fifo.lstat().st_mode) and link.is_symlink()
