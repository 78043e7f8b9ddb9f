# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent over real programs: windows, services, accounting, signals, and life side by side."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from agent_runs import AGENT, SPIN, agents, failing_batch, get, run_agent, service  # noqa: F401: fixtures
from harness import PATIENCE, PYPERF, Process, clean_environment, find_tool, poll, profile, spend

pytestmark = pytest.mark.beside


def test_windows_of_services(agents):
    with service("alpha", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test") as alpha, service("beta"):
        agent = agents(window=2)
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
    with service("large"):
        # Each of the brief ones has some three samples, even on a slow machine, as it imports next to nothing; the large one
        # has more, even if it gets a tenth of a CPU.
        agent = agents("small = 15\n", window=2)
        agent.wait_windows("large", 1)
        for run in range(480):
            subprocess.run([sys.executable, "-I", "-S", "-c", "import time; sum(range(300000)); time.sleep(0.05)"], check=True,
                           env=clean_environment(OTEL_SERVICE_NAME="brief-%d" % run))
            folded = [w for w in agent.windows() if w.service == "(small)"]
            if folded:
                break
        agent.stop()
    assert "large" in {w.service for w in agent.windows()}
    # Where only one is brief, in the last window, it keeps its name.
    assert not {w.service: w.samples for w in agent.windows() if w.service.startswith("brief-") and w.samples >= 15}
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


def traced(pid, tid):
    with open("/proc/%d/task/%s/status" % (pid, tid), encoding="utf-8") as f:
        return "\nTracerPid:\t0\n" not in f.read()


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


# With a signal a thread wakes another one by a write, and looks at what the others do by reads.
@pytest.mark.parametrize("failure", ["write:error=EIO:when=1", "read:error=EIO"])
def test_a_failure_at_the_end_loses_no_window(agents, failure):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    with service("alpha"):
        agent = agents()
        agent.wait_windows("alpha", 1)
        log = agent.dir / "strace"
        with subprocess.Popen(["strace", "-f", "-qq", "-o", log, "-e", "signal=none", "-e", "trace=" + failure.split(":")[0],
                               "-e", "inject=" + failure, "-p", str(agent.pid)]):
            poll(lambda: all(traced(agent.pid, tid) for tid in os.listdir("/proc/%d/task" % agent.pid)), "strace")
            os.kill(agent.pid, signal.SIGTERM)
            result = agent.wait()
    assert "(INJECTED)" in log.read_text()
    assert result.status == 0 and "nothing moved" not in result.stderr, (result.status, result.stderr)
    assert agent.balanced(result)
    if failure.startswith("read"):  # what fails first may also be the write of a window
        assert agent.messages()[-1].endswith(" 0 dropped"), agent.messages()[-1]


def test_a_second_sigterm_ends_it_at_once(standing):
    agent, _ = standing
    os.kill(agent.pid, signal.SIGTERM)
    begin = time.monotonic()
    while agent.process.poll() is None and time.monotonic() < begin + PATIENCE:
        os.kill(agent.pid, signal.SIGTERM)
        time.sleep(0.02)
    assert agent.process.wait(PATIENCE) == -signal.SIGTERM
    assert not any("nothing moved" in m for m in agent.messages("error"))


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
