# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent over real programs: windows, services, accounting, signals, budgets, and life side by side."""
import base64
import collections
import contextlib
import gzip
import http.client
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import threading
import urllib.parse
import urllib.request

import pytest

import fault_server
import pprof_read
import test_push
from harness import (PATIENCE, PROGRAMS, PYPERF, REPO, Process, Profiler, clean_environment, find_go, find_tool,
                     import_pure, poll, profile, spend)

pytestmark = pytest.mark.beside

AGENT = os.path.join(os.path.dirname(PYPERF), "pyperf-bpf-agent")
SPIN = """
import os, select, sys
sys.stdin = os.fdopen(0)
def %(name)s_inner():
    end = os.times()[0] + 0.02
    while os.times()[0] < end:
        pass
def %(name)s_outer():
    while not select.select([0], [], [], 0)[0]:
        %(name)s_inner()
os.write(1, b"ready\\n")
%(name)s_outer()
"""


class Window:
    def __init__(self, path):
        with open(path[:-len("pb.gz")] + "labels", encoding="utf-8") as f:
            fields = dict(line.rstrip("\n").split("=", 1) for line in f)
        self.labels = {k[6:]: v for k, v in fields.items() if k.startswith("label.")}
        self.id = fields["id"]
        self.start, self.duration, self.samples, self.hz = (
            int(fields[k]) for k in ("start_unix_ns", "duration_ns", "samples", "frequency_hz"))
        self.service = self.labels["service_name"]
        self.profile = pprof_read.read(path)

    def functions(self):
        return {f["func"] for s in self.profile["samples"] for f in s["stack"]}


class Agent(Profiler):
    """A running agent whose windows are files."""

    def __init__(self, tmp_path, config="", state="state", window=2, ready=True, program=AGENT, prefix=(), user=None,
                 **environment):
        self.dir = tmp_path / state
        self.windows_dir = self.dir / "windows"
        self.windows_dir.mkdir(parents=True, exist_ok=True)
        for path in (self.dir, self.windows_dir) if user else ():
            os.chown(path, user, user)
        self.config = tmp_path / (state + ".conf")
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind("\0pyperf-test-%d-%x" % (os.getpid(), id(self)))
        self.notified.settimeout(60)
        self.window = window
        self.configure(config)
        name = self.notified.getsockname().decode().replace("\0", "@")
        super().__init__("--config", self.config, glue=False, program=program, prefix=prefix,
                         env=clean_environment(PYPERF_AGENT_SHORT_WINDOWS="1", NOTIFY_SOCKET=name,
                                               **environment))
        if ready:
            self.expect("READY=1")

    def configure(self, more=""):
        """What is in `more` holds in place of what tests have: a key that is there twice is a mistake."""
        base = ("[store]\nenabled = no\n[http]\nlisten = unix:%s\n[budget]\ncpu = 100\n[agent]\nstate-dir = %s\ndirectory = %s\n"
                "window = %ds\nfrequency = 99\nlog-format = json\n"
                % (self.dir / "http.sock", self.dir, self.windows_dir, self.window))
        section, keys, lines = "agent", set(), []
        for line in more.splitlines():
            if line.startswith("["):
                section = line[1:-1]
            keys.add((section, line.partition(" = ")[0]))
        for line in base.splitlines():
            if line.startswith("["):
                section = line[1:-1]
            if line.startswith("[") or (section, line.partition(" = ")[0]) not in keys:
                lines.append(line)
        self.config.write_text("\n".join(lines) + "\n" + more)

    def expect(self, *words):
        """The next datagram that begins with one of the words, as systemd would get it."""
        while True:
            try:
                text = self.notified.recv(4096).decode()
            except TimeoutError:
                raise AssertionError("no %s; so far:\n%s" % (words, self.read(self.err))) from None
            if text.startswith(words):
                return text

    def reload(self):
        os.kill(self.pid, signal.SIGHUP)
        self.expect("RELOADING=1")
        self.expect("READY=1")

    def files(self):
        return sorted(str(p) for p in self.windows_dir.glob("*.pb.gz") if p.name[0] != ".")

    def windows(self):
        return sorted((Window(p) for p in self.files()), key=lambda w: w.start)

    def wait_windows(self, service, cnt):
        """Until so many windows of a service are there."""
        poll(lambda: sum("/%s-" % service in f for f in self.files()) >= cnt
             or self.process.poll() is not None, "%d windows of %s" % (cnt, service))
        assert self.process.poll() is None, self.read(self.err)

    def messages(self, *levels):
        """What it said; at these levels, if there are any."""
        text = self.read(self.err)
        lines = map(json.loads, text[:text.rfind("\n") + 1].splitlines())  # it may be writing the last one
        return [line["message"] for line in lines if not levels or line["level"] in levels]

    def stop(self, sig=signal.SIGTERM):
        """Its last words, as numbers: counted, in windows, dropped."""
        os.kill(self.pid, sig)
        result = self.wait()
        assert result.status == 0, result.stderr
        self.notified.close()
        last = re.fullmatch(r"ended: (\d+) samples counted, (\d+) in (\d+) windows of \d+ periods, (\d+) dropped",
                            self.messages()[-1])
        assert last, result.stderr
        counted, samples, _, dropped = map(int, last.groups())
        assert counted == samples + dropped, self.messages()[-1]
        return samples


FAULTS = """
import mmap
def touch():
    area = mmap.mmap(-1, 512 * 4096)
    area.madvise(mmap.MADV_NOHUGEPAGE)  # each page is one fault, where the machine's huge pages are "always" too
    for page in range(512):
        area[page * 4096] = 1
    area.close()
"""


@contextlib.contextmanager
def service(name, **environment):
    with Process([sys.executable, "-c", SPIN % {"name": name}],
                 env=clean_environment(OTEL_SERVICE_NAME=name, **environment)) as process:
        yield process


def ended(agent):
    with contextlib.suppress(ProcessLookupError):
        os.kill(agent.pid, signal.SIGKILL)
    agent.process.wait()


@pytest.fixture
def agents(tmp_path):
    """Starts agents; none outlives the test."""
    started = []

    def start(*args, tmp_path=tmp_path, **kwargs):
        started.append(Agent(tmp_path, *args, **kwargs))
        return started[-1]

    yield start
    for agent in started:
        ended(agent)


