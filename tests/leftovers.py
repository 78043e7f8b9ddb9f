# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Usage: leftovers.py RUN [all]

Prints what tests could leave behind on this machine, a line each: processes that the test run RUN started
(its name is in their environment as PYPERF_RUN), mounts, network namespaces, control groups, BPF programs
and links that no process holds, and temporary files in TMPDIR, which is the run's own. scripts/run-tests
compares what is there before a kind of tests, after each program and at the end; a run within a test looks
for its own things only.
"""
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def ancestors():
    """This process and all above it: they are the run itself."""
    found, pid = set(), os.getpid()
    while pid > 1:
        found.add(pid)
        stat = Path("/proc/%d/stat" % pid).read_text(errors="replace")
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def processes(run):
    """Those whose parent has gone, or is no part of the run."""
    mark, ours = b"PYPERF_RUN=" + os.fsencode(run), ancestors()
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(directory.name)
            # A name may be any bytes.
            stat = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if pid in ours or stat[0] == "Z" or int(stat[1]) != 1:
                continue
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                argv = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield "process %d %s" % (pid, argv[:120])


def mounts():
    """In the run's own folder: others mount things, too."""
    ours = os.environ.get("TMPDIR", "/nonexistent") + "/"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if line.split()[4].startswith(ours):
            yield "mount " + line.split()[4]


def control_groups():
    """Those that tests make have names of their own; so does what is in them. Others make groups, too."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        kind = line.partition(" - ")[2].split()[0]
        if kind in ("cgroup", "cgroup2"):
            for directory, _, _ in os.walk(line.split()[4]):
                if "/pyperf-" in directory:
                    yield "control group " + directory


def held():
    """BPF programs and links to which a process has a descriptor, as "prog 1". Not every bpftool can tell."""
    found = set()
    # Path.glob() raises if a process ends before its turn.
    for descriptor in map(Path, glob.iglob("/proc/[0-9]*/fd/*")):
        with contextlib.suppress(OSError):
            if os.readlink(descriptor).startswith("anon_inode:bpf"):
                info = (descriptor.parents[1] / "fdinfo" / descriptor.name).read_text()
                found |= {"%s %s" % pair for pair in re.findall(r"^(prog|link)_id:\s+(\d+)$", info, re.MULTILINE)}
    return found


def bpf_objects():
    tool = os.environ.get("BPFTOOL") or shutil.which("bpftool") or "/usr/sbin/bpftool"
    rows, others = {}, held()
    for kind in ("prog", "link"):
        with contextlib.suppress(OSError, ValueError):
            done = subprocess.run([tool, "-j", kind, "list"], capture_output=True, timeout=30)
            for row in json.loads(done.stdout):
                rows["%s %d" % (kind, row["id"])] = row.get("name") or row.get("type", "")
    # Those that a process holds go with it, and may be somebody else's.
    others |= held()
    for thing, name in rows.items():
        if thing not in others:
            yield "BPF %s %s" % (thing, name)


def namespaces():
    for path in glob.glob("/run/netns/*"):
        yield "network namespace " + path


def files():
    for path in glob.glob(os.environ.get("TMPDIR", "/nonexistent") + "/*"):
        if not os.path.basename(path).startswith("pytest-of-"):  # pytest keeps the last three
            yield "file " + path


def main(run, what=""):
    """With "all" also what cannot be told from what others make at the same time."""
    parts = [processes(run), mounts(), files()]
    if what == "all":
        parts += [control_groups(), bpf_objects(), namespaces()]
    for found in parts:
        for thing in found:
            print(" ".join(thing.split()))


if __name__ == "__main__":
    main(*sys.argv[1:])
