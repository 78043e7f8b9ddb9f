# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Which processes are sampled, and what a stack shows."""
import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from harness import HZ, PROGRAMS, Profiler, Target, poll, profile, profile_target, total

pytestmark = pytest.mark.beside


@pytest.fixture
def spin(any_python):
    """spin(NAME, ...) starts a process that spins in a function of that name."""
    with contextlib.ExitStack() as stack:
        yield lambda *args: stack.enter_context(Target(any_python, "spinner.py", *args))


def test_several_pids(spin):
    a, b, _ = spin("spin_a"), spin("spin_b"), spin("spin_c")
    for pids in (["-p", "%d,%d" % (a.pid, b.pid)], ["-p", a.pid, "-p", b.pid]):
        result = profile("-f", "-F", HZ, "-d", 1, *pids).ok()
        assert result.only("spin_a", "spin_b") == {"spin_a", "spin_b"}
        assert result.counters["filtered_target"] > 0


def test_pid_beside_a_command(spin, any_python):
    a, _ = spin("spin_a"), spin("spin_b")
    code = "def of_command(x=1):\n    for i in range(9000000): x = (x * 31 + i) & 0xffff\nof_command()"
    result = profile("-f", "-F", HZ, "-p", a.pid, "--", any_python, "-c", code).ok()
    names = result.only("spin_a", "of_command")
    assert "spin_b" not in names


def test_default_is_every_python(spin):
    spin("spin_a"), spin("spin_b")
    result = profile("-f", "-F", HZ, "-d", 1).ok()
    result.only("spin_a", "spin_b")


def test_comm(spin):
    spin("spin_x", "--comm", "pyt-xa"), spin("spin_y", "--comm", "pyt-ya")
    spin("spin_z", "--comm", "pyt-z [b]")
    for glob, names in (("pyt-x*", {"spin_x"}), ("pyt-?a", {"spin_x", "spin_y"}),
                        ("pyt-[!x]*", {"spin_y", "spin_z"}), ("*[[]b]", {"spin_z"}),
                        ("pyt-xa", {"spin_x"}), ("yt-*", set())):
        result = profile("-f", "-F", HZ, "-d", 0.5, "--comm", glob).ok()
        assert result.only(*names) == names, glob
        assert {s.comm for s in result.stacks} <= {"pyt-xa", "pyt-ya", "pyt-z [b]"}
        assert result.counters["filtered_comm"] > 0


def test_without_children(any_python):
    result, _ = profile_target(any_python, "family.py", seconds=2, options=["--no-children"])
    names = {f.name for s in result.stacks for f in s.python()}
    assert "parent_work" in names and not names & {"child_work", "elder_work"}


@pytest.mark.parametrize("options", [[], ["--children"]])
def test_children(any_python, options):
    result, _ = profile_target(any_python, "family.py", seconds=2, options=options)
    names = {f.name for s in result.stacks for f in s.python()}
    assert {"parent_work", "child_work", "elder_work"} <= names
    result.complete()


WRAPPERS = {"sh": ["sh", "-c", '"$@"; true', "sh"], "timeout": ["timeout", "600"],
            "two": ["sh", "-c", 'timeout 600 "$@"; true', "sh"]}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_wrapper(any_python, wrapper):
    """The number of what has started the program: `sh -c`, timeout, and so on."""
    with Target(any_python, "spinner.py", "spin_inside", prefix=wrapper) as target:
        assert os.readlink("/proc/%d/exe" % target.pid) != os.path.realpath(any_python)
        result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid).ok()
        assert "spin_inside" in result.only("spin_inside")
        alone = Profiler("-d", 1, "--no-children", "-p", target.pid).wait()
        assert alone.status == 1 and "is not Python" in alone.stderr, alone.stderr
        assert len(alone.messages) == 1


def test_one_that_has_ended():
    """Nobody has waited for it, so its number is still there."""
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        refused = Profiler("-d", 1, "-p", ended.pid).wait()
        assert refused.status == 1 and len(refused.messages) == 1
        assert "process %d has ended" % ended.pid in refused.stderr


