# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The processes of ours that touch what others own: what they have of the program that starts them."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from agent_runs import AGENT, agents, free_port, service  # noqa: F401: fixtures
from harness import PYPERF, Process, poll

pytestmark = [pytest.mark.beside, pytest.mark.skipif(os.geteuid() != 0, reason="not root")]
NAMES = "pyperf-reader", "pyperf-opener"


def workers(pid):
    """{name: pid} of those that have begun."""
    found = {}
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task)) as f:
            for child in f.read().split():
                try:
                    with open("/proc/%s/comm" % child) as comm:
                        found[comm.read().strip()] = int(child)
                except OSError:
                    pass
    return {name: found[name] for name in NAMES if name in found}


def has_in_memory(pid, text):
    """What cannot be read (of the kernel's) is left out."""
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            if end - start > 256 << 20:
                continue
            try:
                mem.seek(start)
                if text in mem.read(end - start):
                    return True
            except (OSError, ValueError, OverflowError):
                pass
    return False


def test_no_secrets_of_the_agent(agents, tmp_path):  # noqa: F811
    """The agent has its token in memory, its workers have not. Those that begin after its file was replaced are the same program."""
    program = tmp_path / "pyperf-bpf-agent"
    shutil.copy(AGENT, program)
    agent = agents("[http]\nlisten = 127.0.0.1:%d\n" % free_port(), window=60, program=program)
    token = (agent.dir / "token").read_text().strip().encode()

    def check(pids):
        for pid in pids:
            assert os.path.samestat(os.stat("/proc/%d/exe" % pid), os.stat("/proc/%d/exe" % agent.pid))
            assert not has_in_memory(pid, token)

    poll(lambda: len(workers(agent.pid)) == 2, "both workers")
    first = workers(agent.pid).values()
    assert has_in_memory(agent.pid, token)
    check(first)
    (tmp_path / "new").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "new").chmod(0o755)
    os.rename(tmp_path / "new", program)
    for pid in first:
        os.kill(pid, signal.SIGKILL)

    def are_new():
        now = workers(agent.pid).values()
        return len(now) == 2 and not set(now) & set(first)

    # A question finds out that one has ended, and is lost; a process is looked at for a while.
    while not are_new():
        with service("omega"), contextlib.suppress(AssertionError):
            poll(are_new, "new workers", 3)
    check(workers(agent.pid).values())


def test_started_by_the_dynamic_linker():
    """/proc/self/exe is the linker then."""
    headers = subprocess.run(["readelf", "-lW", PYPERF], capture_output=True, text=True, check=True).stdout
    linker = re.search(r"interpreter: (/[^]]+)\]", headers)[1]
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    with Process([sys.executable, "-c", program]) as target:
        done = subprocess.run([linker, "--library-path", "/nowhere", PYPERF, "dump", str(target.pid)],
                              capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "<module>" in done.stdout, done