def test_windows_of_services(agents):
    with service("alpha", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test") as alpha, service("beta"):
        agent = agents()
        agent.wait_windows("alpha", 3)
        agent.wait_windows("beta", 3)
        samples = agent.stop()
        windows = agent.windows()
    assert sum(w.samples for w in windows) == samples
    for w in windows:
        assert w.profile["totals"]["samples"] == w.samples
        assert w.profile["time_nanos"] == w.start
        assert w.profile["duration_nanos"] == w.duration
        assert 0 < w.duration < 4e9
    assert len({w.id for w in windows}) == len(windows)
    for name in ("alpha", "beta"):
        ours = [w for w in windows if w.service == name]
        assert ours[0].labels["host"] == socket.gethostname()
        for w in ours:
            assert {name + "_inner", name + "_outer"} <= w.functions()
            assert not {"alpha_inner", "beta_inner"} - {name + "_inner"} & w.functions()
        # One follows the other without a gap. They end at even seconds, but for the last one: on time, unless
        # the machine is busy each time.
        assert min(w.start % 2e9 for w in ours[1:]) < 2e8
        for before, after in zip(ours, ours[1:]):
            assert abs(before.start + before.duration - after.start) < 1e8
    assert all(w.labels["deployment_environment"] == "test" for w in windows if w.service == "alpha")
    assert any(s["labels"]["pid"] == alpha.pid for w in windows for s in w.profile["samples"])


@pytest.fixture
def pod_groups(tmp_path):
    """Makes control groups as a kubelet does, in any hierarchy that lets us."""
    tops = [f[1] for f in map(str.split, open("/proc/mounts", encoding="ascii"))
            if f[2] == "cgroup2" or f[2] == "cgroup" and "cpu" in f[3].split(",")]
    made = []

    def make(uid, container):
        for top in sorted(tops):
            parts = [top, "pyperf-e2e-%d" % os.getpid(), "kubepods", "pod" + uid, container]
            try:
                for i in range(2, len(parts) + 1):
                    path = os.path.join(*parts[:i])
                    if not os.path.isdir(path):
                        os.mkdir(path)
                        made.append(path)
            except OSError:
                continue
            return path
        pytest.skip("no control group can be made")

    yield make
    for path in reversed(made):
        def gone(path=path):
            with contextlib.suppress(OSError):
                os.rmdir(path)
            return not os.path.exists(path)
        poll(gone, "an empty control group")


def test_deployments_are_services(agents, pod_groups):
    """Pods of two deployments whose containers run a program of the same name, and two pods of one of them."""
    pods = {"shop-6955765f44-x2k8p": "prod", "shop-6955765f44-9zbvt": "prod", "cart-7c5ddbdf54-wlv4m": "prod",
            "cart-7c5ddbdf54-x2k8p": "test"}
    with contextlib.ExitStack() as stack:
        for i, (pod, namespace) in enumerate(pods.items()):
            group = pod_groups("0123abcd-0123-4567-89ab-%012d" % i, "%064x" % (0xabc << 244 | i))
            process = stack.enter_context(Process([sys.executable, "-c", SPIN % {"name": pod[:4]}],
                                                  env=clean_environment(HOSTNAME=pod, POD_NAMESPACE=namespace)))
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as f:
                f.write(str(process.pid))
        agent = agents(window=1)
        agent.wait_windows("cart", 5)
        agent.wait_windows("shop", 3)
        agent.stop()
    # The first window may be so short that some of them are small in it.
    windows = [w for w in agent.windows() if w.labels.get("k8s_workload") and w.service != "(small)"]
    services = {(w.service, w.labels["k8s_namespace"]) for w in windows}
    assert services == {("shop", "prod"), ("cart", "prod"), ("cart", "test")}
    for w in windows:
        assert w.service == w.labels["k8s_workload"]
        assert {"shop_inner", "cart_inner"} & w.functions() <= {w.service + "_inner"}
        pids = {s["labels"]["pid"] for s in w.profile["samples"]}
        assert len(pids) <= (2 if w.service == "shop" else 1)
        assert w.service == "cart" or len(pids) < 2 or "k8s_pod" not in w.labels


def test_applications_are_services(agents, tmp_path):
    """What a launcher runs, and not the launcher: all of one script that is called gunicorn."""
    launcher = tmp_path / "gunicorn"
    launcher.write_text("import sys\nname = sys.argv[-1].split('.')[0]\n" + SPIN % {"name": "any"})
    with contextlib.ExitStack() as stack:
        for app in "first.wsgi:app", "second.wsgi:app":
            stack.enter_context(Process([sys.executable, launcher, "-w", "2", app], env=clean_environment()))
        agent = agents(window=1)
        agent.wait_windows("first", 2)
        agent.wait_windows("second", 2)
        agent.stop()
    for name in "first", "second":
        pids = {s["labels"]["pid"] for w in agent.windows() if w.service == name for s in w.profile["samples"]}
        assert len(pids) == 1


def test_rules(agents):
    """They rename, leave out and thin out; each sample is in a window or counted."""
    rules = """
[rule]
match.service_name = job-[0-9]*
set.service_name = jobs
set.kind = {comm}
[rule]
match.service_name = secret
drop = yes
[rule]
match.service_name = jobs
rate = 1/5
"""
    with contextlib.ExitStack() as stack:
        for name in "job-1", "job-22", "secret", "plain":
            stack.enter_context(Process([sys.executable, "-c", SPIN % {"name": "f"}],
                                        env=clean_environment(OTEL_SERVICE_NAME=name)))
        agent = agents(rules, window=1)
        agent.wait_windows("jobs", 3)
        agent.wait_windows("plain", 3)
        poll(lambda: re.search(r"^pyperf_samples_left_out_total [1-9]", get(agent, "/metrics").decode(), re.M),
             "the count of what is left out")
        agent.stop()
    windows = agent.windows()
    assert not {"job-1", "job-22", "secret"} & {w.service for w in windows}
    jobs = [w for w in windows if w.service == "jobs"]
    assert any(len({s["labels"]["pid"] for s in w.profile["samples"]}) == 2 for w in jobs)
    assert all(w.labels["kind"].startswith("python") for w in jobs)
    # Each that is kept stands for five, so CPU time is what it was.
    largest = max(jobs, key=lambda w: w.samples)
    assert largest.profile["totals"]["samples"] == largest.samples
    assert any("f_inner" in w.functions() for w in jobs)


def test_small_services_are_one(agents):
    """Programs that run for a moment are one row; one that works has its own."""
    names = ["brief-%d" % i for i in range(8)]
    with service("large"):
        agent = agents("small = 50\n", window=2)
        agent.wait_windows("large", 1)
        for _ in range(60):
            for name in names:
                subprocess.run([sys.executable, "-c", "sum(range(2000000))"], check=True,
                               env=clean_environment(OTEL_SERVICE_NAME=name))
            folded = [w for w in agent.windows() if w.service == "(small)"]
            if folded:
                break
        agent.stop()
    assert "large" in {w.service for w in agent.windows()}
    assert not set(names) & {w.service for w in agent.windows() if w.samples >= 50}
    assert any(len({s["labels"]["pid"] for s in w.profile["samples"]}) > 1 for w in folded)
    assert all(w.labels["host"] == socket.gethostname() for w in folded)


def test_sigterm_writes_what_there_is(agents):
    with service("gamma") as gamma:
        agent = agents(window=60)
        spend(gamma.pid, 0.3)
        agent.stop()
        window, = (w for w in agent.windows() if w.service == "gamma")
    assert window.samples >= 10
    assert "gamma_inner" in window.functions()


def test_short_lived_processes_keep_their_labels(agents):
    agent = agents()
    for _ in range(4):
        with service("delta") as delta:
            spend(delta.pid, 0.2)
    agent.stop()
    windows = [w for w in agent.windows() if w.service == "delta"]
    assert len({s["labels"]["pid"] for w in windows for s in w.profile["samples"]}) == 4


def test_children_of_fork_belong_to_the_service(agents):
    program = "import os, sys\nif os.fork() == 0:\n" + \
        "\n".join("    " + line for line in (SPIN % {"name": "child"}).splitlines()) + "\nos.wait()\n"
    agent = agents()
    with Process([sys.executable, "-c", program], env=clean_environment(OTEL_SERVICE_NAME="forks")):
        agent.wait_windows("forks", 1)
    agent.stop()
    assert any("child_inner" in w.functions() for w in agent.windows() if w.service == "forks")


def test_reload_loses_no_sample(agents):
    with service("epsilon"):
        agent = agents()
        agent.wait_windows("epsilon", 1)
        agent.configure("frequency = 49\n[labels]\nadd.region = eu\n")
        agent.reload()
        poll(lambda: any(w.hz == 49 for w in agent.windows()), "a window at 49 Hz")
        agent.configure("frequncy = 49\nwindow = 1m\n")
        agent.reload()
        agent.wait_windows("epsilon", len([w for w in agent.windows() if w.service == "epsilon"]) + 1)
        agent.stop()
        windows = agent.windows()
    assert {w.hz for w in windows} == {99, 49}
    ours = [w for w in windows if w.service == "epsilon"]
    for before, after in zip(ours, ours[1:]):
        assert abs(before.start + before.duration - after.start) < 1e8
    # Each window has samples for its own frequency: not more than it can have, on one CPU.
    for w in ours:
        assert w.samples <= w.hz * w.duration / 1e9 * 1.1 + 2
        assert w.profile["period"] == 10**9 // w.hz
    said = " | ".join(agent.messages())
    assert "frequncy: there is no such key in this section" in said
    assert "window: seconds, from 10 to 60" in said and "keeping the previous configuration" in said


@pytest.fixture
def failing_batch(tmp_path):
    """Environment in which reading the counts fails while the file exists; and the file."""
    library, file = tmp_path / "failing_batch.so", tmp_path / "fail"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, PROGRAMS / "failing_batch.c"], check=True)
    return {"LD_PRELOAD": str(library), "FAILING_BATCH": str(file)}, file