def test_one_that_is_not_python(spin):
    """Of several, those without Python are named and left out; of one that stays without it, the end is an error."""
    target = spin("spin_a")
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        try:
            poll(lambda: Path("/proc/%d/comm" % sleeper.pid).read_text() == "sleep\n", "the exec")
            result = profile("-f", "-F", HZ, "-d", 1, "-p", "%d,%d" % (sleeper.pid, target.pid)).ok()
            assert "spin_a" in result.only("spin_a")
            (said,) = [m for m in result.messages if "is not Python" in m]
            assert "process %d (sleep)" % sleeper.pid in said, said
            refused = Profiler("-d", 1, "-p", sleeper.pid).wait()
            assert refused.status == 1 and len(refused.messages) == 2, refused.stderr
            assert "process %d (sleep) is not Python yet" % sleeper.pid in refused.messages[0]
            assert "did not become Python, nor did any process that it has started" in refused.messages[1]
        finally:
            sleeper.kill()


def test_name(any_python, directory):
    """By command name, by program, by what the application is called; a pattern that fits nothing is an error."""
    for name in "spinner.py", "common.py":
        shutil.copy(PROGRAMS / name, directory)
    program = (directory / "spinner.py").rename(directory / "of_these_tests.py")  # others run spinner.py, too
    with Target(any_python, program, "spin_x", "--comm", "pyt-x1"), Target(any_python, program, "spin_y", "--comm", "pyt-y1"):
        for pattern, names in (("^pyt-x", {"spin_x"}), ("pyt-[xy]1$", {"spin_x", "spin_y"}),
                               ("^of_these_tests[.]py$", {"spin_x", "spin_y"})):
            result = profile("-f", "-F", HZ, "-d", 1, "--name", pattern).ok()
            assert result.only(*names) == names, pattern
    refused = Profiler("-d", 1, "--name", "^no-such-name$").wait()
    assert refused.status == 1 and len(refused.messages) == 1, refused.stderr


def test_user(any_python):
    """Of two programs that one user started, one has become another user."""
    code = ("import os, sys\nos.setuid(%d)\ndef spin_%s(x=1):\n    while os.getppid() > 1: x = x * 31 & 0xffff\n"
            "print('ready', flush=True)\nspin_%s()\n")
    running = []
    try:
        for uid, name in (0, "root"), (65534, "other"):
            running.append(subprocess.Popen([any_python, "-c", code % (uid, name, name)], stdout=subprocess.PIPE))
            assert running[-1].stdout.readline() == b"ready\n"
        result = profile("-f", "-F", HZ, "-d", 1, "-u", 65534).ok()
        names = {s.leaf().name for s in result.stacks if s.leaf()}
        assert "spin_other" in names and "spin_root" not in names
        assert result.counters["filtered_user"] > 0
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()


def test_thread(any_python):
    """One of several threads that run."""
    with Target(any_python, "threads.py") as target:
        tids = [int(t) for t in os.listdir("/proc/%d/task" % target.pid)]
        for tid in tids[:3]:
            result = profile("-f", "-F", HZ, "-d", 0.5, "--threads", "-t", tid).ok()
            assert {s.tid for s in result.stacks} <= {tid}
            assert result.counters["filtered_thread"] > 0
    gone = Profiler("-d", 1, "-t", target.pid).wait()
    assert gone.status == 1 and "no such thread" in gone.stderr and len(gone.messages) == 1


def test_cpu(spin):
    """One process on the first CPU, one on the last."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only")
    first, last = spin("spin_first"), spin("spin_last")
    os.sched_setaffinity(first.pid, {cpus[0]})
    os.sched_setaffinity(last.pid, {cpus[-1]})
    for cpu, name in (cpus[0], "spin_first"), (cpus[-1], "spin_last"):
        result = profile("-f", "-F", HZ, "-d", 1, "--cpu", cpu, "-p", "%d,%d" % (first.pid, last.pid)).ok()
        assert result.only(name) == {name}
    refused = Profiler("-d", 1, "--cpu", 100000).wait()
    assert refused.status == 1 and len(refused.messages) == 1 and "has the CPUs 0 to" in refused.stderr


def test_delay(any_python, tmp_path):
    """The command runs, and nothing of its first part is sampled."""
    code = ("import os, time\n"
            "def until(end, x=1):\n    while time.monotonic() < end: x = x * 31 & 0xffff\n"
            "def early(end): until(end)\n"
            "def late(end): until(end)\n"
            "begin = time.monotonic()\nearly(begin + 0.2)\nlate(begin + 6)\n")
    result = profile("-f", "-F", HZ, "--delay", 4, "-d", 1, "--", any_python, "-c", code).ok()
    names = {f.name for s in result.stacks for f in s.python()}
    assert "late" in names and "early" not in names


# ---- control groups ------------------------------------------------------------------------------

def hierarchy(version):
    """Where a hierarchy is mounted in which processes can be grouped, or None."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if version == 2 and kind == "cgroup2":
            return path
        if version == 1 and kind == "cgroup" and "cpu" in options.split(","):
            return path
    return None


