# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a tenant who owns nothing but an unprivileged user tries, and what another user's profile shows beside it.

The attacking programs (programs/) run as user 65534, in a user namespace where they mount something. Each ends with
its stdin, and by an alarm.
"""
import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
E2E = Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

import harness  # noqa: E402
import owntime  # noqa: E402
from reporting import *  # noqa: E402,F403

HERE = Path(__file__).resolve().parent
TENANT, NEIGHBOUR = 65534, 65533
NAME = "neighbour_works"
COMM = "beside%d" % os.getpid()  # another run of these tests may go on
# An attack that works takes 45 s, or for ever.
SOON = 15
# Seconds in which the profiler had a CPU or waited for something else (owntime.py): until it has ended after SIGTERM, and
# from the end of a window of the agent until it is there: see "What is due" in docs/internals/trust.md.
SANITIZED = b"__asan_init" in Path(harness.PYPERF).read_bytes()  # make sanitized
ENDS, LATE = 2, 1 if SANITIZED else 0.5
# Such a build keeps what was freed, and shadows of all.
MEMORY = (1024 if SANITIZED else 64) << 20


def as_user(uid):
    return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]


class Reports:
    """What sanitizers find in any process of the profiler.

    A helper can open no file: its standard error is a FIFO (user/base/sanitized.h).
    """

    def __init__(self, place):
        self.place, self.fifo = Path(place), Path(place, "helpers")
        self.place.chmod(0o777)
        os.mkfifo(self.fifo)
        self.fifo.chmod(0o666)
        self.fd = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)

    def environment(self):
        logs = {name: "log_path=%s/%s" % (self.place, name) for name in ("asan", "ubsan")}
        # Leaks are looked for by ptrace().
        return {"ASAN_OPTIONS": "detect_leaks=0:" + logs["asan"], "PYPERF_REPORTS": str(self.fifo),
                "UBSAN_OPTIONS": "print_stacktrace=1:" + logs["ubsan"]}

    def take(self):
        """What is new."""
        text = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.fd, 1 << 16):
                text += part
        for path in sorted(self.place.iterdir()):
            if path != self.fifo:
                text += b"%s: %s\n" % (os.fsencode(path.name), path.read_bytes())
                path.unlink()
        return text.decode(errors="replace")


@pytest.fixture(autouse=True)
def reports(monkeypatch):
    """Of a build with sanitizers: at the end there is none that the test has not taken."""
    if not SANITIZED:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pyperf-reports-", dir="/tmp") as place:
        found = Reports(place)
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found
        text = found.take()
        os.close(found.fd)
    if text:
        raise harness.CertainFailure(text)


class Ground:
    """A directory that everyone may read, with copies of the programs."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.chmod(0o755)
        shared = [E2E / "programs" / name for name in ("common.py", "spinner.py", "growing.py", "blocks.py")]
        for program in [*HERE.glob("programs/*.py"), *shared]:
            shutil.copy(program, self.path)
            (self.path / program.name).chmod(0o644)
        if os.path.exists("/dev/fuse"):
            os.mknod(self.path / "fuse", 0o666 | stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
            (self.path / "fuse").chmod(0o666)
        self.room = self.path / "room"
        self.room.mkdir()
        os.chown(self.room, TENANT, TENANT)

    def start(self, program, *args, uid=TENANT, namespace=None, copy=None):
        """`namespace`: "user", of its own, or "mount": it begins as root, and does itself what a setuid program does.

        `copy`: a copy of the interpreter, beside which there may be copies of its libraries.
        """
        prefix = ["unshare", "--mount"] if namespace == "mount" else as_user(uid)
        if namespace == "user":
            prefix += ["unshare", "--user", "--map-root-user", "--mount"]
        python, env = "/usr/bin/python3", harness.clean_environment()
        if copy:
            python = copy
            env.update(PYTHONHOME="/usr", LD_LIBRARY_PATH=str(copy.parent))
        argv = [*prefix, python, "-B", self.path / program, *args]
        with open(self.path / "stderr", "ab") as err:
            return harness.Process(argv, stderr=err, cwd=self.path, env=env)

    def tenant(self, program, *args, namespace=None):
        """The attack stands; a skip if this machine does not permit it."""
        said = ""
        for _ in range(5):
            (self.path / "stderr").write_text("")
            try:
                return self.start(program, *args, namespace=namespace)
            except AssertionError as e:
                said = "%s: %s" % (e, (self.path / "stderr").read_text()[-300:])
            # Another user's process of this number has left its map, which stays when it ends.
            if "Permission denied: '/tmp/perf-" not in said:
                break
        pytest.skip(said)

    def neighbour(self, *args, copy=None):
        return self.start("spinner.py", NAME, "--comm", COMM, *args, uid=NEIGHBOUR, copy=copy)


@pytest.fixture
def ground():
    if os.geteuid() != 0:
        pytest.skip("not root")
    assert os.access(harness.PYPERF, os.X_OK), harness.PYPERF + " is not built"
    path = tempfile.mkdtemp(prefix="pyperf-attack-", dir="/tmp")
    try:
        yield Ground(path)
    finally:
        subprocess.run(["rm", "-rf", path], check=True)


def peak_memory(pid):
    for line in Path("/proc/%d/status" % pid).read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


class Beside:
    """A profile of all Python processes, beside an attack."""

    def __init__(self, *options):
        self.memory = 0
        self.profiler = harness.Profiler("-v", "-f", "-F", 299, *options)
        self.profiler.wait_sampling()

    def watch(self, neighbour, seconds):
        """Until the neighbour had that much of a CPU."""
        harness.spend(neighbour.pid, seconds)
        self.memory = max(self.memory, peak_memory(self.profiler.pid))

    def end(self):
        """The result after SIGTERM, which must not wait for anyone."""
        ending = owntime.Ending(self.profiler.pid, self.profiler.process.terminate)
        start = time.monotonic()
        while self.profiler.process.poll() is None and time.monotonic() < start + SOON:
            with contextlib.suppress(OSError):
                self.memory = max(self.memory, peak_memory(self.profiler.pid))
            time.sleep(0.01)
        took = ending.took()
        assert self.profiler.process.poll() is not None, "SIGTERM is not obeyed within %d s" % SOON
        result = self.profiler.wait().ok()
        assert took < ENDS, "SIGTERM took %.2f s" % took
        return result

    def check(self, result, late):
        stacks = [s for s in result.stacks if s.comm == COMM]
        assert harness.total(stacks) > 100, harness.total(stacks)
        # One that starts beside a full table has its Python at once, and its native stacks when others gave room.
        named = [s for s in stacks if s.leaf()]
        good = [s for s in named if not s.markers() and s.leaf().name == NAME]
        for picked, least in (named, 0.97 if late else 0.99), (good, 0.8 if late else 0.99):
            assert harness.total(picked) >= least * harness.total(stacks), "\n".join(
                str(s) for s in stacks if s not in picked)[:2000]
        assert self.memory < MEMORY, "%d MiB" % (self.memory >> 20)


@pytest.fixture
def beside(ground):
    """beside(seconds): a neighbour is profiled beside what runs already; the result, checked.

    `late`: it starts when the others are known.
    """
    with contextlib.ExitStack() as stack:
        def run(seconds=1.0, late=False, options=()):
            neighbour = None if late else stack.enter_context(ground.neighbour())
            run = Beside(*options)
            try:
                neighbour = neighbour or stack.enter_context(ground.neighbour())
                # Until it is known some samples pass, as ever; with sanitizers, which are slower, they are more.
                run.watch(neighbour, seconds * 2 if late and SANITIZED else seconds)
                result = run.end()
            finally:
                if run.profiler.process.poll() is None:
                    run.profiler.process.kill()
            run.check(result, late)
            return result

        yield run