@pytest.mark.parametrize("which", ["all", "second"])
def test_a_failed_drain_is_no_end(agents, failing_batch, which):
    environment, file = failing_batch
    with service("rho"):
        agent = agents(window=1, **environment)
        agent.wait_windows("rho", 1)
        file.write_text(which)
        poll(lambda: "reading the counts: Cannot allocate memory" in agent.messages(), "a failed drain")
        file.unlink()
        agent.wait_windows("rho", len(agent.files()) + 2)
        assert re.search(r"^pyperf_drains_failed_total [1-9]", get(agent, "/metrics").decode(), re.M)
        agent.stop()  # which adds up what was counted


def test_what_was_sampled_is_written_before_the_agent_gives_up(agents, failing_batch):
    environment, file = failing_batch
    with service("sigma") as sigma:
        agent = agents(window=60, **environment)
        spend(sigma.pid, 0.5)
        get(agent, "/debug/pprof/profile?seconds=1")  # which is drained for
        file.write_text("all")
        while agent.process.poll() is None:
            with contextlib.suppress(OSError, AssertionError):  # 503, once it ends
                get(agent, "/debug/pprof/profile?seconds=1")
        result = agent.wait()
    assert result.status == 1
    assert "10 times in a row" in "".join(agent.messages()[-2:])
    window, = (w for w in agent.windows() if w.service == "sigma")
    assert window.samples > 10


def test_one_per_state_directory(agents, tmp_path):
    first = agents()
    second = agents(ready=False).wait()
    assert second.status == 1
    assert "the agent with pid %d uses it" % first.pid in second.stderr
    third = agents(state="other")
    with service("zeta"):
        first.wait_windows("zeta", 2)
        third.wait_windows("zeta", 2)
        first.stop()
        third.stop()
    # Killed, it leaves nothing that keeps the next one out.
    fourth = agents()
    fourth.process.kill()
    fourth.process.wait()
    agents().stop()


def test_beside_an_ad_hoc_run(agents):
    with service("eta") as eta:
        agent = agents()
        agent.wait_windows("eta", 1)
        beside = profile("-d", 2, "-f", "-p", eta.pid).ok()
        agent.wait_windows("eta", 3)
        agent.stop()
    assert any(s.leaf() and "eta_" in s.leaf().name for s in beside.stacks)
    ours = [w for w in agent.windows() if w.service == "eta"]
    for before, after in zip(ours, ours[1:]):
        assert abs(before.start + before.duration - after.start) < 1e8
    assert all("eta_inner" in w.functions() for w in ours)


# include/uapi/linux/capability.h
CAPABILITIES = {"dac_read_search": 2, "sys_ptrace": 19, "syslog": 34, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}


def test_privileges(agents):
    agent = agents()
    status = open("/proc/%d/status" % agent.pid, encoding="ascii").read()
    allowed = sum(1 << number for number in CAPABILITIES.values())
    for name in ("Prm", "Eff", "Bnd"):
        assert not int(re.search(r"^Cap%s:\s+(\w+)" % name, status, re.M)[1], 16) & ~allowed
    assert re.search(r"^CapAmb:\s+0+$", status, re.M)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    for tid in os.listdir("/proc/%d/task" % agent.pid):
        of_thread = open("/proc/%d/task/%s/status" % (agent.pid, tid), encoding="ascii").read()
        assert re.search(r"CapEff.*", of_thread)[0] == re.search(r"CapEff.*", status)[0]
    agent.stop()


def test_as_nobody(agents, directory):
    """As the unit runs it: a user with ambient capabilities, under no_new_privs. It lacks nothing, and what it writes
    is that user's."""
    if not find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    caps = list(CAPABILITIES)
    if int(open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii").read()) > 2:
        caps.append("sys_admin")  # of Debian and Ubuntu: user/follow/perf.h
    sets = "-all," + ",".join("+" + c for c in caps)
    agent = agents(tmp_path=directory, user=65534, program=shutil.copy(AGENT, directory / "agent"),
                   prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
                           "--bounding-set=" + sets, "--inh-caps=" + sets, "--ambient-caps=" + sets])
    status = open("/proc/%d/status" % agent.pid, encoding="ascii").read()
    assert re.search(r"^Uid:\s+65534\s+65534\s+65534\s+65534$", status, re.M)
    mask = "%016x" % sum(1 << number for number in CAPABILITIES.values())
    assert re.search(r"^CapPrm:\s+(\w+)", status, re.M)[1] == mask
    assert re.search(r"^CapEff:\s+(\w+)", status, re.M)[1] == mask
    with service("of_root"):
        agent.wait_windows("of_root", 2)
        agent.stop()
    windows = [w for w in agent.windows() if w.service == "of_root"]
    assert all({"of_root_inner", "of_root_outer"} <= w.functions() for w in windows[1:])
    assert {os.stat(f).st_uid for f in agent.files()} == {65534}
    assert agent.messages("warning", "error") == []


@pytest.fixture
def small_group():
    """A control group with 96 MiB of memory."""
    for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = os.path.join(top, "pyperf-e2e-oom-%d" % os.getpid())
        with contextlib.suppress(OSError):
            os.mkdir(path)
            if os.path.exists(os.path.join(path, limit)):
                break
            os.rmdir(path)
    else:
        pytest.skip("no control group with a memory limit can be made")
    with open(os.path.join(path, limit), "w", encoding="ascii") as f:
        f.write(str(96 << 20))
    yield path

    def gone():
        with contextlib.suppress(OSError):
            os.rmdir(path)
        return not os.path.exists(path)
    poll(gone, "an empty control group")


GREEDY = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as f:
    f.write(str(os.getpid()))
print("ready", flush=True)
kept = []
for line in sys.stdin:
    kept.append(b"x" * (int(line) << 20))
    print("done", flush=True)
"""


def test_a_service_in_a_root_of_its_own(agents, tmp_path):
    """The agent may not open files by mapping. After chroot() their names begin outside that root."""
    root, python = tmp_path / "its-root", tmp_path / "its-python"
    root.mkdir()
    shutil.copy("/usr/bin/python3", python)  # a file that no other process has; Debian's is all of the interpreter
    enter = ["unshare", "--mount", "--propagation", "private", "bash", "-c",
             'root=$1; shift; mount --rbind / "$root" && exec chroot "$root" "$@"', "bash", root]
    agent = agents()
    with Process([*enter, python, "-c", SPIN % {"name": "rooted"}],
                 env=clean_environment(OTEL_SERVICE_NAME="rooted", PYTHONHOME="/usr")) as target:
        assert str(root) in open("/proc/%d/maps" % target.pid).read()
        agent.wait_windows("rooted", 2)
    agent.stop()
    found = set().union(*(w.functions() for w in agent.windows() if w.service == "rooted"))
    assert {"rooted_inner", "rooted_outer"} <= found, found


def test_a_kill_for_lack_of_memory(agents, small_group):
    """One page, for root alone, says which process ended, and how it grew before."""
    agent = agents("log-level = debug\n")
    readings = lambda: sum(m.startswith("resident memory of ") and m != "resident memory of 0 processes" for m in agent.messages())
    with Process([sys.executable, "-c", GREEDY, small_group]) as target:
        pid = target.pid
        for mib in (1, 40):
            target.process.stdin.write(b"%d\n" % mib)
            assert target.read_line() == b"done\n"
            before = readings()
            poll(lambda: readings() >= before + 2, "two readings")
        resident = int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)
        target.process.stdin.write(b"400\n")
        target.process.wait()
        target.process.returncode = 0  # as was to be
        poll(lambda: list(agent.dir.glob("oom-*.txt")), "a page")
    page = next(agent.dir.glob("oom-*.txt"))
    assert page.stat().st_mode & 0o777 == 0o600
    poll(lambda: any("for lack of memory; " in m for m in agent.messages("warning")), "a line of the log")
    text = page.read_text()
    row = re.search(r"^ +%d  ([0-9.]+) MiB, \+([0-9.]+) MiB in [0-9]+ s  " % pid, text, re.M)
    assert row and float(row[1]) == pytest.approx(resident, abs=1), text
    # The first reading may find an interpreter that has hardly begun.
    assert 38 < float(row[2]) < resident, text
    agent.stop()


def test_memory_budget(agents):
    """One that nothing can keep: it takes less, step by step, says so, and loses no sample and no name."""
    agent = agents("[budget]\nmemory = 1\nstacks = 3000\n", window=1)
    with service("less"):
        poll(lambda: any("no more of it can be freed" in m for m in agent.messages()), "the last step")
        agent.wait_windows("less", 5)
    agent.stop()
    said = [m for m in agent.messages("warning") if "more than the budget of 1" in m]
    steps = [re.search(": (symbols are no longer kept|from .* stacks)|(no more of it can be freed)", m) for m in said]
    assert [s[1] or s[2] for s in steps[:5]] == [
        "symbols are no longer kept", "from 3000 down to 1500 stacks", "from 1500 down to 750 stacks",
        "from 750 down to 500 stacks", "no more of it can be freed"]
    for w in [w for w in agent.windows() if w.service == "less"][1:-1]:
        assert {"less_inner", "less_outer"} <= w.functions(), w.functions()


def test_stack_budget_is_kept_and_counted(agents):
    many = "import sys\n" + "\n".join("def f%d(n):\n    return sum(range(2000)) if not n else f%d(n - 1)"
                                      % (i, (i * 7 + 1) % 150) for i in range(150)) + """