@contextlib.contextmanager
def groups_of(version, name, *inner):
    """[outer, inner, ...]: a control group and those in it, empty."""
    top = hierarchy(version)
    if not top:
        pytest.skip("no cgroup v%d hierarchy is mounted" % version)
    outer = Path(top) / name
    groups = [outer, *(outer / i for i in inner)]
    try:
        for group in groups:
            group.mkdir()
    except OSError as error:
        pytest.skip("cannot make a cgroup v%d: %s" % (version, error))
    yield groups
    for group in reversed(groups):
        def gone(group=group):
            with contextlib.suppress(OSError):
                group.rmdir()
            return not group.exists()
        poll(gone, "the control group to be empty")


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cgroups(request):
    """(outer, inner): two nested control groups, empty."""
    with groups_of(request.param, "pyperf-e2e-%d" % os.getpid(), "inner") as groups:
        yield groups


def test_cgroup(cgroups, any_python):
    outer, inner = cgroups
    with contextlib.ExitStack() as stack:
        def spin(name, group=None):
            target = stack.enter_context(Target(any_python, "spinner.py", name))
            if group:
                (group / "cgroup.procs").write_text(str(target.pid))
        spin("spin_outer", outer), spin("spin_inner", inner), spin("spin_outside")
        for group, names in ((outer, {"spin_outer", "spin_inner"}), (inner, {"spin_inner"})):
            result = profile("-f", "-F", HZ, "-d", 1, "-C", group).ok()
            assert result.only(*names) == names
            assert result.counters["filtered_cgroup"] > 0


def names_of_runtimes(directory, pod, ids, names):
    """
    Writes what the kubelet keeps of the first container and Docker of the second. Returns the words before a
    command that make it find these files, in a mount namespace of its own.
    """
    log, lib = directory / "log", directory / "lib"
    of_docker = lib / "docker" / "containers" / ids[1]
    for made in (log / "containers", log / "pods" / ("_".join(pod)), of_docker):
        made.mkdir(parents=True)
    (log / "containers" / ("%s_%s_%s-%s.log" % (pod[1], pod[0], names[0], ids[0]))).write_text("")
    (of_docker / "config.v2.json").write_text(json.dumps({"ID": ids[1], "Name": "/" + names[1]}))
    mounts = 'mount --bind %s /var/log && mount --bind %s /var/lib && exec "$@"' % (log, lib)
    return ["unshare", "-m", "sh", "-c", mounts, "sh"]


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
def test_pod_and_container(version, any_python, tmp_path):
    """Groups that are named as those of a pod and its containers, chosen by the names of these."""
    uid, ids = str(uuid.uuid4()), [secrets.token_hex(32), secrets.token_hex(32)]
    names = ["e2e-app-%d" % os.getpid(), "e2e-side-%d" % os.getpid()]
    slice_name = "pyperf-e2e-%d-pod%s.slice" % (os.getpid(), uid.replace("-", "_"))
    prefix = names_of_runtimes(tmp_path, ("shop", "e2e-web-0", uid), ids, names)
    with groups_of(version, slice_name, "cri-containerd-%s.scope" % ids[0],
                   "docker-%s.scope" % ids[1]) as groups, contextlib.ExitStack() as stack:
        def spin(name, group=None):
            target = stack.enter_context(Target(any_python, "spinner.py", name))
            if group:
                (group / "cgroup.procs").write_text(str(target.pid))
            return target.pid
        pids = {"spin_app": spin("spin_app", groups[1]), "spin_side": spin("spin_side", groups[2])}
        outside = spin("spin_outside")
        both = set(pids)
        for chosen, seen in ((["--pod", "shop/e2e-web-0"], both), (["--container", names[0]], {"spin_app"}),
                             (["--container", names[1]], {"spin_side"}), (["--container", ids[0][:12]], {"spin_app"}),
                             (["--pod", "e2e-web-0", "--container", names[0]], {"spin_app"})):
            result = profile("-f", "-F", HZ, "-d", 1, *chosen, prefix=prefix).ok()
            assert result.only(*seen) == seen, chosen
            dumped = Profiler("dump", "--json", *chosen, prefix=prefix).wait()
            assert dumped.status == 0, dumped.stderr
            shown = json.loads(dumped.stdout)
            shown = shown if isinstance(shown, list) else [shown]
            assert {p["pid"] for p in shown} == {pids[name] for name in seen}, chosen
        listed = "%d,%d" % (outside, pids["spin_app"])
        dumped = Profiler("dump", "--json", "-p", listed, "--container", names[0], prefix=prefix).wait()
        assert dumped.status == 0 and json.loads(dumped.stdout)["pid"] == pids["spin_app"], dumped.stderr
        dumped = Profiler("dump", "-p", outside, "--container", names[0], prefix=prefix).wait()
        assert dumped.status == 1 and "none of the processes" in dumped.stderr
        refused = profile("-d", 0.5, "--container", names[0][:-1] + "x", prefix=prefix)
        assert refused.status == 1 and "did you mean %s?" % names[0] in refused.stderr
        refused = profile("-d", 0.5, "--pod", "shop/e2e-web-1", prefix=prefix)
        assert refused.status == 1 and "did you mean shop/e2e-web-0?" in refused.stderr