import os, select
os.write(1, b"ready\\n")
n = 0
while not select.select([0], [], [], 0)[0]:
    n += 1
    globals()["f%d" % (n % 150)](n % 40)
"""
    agent = agents("frequency = 999\n[budget]\nstacks = 100\n", window=3)
    with Process([sys.executable, "-c", many], env=clean_environment(OTEL_SERVICE_NAME="many")):
        agent.wait_windows("many", 2)
    agent.stop()
    ours = [w for w in agent.windows() if w.service == "many"]
    for w in ours:
        assert len(w.profile["samples"]) <= 100 + 1
    over = sum(s["values"]["samples"] for w in ours for s in w.profile["samples"]
               if [f["func"] for f in s["stack"]] == ["[too-many-stacks]"])
    assert over > 0


def test_cpu_budget_lowers_the_frequency(agents):
    """A budget that nothing can keep: the first step is a third less, for whole windows, and it is said."""
    with service("theta"):
        agent = agents("frequency = 999\n[budget]\ncpu = 0.05\n", window=1)
        poll(lambda: any("down to" in m for m in agent.messages()), "a lower frequency")
        poll(lambda: len({w.hz for w in agent.windows()}) >= 2, "windows at two frequencies")
        agent.stop()
        windows = [w for w in agent.windows() if w.service == "theta"]
    steps = [w.hz for w in windows]
    assert set(steps[:steps.index(666)]) == {999}
    # What comes then depends on what sampling takes of it here; windows have the frequencies that were said.
    assert set(steps) <= {999} | {int(hz) for m in agent.messages() for hz in re.findall(r"(?:down|up) to (\d+) Hz", m)}
    # Samples weigh what their window says, so CPU time is the same at any frequency.
    for w in windows:
        assert w.samples / w.hz <= w.duration / 1e9 * 1.15 + 2 / w.hz
    assert any("more than the budget of 0.05%: from 999 down to 666 Hz" in m for m in agent.messages())


def test_cpu_budget_finds_out_what_is_dear(agents, failing_batch):
    """While reading the counts of a window is dear, the frequency falls, which does not help: so it rises again, and
    windows get longer, and shorter when it is not dear any more. The log and /metrics say the same, and windows have
    the frequencies that were said."""
    said = (r"more than the budget of 10%: from (\d+) (down) to (\d+) Hz"
            r"|more than the budget of 10%, of which sampling takes [\d.]+%: from (\d+) (back up) to (\d+) Hz"
            r"|the CPU budget of 10% has room: from (\d+) (up) to (\d+) Hz")

    def steps(way=""):
        found = [tuple(g for g in m.groups() if g) for m in map(re.compile(said).search, agent.messages()) if m]
        return [(int(a), int(b)) for a, kind, b in found if way in kind]

    def metric(name):
        return int(re.search(r"^pyperf_%s (\d+)$" % name, get(agent, "/metrics").decode(), re.M)[1])

    environment, file = failing_batch
    agent = agents("[budget]\ncpu = 10\n", window=1, **environment)
    with service("upsilon"):
        agent.wait_windows("upsilon", 1)
        file.write_text("dear")
        poll(lambda: steps("down"), "a lower frequency")
        poll(lambda: steps("back up"), "the configured frequency")
        poll(lambda: metric("window_length_seconds") > 1, "longer windows")
        assert any(re.search(r"sampling is not the cause: windows become 2 times as long", m) for m in agent.messages())
        file.unlink()
        poll(lambda: metric("window_length_seconds") == 1, "windows as they were")
        poll(lambda: metric("frequency_hz") == 99, "what /metrics says of it")
        assert metric("frequency_configured_hz") == 99
        agent.stop()
    all_steps = steps()
    assert all_steps[0] == (99, 66)
    assert all(before[1] == after[0] for before, after in zip(all_steps, all_steps[1:])), all_steps
    rates = [w.hz for w in agent.windows() if w.service == "upsilon"]
    assert {99, 66} <= set(rates) <= {99, *(b for _, b in all_steps)}
    assert rates[-1] > min(rates)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(agent, path):
    connection = UnixConnection(agent.dir / "http.sock")
    connection.request("GET", path)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status, data)
    return data


def loop_figures(agent, parser):
    """The figures of event loops: {service: {"buckets": {upper bound: iterations}, "count": .., "sum": .., "slow": .., "slow_s": ..}}."""
    found = collections.defaultdict(lambda: {"buckets": {}})
    kinds = {"_count": "count", "_sum": "sum"}
    for family in parser.text_string_to_metric_families(get(agent, "/metrics").decode()):
        for sample in family.samples if family.name.startswith("pyperf_event_loop_") else ():
            of = found[sample.labels["service"]]
            if sample.name.endswith("_bucket"):
                assert family.type == "histogram" and family.name == "pyperf_event_loop_iteration_seconds"
                of["buckets"][float(sample.labels["le"])] = sample.value
            elif family.type == "histogram":
                of[kinds[sample.name[len(family.name):]]] = sample.value
            else:
                of["slow_s" if "seconds" in sample.name else "slow"] = sample.value
    return dict(found)


def test_event_loops(agents, python):
    """Iterations by service, against what the program's own clock says of each."""
    name = 'the "shop" of \\2'
    parser = import_pure("prometheus_client.parser")
    agent = agents("events = cpu-clock, off-cpu\n", window=1)
    with service("omega"), Process([python, PROGRAMS / "looping.py"], env=clean_environment(OTEL_SERVICE_NAME=name)) as loop:
        poll(lambda: loop_figures(agent, parser).get(name, {"count": 0})["count"] > 20, "iterations that are known")
        loop.process.stdin.write(b"block\n")
        true = json.loads(loop.read_line())
        ours, since = true["all"], true["all"][true["since"]:]
        slow = [s for s in since if s >= 0.1]
        assert len(slow) >= 9, true
        bound, figures, blocking = 2 ** 14 / 1e6, {}, sum(s >= 2 ** 14 / 1e6 for s in since)

        def all_are_there():
            nonlocal figures
            figures = loop_figures(agent, parser)
            return figures[name]["count"] - figures[name]["buckets"][bound] >= blocking

        poll(all_are_there, "all iterations of 20 ms")
        agent.stop()
    assert "omega" not in figures, figures  # it has no event loop; others of the machine may have one
    of = figures[name]
    buckets = sorted(of["buckets"].items())
    assert len(buckets) > 8 and buckets[-1] == (float("inf"), of["count"])
    assert [n for _, n in buckets] == sorted(n for _, n in buckets)
    # None is shorter than the program says; a thread may lose its CPU between its clock and its poll.
    assert len(slow) <= of["slow"] <= 1.3 * sum(s >= 0.1 for s in ours) + 1, (figures, true)
    assert sum(slow) <= of["slow_s"] <= 1.3 * sum(s for s in ours if s >= 0.1) + 0.3, (figures, true)
    assert of["slow_s"] <= of["sum"] and len(since) <= of["count"]
    for bound, below in buckets[:-1]:
        if bound >= 0.01:
            above = of["count"] - below
            assert sum(s >= bound for s in since) <= above <= 1.3 * sum(s >= 0.8 * bound for s in ours) + 2, (bound, figures, true)


def test_no_event_loops_without_waits(agents, any_python):
    """They are seen by an event that counts waits; else there are no figures that would say zero."""
    agent = agents(window=1)
    with service("rho"), Process([any_python, PROGRAMS / "looping.py"]):
        agent.wait_windows("rho", 2)
        assert b"event_loop" not in get(agent, "/metrics")
        agent.stop()


def test_endpoint(agents, tmp_path):
    with service("iota"):
        agent = agents(window=60)
        assert get(agent, "/healthz")
        file = tmp_path / "now.pb.gz"
        file.write_bytes(get(agent, "/debug/pprof/profile?seconds=2"))
        taken = pprof_read.read(file)
        assert {"iota_inner", "iota_outer"} <= {f["func"] for s in taken["samples"] for f in s["stack"]}
        assert 1.9e9 < taken["duration_nanos"] < 4e9 and taken["period"] == 10**9 // 99
        agent.configure("[labels]\nadd.region = eu\n")
        agent.reload()
        metrics = get(agent, "/metrics").decode()
        assert re.search(r"^pyperf_frequency_hz 99$", metrics, re.M)
        for table in "counts", "chunks", "procs", "mappings", "tables":
            used, room = [int(re.search(r'^pyperf_map_entries%s\{map="%s"\} (\d+)$' % (kind, table),
                                        metrics, re.M)[1]) for kind in ("", "_max")]
            assert used <= room and room > 0
            assert used > 0 or table in ("counts", "chunks")
        samples = agent.stop()
    # What was asked for is in the window as well.
    assert samples >= taken["totals"]["samples"] > 0


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as s:
        return s.getsockname()[1]