def limit(group, percent):
    """Gives a control group so much of one CPU."""
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_quota_us").write_text(str(percent * 1000))
    elif (group / "cpu.max").exists():
        (group / "cpu.max").write_text("%d 100000" % (percent * 1000))
    else:
        pytest.skip("the control group has no CPU controller")


def test_throttled(cgroups, any_python):
    """The kernel's own count of what the limit stopped is what the report says, whoever else wants the CPU."""
    outer, inner = cgroups
    limit(outer, 20)
    with Target(any_python, "spinner.py", "spin") as target:
        (inner / "cgroup.procs").write_text(str(target.pid))
        before = int(re.search(r"throttled_(?:time|usec) (\d+)", (outer / "cpu.stat").read_text()).group(1))
        text = profile("-F", HZ, "-d", 2, "-p", target.pid).ok().stdout
        after = int(re.search(r"throttled_(?:time|usec) (\d+)", (outer / "cpu.stat").read_text()).group(1))
        found = re.search(r"throttled by its container's CPU limit for (\d+)%", text)
        assert found, text
        # Read within the run, and never more than the kernel counted around it.
        seconds = (after - before) / (1e9 if (outer / "cpu.cfs_quota_us").exists() else 1e6)
        assert 5 <= int(found.group(1)) <= 100 * seconds / 2 + 1


# ---- what a stack shows --------------------------------------------------------------------------

def test_no_kernel(spin):
    target = spin("in_kernel", "--syscalls")
    full = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid).ok()
    # Kernel frames come last, below the Python and native ones that called the kernel.
    with_kernel = [s for s in full.stacks if s.kernel() and s.python()]
    assert total(with_kernel) >= 0.3 * total(full.stacks)
    for stack in with_kernel:
        kinds = [f.kind == "kernel" for f in stack.frames]
        assert kinds == sorted(kinds), stack
    bare = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--no-kernel").ok()
    assert not any(s.kernel() for s in bare.stacks)
    # The sample is still there, under the function that called the kernel.
    assert "in_kernel" in bare.only()


def test_no_lines(spin):
    target = spin("spin_a")
    result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--no-lines").ok()
    leaves = {str(s.leaf()) for s in result.stacks if s.leaf() and s.leaf().name == "spin_a"}
    assert leaves == {"spin_a (/spinner/spin_a.py)"}


def test_no_native_no_kernel(spin):
    target = spin("in_kernel", "--syscalls")
    result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--no-native", "--no-kernel").ok()
    kinds = {f.kind for s in result.stacks for f in s.frames}
    assert kinds <= {"python", "marker"}
    assert "in_kernel" in result.only()