def printed_link(agent):
    result = subprocess.run([PYPERF, "agent", "--link", "--config", agent.config], capture_output=True, text=True,
                            env=clean_environment(PYPERF_AGENT_SHORT_WINDOWS="1"), check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_by_default_who_may_read_the_token_may_read_profiles(agents, tmp_path):
    """Every user can connect to a port of the loopback: figures and health are for all of them, profiles are not. The
    link opens all of it, again after a restart, and nothing but it says the token."""
    port = free_port()
    protected = "/", "/api/services", "/flame", "/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/symbol"

    def status(path, **headers):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status

    config = "[http]\nlisten = 127.0.0.1:%d\n" % port
    agent = agents(config, window=60)
    token = (agent.dir / "token").read_text().strip()
    assert (agent.dir / "token").stat().st_mode & 0o777 == 0o600 and re.fullmatch("[0-9a-f]{32}", token)
    for path in protected:
        assert status(path) == status(path, Authorization="Bearer " + token[:-1]) == 401, path
    for path in "/metrics", "/healthz":
        assert status(path) == 200, path
    assert status("/debug/pprof/", Authorization="Bearer " + token) == 200
    link = printed_link(agent)
    assert link == "http://pyperf:%s@127.0.0.1:%d/" % (token, port)
    assert "the page: http://127.0.0.1:%d/ ('pyperf-bpf agent --link' prints it with the token)" % port in agent.messages()
    agent.stop()
    assert token not in agent.read(agent.err)
    agent = agents(config, window=60)
    assert printed_link(agent) == link and status("/debug/pprof/", Authorization="Bearer " + token) == 200
    # Whoever wants it open says so.
    agent.configure(config + "token-file = none\n")
    agent.reload()
    assert status("/debug/pprof/") == 200
    assert printed_link(agent) == "http://127.0.0.1:%d/" % port
    agent.stop()


def test_a_terminal_shows_the_link(tmp_path):
    """Who starts it by hand finds the page by what it says."""
    path, port = tmp_path / "a.conf", free_port()
    path.write_text("[agent]\nstate-dir = %s\n[http]\nlisten = 127.0.0.1:%d\n" % (tmp_path / "state", port))
    ours, theirs = pty.openpty()
    text = b""
    with subprocess.Popen([PYPERF, "agent", "--config", path], stdin=theirs, stdout=theirs, stderr=theirs,
                          env=clean_environment()) as process:
        os.close(theirs)
        try:
            while not (link := re.search(rb"the page: (http://\S+)\r\n", text)):
                assert select.select([ours], [], [], PATIENCE)[0], text
                text += os.read(ours, 4096)
            parts = urllib.parse.urlsplit(link[1].decode())
            request = urllib.request.Request("http://127.0.0.1:%d/" % port, headers={
                "Authorization": "Basic " + base64.b64encode(b"pyperf:" + parts.password.encode()).decode()})
            with urllib.request.urlopen(request, timeout=PATIENCE) as page:
                assert b"<html" in page.read()
        finally:
            process.terminate()
            with contextlib.suppress(OSError):  # it must be able to say its last words
                while os.read(ours, 4096):
                    pass
    os.close(ours)


# Stripped, inner() has neither a symbol nor unwind information: nothing says where it begins.
NAMELESS = """
static __attribute__((noinline)) int inner(int n) { volatile int i = 0; while (i < n) i++; return i; }
int work(int n) { return inner(n) + inner(n / 2); }
"""
HASHES = """
import ctypes, hashlib, os, select, sys
work = ctypes.CDLL(sys.argv[1]).work
def digest():
    work(2000000)
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 5000)
    hashlib.md5(bytes(200000)).digest()
def outer():
    while not select.select([0], [], [], 0)[0]:
        digest()
os.write(1, b"ready\\n")
outer()
"""


def test_go_tool_pprof_of_stripped_libraries(agents, tmp_path):
    """The distribution's Python and libcrypto have functions without names. For these it asks /debug/pprof/symbol, and
    without an answer it has no profile."""
    go = find_go()
    if not go:
        pytest.skip("go is not installed")
    port = free_port()
    library = tmp_path / "nameless.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-s", "-fno-asynchronous-unwind-tables", "-x", "c", "-",
                    "-o", library], input=NAMELESS, text=True, check=True)
    with Process(["/usr/bin/python3", "-c", HASHES, library], env=clean_environment(OTEL_SERVICE_NAME="hashes")):
        agent = agents("[http]\nlisten = 127.0.0.1:%d\n" % port, window=60)
        top = subprocess.run([go, "tool", "pprof", "-top", "-cum", "-nodecount=0", "-nodefraction=0",
                              printed_link(agent) + "debug/pprof/profile?seconds=3"],
                             capture_output=True, text=True, timeout=5 * PATIENCE, check=False,
                             env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
        agent.stop()
    assert top.returncode == 0, top.stderr
    for name in "digest", "outer":
        assert re.search(r" %s$" % name, top.stdout, re.M), top.stdout
    saved, = tmp_path.glob("*.pb.gz")
    # There was something to ask for.
    assert any(not f["func"] for s in pprof_read.read(saved)["samples"] for f in s["stack"]), top.stdout


def test_who_leaves_gives_his_place_back(agents):
    """There are two, and the profiles asked for take ten minutes."""
    agent = agents(window=60)

    def status(path):
        with contextlib.closing(UnixConnection(agent.dir / "http.sock")) as connection:
            connection.request("GET", path)
            return connection.getresponse().status

    asking = []
    for _ in range(2):
        asking.append(UnixConnection(agent.dir / "http.sock"))
        asking[-1].request("GET", "/debug/pprof/profile?seconds=600")
        get(agent, "/healthz")  # so it has come in before the next one
    poll(lambda: status("/debug/pprof/profile?seconds=1") == 503, "both places to be taken")
    asking[0].close()
    poll(lambda: status("/debug/pprof/profile?seconds=1") == 200, "a place")
    asking[1].sock.shutdown(socket.SHUT_WR)
    assert asking[1].getresponse().read() == b""
    agent.stop()


class Backend(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        self.take(self.server.bodies)

    def do_POST(self):
        self.take(self.server.posted)

    def take(self, bodies):
        bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def test_windows_are_stored_and_pushed(agents, tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server, service("kappa"):
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = "[store]\nenabled = yes\n[push.here]\nkind = put\nurl = http://127.0.0.1:%d/{id}.pb.gz\n" % server.server_port
        agent = agents(config)
        agent.wait_windows("kappa", 2)
        agent.reload()
        agent.wait_windows("kappa", 3)
        assert re.search(r'^pyperf_push\w*\{[^}]*"here"', get(agent, "/metrics").decode(), re.M)
        samples = agent.stop()
        server.shutdown()
    with contextlib.closing(sqlite3.connect(agent.dir / "store.db")) as db:
        assert db.execute("SELECT sum(samples), count(*) FROM window").fetchone() == (samples, len(agent.files()))
    pushed = {}
    for body in server.bodies:
        file = tmp_path / "pushed.pb.gz"
        file.write_bytes(body)
        pushed[body] = pprof_read.read(file)["totals"]["samples"]
    assert sum(pushed.values()) == samples


def otlp_totals(bodies, name):
    """Sums of a service by type, out of requests; each profile has an id of its own."""
    totals, ids = collections.Counter(), []
    for body in bodies:
        request = pprof_read.message(gzip.decompress(body), test_push.OTLP_REQUEST)
        strings = request["dictionary"]["strings"]
        for resource in request["resource_profiles"]:
            labels = {a["key"]: a["value"]["string_value"] for a in resource["resource"]["attributes"]}
            for profile in resource["scope_profiles"][0]["profiles"]:
                ids.append(profile["profile_id"])
                if labels["service.name"] == name:
                    totals[strings[profile["sample_type"]["type"]]] += sum(s["values"][0] for s in profile["samples"])
    assert len(set(ids)) == len(ids)
    return dict(totals)


def test_a_window_has_all_events(agents, tmp_path):
    """One window, one row of the store and one push have the columns of all events; names of the program tell whose they are."""
    script = FAULTS + (SPIN % {"name": "mu"}).replace("        mu_inner()", "        mu_inner()\n        touch()")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server, \
            Process([sys.executable, "-c", script], env=clean_environment(OTEL_SERVICE_NAME="mu")):
        server.bodies, server.posted = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent = agents("events = cpu-clock, page-faults\n[store]\nenabled = yes\n[push.here]\nkind = put\n"
                       "url = http://127.0.0.1:%d/{id}.pb.gz\n[push.there]\nkind = otlp\nmax-windows = 1\n"
                       "url = http://127.0.0.1:%d\n" % (server.server_port, server.server_port))
        agent.wait_windows("mu", 3)
        poll(lambda: sum(w.profile["totals"]["page-faults"] for w in agent.windows() if w.service == "mu") > 512, "page faults")
        assert json.loads(get(agent, "/api/services"))["values"] == ["cpu-clock", "page-faults"]
        pages = [get(agent, "/flame?service=mu" + value).decode() for value in ("", "&value=page-faults")]
        assert ['"many":"%s"' % noun in page for page in pages for noun in ("samples", "page faults")] == \
            [True, False, False, True]
        file = tmp_path / "one.pb.gz"
        file.write_bytes(get(agent, "/api/profile?service=mu&value=page-faults"))
        assert pprof_read.read(file)["types"][1] == "page-faults/count"
        file.write_bytes(get(agent, "/api/profile?service=mu"))
        assert len(pprof_read.read(file)["types"]) == 4
        samples = agent.stop()
        server.shutdown()
    windows = [w for w in agent.windows() if w.service == "mu"]
    assert len({(w.service, w.start) for w in agent.windows()}) == len(agent.windows())
    totals, faults = collections.Counter(), collections.Counter()
    for w in windows:
        assert w.profile["types"] == ["samples/count", "cpu/nanoseconds", "page-faults-samples/count", "page-faults/count"]
        assert w.profile["totals"]["samples"] == w.samples
        totals.update(w.profile["totals"])
        for sample in w.profile["samples"]:
            functions = {f["func"] for f in sample["stack"]}
            faults["touch" in functions] += sample["values"]["page-faults"]
            totals["spins"] += sample["values"]["samples"] * ("mu_inner" in functions)
    assert totals["page-faults"] > 512 and faults[True] > 0.9 * totals["page-faults"]
    assert totals["spins"] > 0.5 * totals["samples"]
    stored = tmp_path / "stored.pb.gz"
    report = subprocess.run([PYPERF, "report", "--store", agent.dir / "store.db", "--service", "mu", "-o", stored], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr
    assert pprof_read.read(stored)["totals"]["page-faults"] == totals["page-faults"]
    pushed = 0
    for body in server.bodies:
        file = tmp_path / "pushed.pb.gz"
        file.write_bytes(body)
        pushed += pprof_read.read(file)["totals"]["samples"]
    assert pushed == samples
    assert otlp_totals(server.posted, "mu") == {t: totals[t] for t in ("samples", "page-faults")}


WAITER = """
import ctypes, os, select, sys, threading, time
def holder_sleeps():
    ctypes.PyDLL(None).usleep(20000)
def spins_and_waits():
    while True:
        pass
def sleeps_long():
    while True:
        time.sleep(0.2)
def holds():
    while True:
        holder_sleeps()
        time.sleep(0.01)
for f in (spins_and_waits, sleeps_long, holds):
    threading.Thread(target=f, daemon=True).start()
os.write(1, b"ready\\n")
select.select([0], [], [])
os._exit(0)
"""
SLEEPER = """
import os, select, sys
def naps():
    while not select.select([0], [], [], 0.1)[0]:
        pass
os.write(1, b"ready\\n")
naps()
"""
# What waits are called: the label __name__, sample types and the type of the period.
SERIES_TYPES = {
    "process_cpu": (["samples/count", "cpu/nanoseconds"], "cpu/nanoseconds"),
    "off_cpu": (["samples/count", "off_cpu/nanoseconds"], "off_cpu/nanoseconds"),
    "block": (["contentions/count", "delay/nanoseconds"], "contentions/count"),
    "mutex": (["contentions/count", "delay/nanoseconds"], "contentions/count"),
}


def series_totals(bodies, fields, name, path):
    """Seconds by __name__ of what was pushed for a service, and the functions in it; no id comes twice."""
    totals, functions, ids = collections.Counter(), collections.defaultdict(set), []
    for body in bodies:
        for series in pprof_read.message(body, fields)["series"]:
            labels = series["labels"] if isinstance(series["labels"], list) else series["labels"]["labels"]
            labels = {la["name"].decode(): la["value"].decode() for la in labels}
            sample, = series["samples"]
            ids.append(sample.get("id", len(ids)))
            if labels["service_name"] != name:
                continue
            path.write_bytes(sample["raw_profile"])
            read = pprof_read.read(path)
            types, period = SERIES_TYPES[labels["__name__"]]
            assert read["types"] == types and read["period_type"] == period, read["types"]
            totals[labels["__name__"]] += read["totals"][types[1].split("/")[0]] / 1e9
            functions[labels["__name__"]] |= {f["func"] for s in read["samples"] for f in s["stack"]}
    assert len(set(ids)) == len(ids)
    return totals, functions


def test_waits(agents, tmp_path):
    """Waits and the GIL beside the clock: in windows, store and page, and pushed under the names that backends have for them."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for kind in ("pyroscope", "otlp", "put"):
            server = servers[kind] = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend))
            server.bodies, server.posted = [], []
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        parca = stack.enter_context(fault_server.GrpcServer())
        stack.enter_context(Process([sys.executable, "-c", WAITER], env=clean_environment(OTEL_SERVICE_NAME="nu")))
        stack.enter_context(Process([sys.executable, "-c", SLEEPER], env=clean_environment(OTEL_SERVICE_NAME="xi")))
        agent = agents("events = cpu-clock, off-cpu, gil\n[budget]\ncpu = 50\n[store]\nenabled = yes\n" + "".join(
            "[push.%s]\nkind = %s\nmax-windows = 1\nurl = http://127.0.0.1:%d%s\n" % (
                kind, kind, server.server_port, "/{id}.pb.gz" if kind == "put" else "") for kind, server in servers.items())
            + "[push.parca]\nkind = parca\nurl = %s\n" % parca.url)
        agent.wait_windows("nu", 3)
        agent.wait_windows("xi", 2)
        assert json.loads(get(agent, "/api/services"))["values"] == ["cpu-clock", "off-cpu", "gil", "gil-held"]
        page = get(agent, "/flame?service=nu&value=gil-held").decode()
        assert "holder_sleeps" in page and "waits: sleep" in page
        samples = agent.stop()
    windows = [w for w in agent.windows() if w.service == "nu"]
    totals, waits = collections.Counter(), collections.Counter()
    for w in windows:
        assert w.profile["totals"]["samples"] == w.samples
        totals.update(w.profile["totals"])
        for sample in w.profile["samples"]:
            names = [f["func"] for f in sample["stack"]]
            waits["sleeps_long"] += sample["values"]["off-cpu"] * ("sleeps_long" in names and "[waits: sleep]" in names)
    elapsed = sum(w.duration for w in windows)
    assert 0.8 * elapsed < waits["sleeps_long"] < 1.1 * elapsed
    assert totals["gil"] > 0.2 * elapsed and totals["gil-held"] == pytest.approx(totals["gil"], rel=0.2)
    assert sum(w.samples for w in agent.windows()) == samples
    stored = tmp_path / "stored.pb.gz"
    report = subprocess.run([PYPERF, "report", "--store", agent.dir / "store.db", "--service", "nu", "-o", stored], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr
    assert pprof_read.read(stored)["totals"]["off-cpu"] == totals["off-cpu"]
    sums = {"process_cpu": totals["cpu"], "off_cpu": totals["off-cpu"], "block": totals["gil"], "mutex": totals["gil-held"]}
    for bodies, fields in ((servers["pyroscope"].posted, test_push.PUSH_REQUEST),
                           ([request.body for request in parca.taken], test_push.WRITE_RAW_REQUEST)):
        pushed, functions = series_totals(bodies, fields, "nu", tmp_path / "series.pb.gz")
        assert pushed == {name: pytest.approx(ns / 1e9) for name, ns in sums.items()}
        assert "holder_sleeps" in functions["mutex"] and "sleeps_long" in functions["off_cpu"]
        assert "[waits: GIL]" in functions["block"] and "[waits: sleep]" not in functions["block"]
    otlp = otlp_totals(servers["otlp"].posted, "nu")
    assert otlp == {"samples": totals["samples"], "off_cpu": totals["off-cpu"], "gil": totals["gil"], "gil-held": totals["gil-held"]}


def test_waits_that_exclude_each_other(agents, tmp_path):
    for value, words in (("cpu-clock, off-cpu, wall", "exclude each other"), ("cpu-clock, growth", "pyperf-bpf memory"),
                         ("off-cpu", "cpu-clock or task-clock first"), ("cpu-clock, page-faults, off-cpu, gil", "counts as two")):
        file = tmp_path / "bad.conf"
        file.write_text("[agent]\nevents = %s\n" % value)
        done = subprocess.run([AGENT, "--config", file, "--check-config"], capture_output=True, text=True)
        assert done.returncode and ":2: events: " in done.stderr and words in done.stderr, done.stderr
    file.write_text("[agent]\nevents = cpu-clock, gil\n")
    printed = subprocess.run([AGENT, "--config", file, "--print-config"], capture_output=True, text=True, check=True).stdout
    file.write_text(printed)
    assert subprocess.run([AGENT, "--config", file, "--print-config"], capture_output=True, text=True, check=True).stdout == printed


def test_an_endpoint_that_cannot_be_had_is_tried_again(agents, tmp_path):
    token = tmp_path / "token"
    agent = agents(window=60)
    agent.configure("[http]\ntoken-file = %s\n" % token)
    agent.reload()
    assert "%s: No such file or directory" % token in agent.messages()
    with pytest.raises(OSError):
        get(agent, "/healthz")
    token.write_text("a-token\n")
    agent.reload()  # with the same configuration
    assert get(agent, "/healthz")
    assert "a-token" not in "".join(agent.messages())
    agent.stop()


def test_log_level_by_signal(agents):
    agent = agents()
    os.kill(agent.pid, signal.SIGUSR1)
    poll(lambda: '"level":"debug"' in agent.read(agent.err), "debug messages")
    os.kill(agent.pid, signal.SIGUSR2)
    agent.stop()


def test_watchdog(agents):
    agent = agents(WATCHDOG_USEC="3000000")
    for _ in range(2):
        agent.expect("WATCHDOG=1")
    os.kill(agent.pid, signal.SIGTERM)
    assert "STATUS=" in agent.expect("STOPPING=1")
    agent.wait()


@pytest.fixture
def standing(agents):
    """An agent whose main thread waits for somebody to write into its configuration, a FIFO."""
    agent = agents(window=60)
    text = agent.config.read_text()
    agent.config.unlink()
    os.mkfifo(agent.config)
    os.kill(agent.pid, signal.SIGHUP)
    said = r"sampling has stood still for \d+ s, reading the configuration: it waits for: open(at)?\(\) of %s" % re.escape(
        str(agent.config))
    poll(lambda: any(re.match(said, m) for m in agent.messages("warning")), "what sampling waits for")
    return agent, text


def test_standing_still_is_said_with_what_it_waits_for(standing):
    agent, text = standing
    agent.config.write_text(text)
    poll(lambda: any(re.match(r"sampling continues after \d+ s", m) for m in agent.messages()), "that it continues")
    agent.stop()


def test_one_sigterm_is_enough(standing):
    """It ends by itself when nothing else can be had of it, and says what kept it."""
    agent, _ = standing
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.process.wait(PATIENCE) == -signal.SIGTERM
    assert any("sampling has stood still" in m and "the agent ends without it" in m for m in agent.messages("warning"))
    assert any("nothing moved for 2 s" in m for m in agent.messages("error"))


def test_a_second_sigterm_ends_it_at_once(standing):
    agent, _ = standing
    os.kill(agent.pid, signal.SIGTERM)
    begin = time.monotonic()
    while agent.process.poll() is None and time.monotonic() < begin + PATIENCE:
        os.kill(agent.pid, signal.SIGTERM)
        time.sleep(0.02)
    assert agent.process.wait(PATIENCE) == -signal.SIGTERM
    assert not any("nothing went on" in m for m in agent.messages("error"))


@pytest.mark.parametrize("text,said", [
    ("[agent]\nwindow = 5\n", "a.conf:2: window: seconds, from 10 to 60"),
    ("[agent]\nwindow = 60\n\n[lables]\nhost = x\n", "a.conf:5: lables: there is no such section"),
    ("window = 60\n", "a.conf:1: window: stands in no section"),
])
def test_bad_configurations(tmp_path, text, said):
    path = tmp_path / "a.conf"
    path.write_text(text)
    for options in (["--check-config"], []):
        result = subprocess.run([PYPERF, "agent", "--config", path, *options], capture_output=True, text=True,
                                env=clean_environment(), check=False)
        assert result.returncode == 1
        assert result.stderr.count(said) == 1 and result.stdout == ""


def test_secrets_that_everyone_can_read(agents, tmp_path):
    files = {name: tmp_path / name for name in ("token", "tls_key", "header", "header2", "bearer", "password", "key", "certificate")}
    for file in files.values():
        file.write_text("x")
    config = """[http]\nlisten = %s\ntoken-file = {token}\n%s
[push.a]\nkind = put\nurl = https://127.0.0.1:1/{{id}}\nheader-file = X-A: {header}\nheader-file = X-B: {header2}
username = x\npassword-file = {password}\ncert-file = {certificate}\nkey-file = {key}
[push.b]\nkind = put\nurl = https://127.0.0.1:1/{{id}}\nbearer-token-file = {bearer}
"""
    keys = {"http": ("token", "tls_key"), "push.a": ("header", "header2", "password", "key"), "push.b": ("bearer",)}
    path = tmp_path / "a.conf"

    def said():
        path.write_text((config % ("127.0.0.1:4041", "tls-cert = {certificate}\ntls-key = {tls_key}")).format(**files))
        result = subprocess.run([PYPERF, "agent", "--check-config", "--config", path], capture_output=True, text=True,
                                env=clean_environment(), check=False)
        assert result.returncode == 0, result.stderr
        return [line for line in result.stderr.splitlines() if "configuration is valid" not in line]

    for mode, bad in ((0o644, True), (0o604, True), (0o640, False), (0o600, False)):
        for file in files.values():
            file.chmod(mode)
        files["certificate"].chmod(0o644)
        lines = said()
        for section, names in keys.items() if bad else ():
            for name in names:
                line, = [s for s in lines if "%s (mode %04o): chmod 600 %s" % (files[name], mode, files[name]) in s]
                assert "[%s] " % section in line
        assert len(lines) == (7 if bad else 0), lines
    for name, secret in (("Authorization", True), ("x-api-key", True), ("X-Scope-OrgID", False), ("X-A", False)):
        path.write_text("[push.a]\nkind = put\nurl = https://127.0.0.1:1/{id}\nheader = %s: token\n" % name)
        for mode in (0o644, 0o640):
            path.chmod(mode)
            result = subprocess.run([PYPERF, "agent", "--check-config", "--config", path], capture_output=True,
                                    text=True, env=clean_environment(), check=False)
            bad = "[push.a] header: every user of this host can read %s (mode 0644): chmod 600 %s" % (path, path)
            assert (bad in result.stderr) == (secret and mode == 0o644), result.stderr
            assert result.returncode == 0 and ": token" not in result.stderr
    files["token"].chmod(0o644)
    agent = agents("[http]\ntoken-file = %s\n" % files["token"])
    agent.stop()
    assert sum("chmod 600 %s" % files["token"] in m for m in agent.messages("warning")) == 1


def test_example_configuration(tmp_path):
    """As it is, and with all its keys: everything that it shows can be set."""
    example = REPO / "docs" / "agent.conf"
    every = tmp_path / "a.conf"
    text = re.sub(r"^#(\w[\w.-]* = .*)", r"\1", example.read_text(encoding="utf-8"), flags=re.M)
    # Its files are not on this machine.
    for name in ("token", "tls.crt", "tls.key"):
        (tmp_path / name).touch(0o600)
    (tmp_path / "windows").mkdir()
    every.write_text(text.replace("/etc/pyperf-bpf/", "%s/" % tmp_path).replace("/var/tmp/", "%s/" % tmp_path))
    for path in (example, every):
        result = subprocess.run([PYPERF, "agent", "--check-config", "--config", path], capture_output=True, text=True,
                                env=clean_environment(), check=False)
        assert result.returncode == 0, result.stderr
    page = (REPO / "docs" / "pyperf-bpf-agent.8").read_text(encoding="utf-8").replace("\\-", "-")
    for key in re.findall(r"^([\w-]+) = ", text, re.M):
        assert "\\fB%s\\fR" % key in page, "%s is not in the manual" % key


def run_agent(*args, **environment):
    return subprocess.run([PYPERF, "agent", *args], capture_output=True, text=True, env=clean_environment(**environment),
                          check=False)


def test_printed_configuration(tmp_path):
    """The one in effect, which reads back as the same; also without a file."""
    path, printed = tmp_path / "a.conf", tmp_path / "b.conf"
    path.write_text("[agent]\nwindow = 30\n[push.a]\nkind = put\nurl = https://h/{id}\nheader = X-Key: secret\n")
    first = run_agent("--config", path, "--print-config")
    assert first.returncode == 0 and first.stderr == "", first
    assert "window = 30s\n" in first.stdout and "frequency = 19Hz\n" in first.stdout and "secret" not in first.stdout
    printed.write_text(first.stdout)
    assert run_agent("--config", printed, "--print-config").stdout == first.stdout
    path.write_text("")
    assert run_agent("--config", path, "--print-config").stdout == re.sub(r"(?s)\n\[push.*", "", first.stdout).replace(
        "window = 30s", "window = 60s")


def test_what_check_config_says_of_files_groups_and_keys(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("[agent]\nwindow = 30\nwindow = 20\ngroup = servce_name\n[http]\ntoken-file = %s/none\n" % tmp_path)
    result = run_agent("--config", path, "--check-config")
    assert result.returncode == 1
    for said in ("a.conf:3: window: line 2 sets it already: remove one of the two",
                 "a.conf:4: group: there is no label 'servce_name': ",
                 "a.conf:6: token-file: %s/none: No such file or directory: make it, or correct the path" % tmp_path):
        assert result.stderr.count(said) == 1, result.stderr
    path.write_text("[http]\ntoken-file = %s/none\n" % tmp_path)
    result = run_agent("--config", path, "--check-config")
    assert result.returncode == 1 and "a.conf:2: token-file" in result.stderr and "configuration is valid" not in result.stderr


def test_lost_events_are_said(agents):
    """More forks than there is room for, while it cannot run."""
    agent = agents(window=60)
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        run = "import os\nfor i in range(9000):\n    pid = os.fork()\n    if not pid:\n        os._exit(0)\n    os.waitpid(pid, 0)"
        subprocess.run([sys.executable, "-S", "-c", run], check=True)
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    poll(lambda: any(re.match(r"event_lost: \d+ events", m) for m in agent.messages("warning")), "the events that were lost")
    agent.stop()


def test_what_the_store_keeps_is_said_at_the_start(agents, tmp_path):
    """Of one that is there by what is in it; and that the disk has less free than it should."""
    tool = os.path.join(os.path.dirname(PYPERF), "store", "windows")
    store = tmp_path / "store.db"
    subprocess.run([tool, "write", store, "0", "100", "3000"], check=True, stdout=subprocess.DEVNULL)
    config = "[store]\nenabled = yes\npath = %s\nkeep-free = %s\n"
    agent = agents(config % (store, 0))
    agent.stop()
    said, = (m for m in agent.messages("info") if m.startswith("store: "))
    assert re.search(r": 100 windows, [\d.]+ MiB of at most 2.0 GiB; at this rate it keeps 7.0 days \(max-age\)$", said)
    agent = agents(config % (store, "1024GiB"), state="other")
    agent.stop()
    said, = (m for m in agent.messages("warning") if m.startswith("store: "))
    assert re.search(r"max-size of 2.0 GiB, because the file system has [\d.]+ GiB free and keep-free is 1024.0 GiB", said)


def test_the_end_says_what_still_waits(agents):
    with service("sigma") as name:
        agent = agents("[push.down]\nkind = put\nurl = http://127.0.0.1:1/{id}\n")
        spool = agent.dir / "spool" / "down"
        poll(lambda: list(spool.glob("*.window")), "windows that wait")
        agent.stop()
    said, = (m for m in agent.messages("warning") if "left in the spool for the next start: " in m)
    cnt = len(list(spool.glob("*.window")))
    assert re.match(r"push down: left in the spool for the next start: %d windows? of \d+ services?: .* \d+" % cnt,
                    said), (said, cnt, name)


def test_the_spool_of_a_removed_destination(agents, tmp_path):
    """It is named, and stays until it is removed by an option."""
    old = "[push.old]\nkind = put\nurl = http://127.0.0.1:1/{id}\n"
    with service("tau"):
        agent = agents(old)
        spool = agent.dir / "spool" / "old"
        poll(lambda: list(spool.glob("*.window")), "windows that wait")
        assert not any("--remove-spools" in m for m in agent.messages())
        agent.configure()
        agent.reload()
        poll(lambda: any("spool old: " in m and "[push.old]" in m and "--remove-spools" in m
                         for m in agent.messages("warning")), "the spool's name")
        agent.stop()

    def remove():
        return run_agent("--config", agent.config, "--remove-spools", PYPERF_AGENT_SHORT_WINDOWS="1")

    (spool / "mine").touch()
    result = remove()
    assert result.returncode == 1 and "spool old: Directory not empty" in result.stderr, result.stderr
    (spool / "mine").unlink()
    result = remove()
    assert result.returncode == 0 and not spool.exists(), result.stderr
    agent.configure(old)
    spool.mkdir()
    assert remove().returncode == 0 and spool.exists()


def test_good_configuration_and_none(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("[agent]\nwindow = 60\n")
    result = subprocess.run([PYPERF, "agent", "--config", path, "--check-config"], capture_output=True, text=True,
                            env=clean_environment(), check=False)
    assert result.returncode == 0 and "configuration is valid" in result.stderr
    path.unlink()
    result = subprocess.run([PYPERF, "agent", "--config", path], capture_output=True, text=True,
                            env=clean_environment(), check=False)
    assert result.returncode == 1 and "a.conf: No such file or directory" in result.stderr
