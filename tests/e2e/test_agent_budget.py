# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Budgets of the agent: memory, stacks, CPU time; and memory that the machine has not."""
import contextlib
import os
import re
import sys

import pytest

from agent_runs import agents, failing_batch, get, service  # noqa: F401: fixtures
from harness import Process, clean_environment, poll

pytestmark = pytest.mark.beside


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
    # Samples weigh what their window says, so CPU time is the same at any frequency. Where a drain was late, what it took
    # from the next window is in the one before.
    spent, lasted = sum(w.samples / w.hz for w in windows), sum(w.duration for w in windows) / 1e9
    assert spent <= 1.15 * lasted + sum(2 / w.hz for w in windows), [(w.samples, w.hz, w.duration) for w in windows]
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
        return int(re.search(r"^pyperf_%s (\d+)$" % re.escape(name), get(agent, "/metrics").decode(), re.M)[1])

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
        # What is due changes with the frequency: at 99 Hz all the time it would be a fifth more than came, and more.
        never, came = metric('notes_total{note="missed"}'), metric("samples_delivered_total")
        assert never < came / 8, (never, came)
        agent.stop()
    all_steps = steps()
    assert all_steps[0] == (99, 66)
    assert all(before[1] == after[0] for before, after in zip(all_steps, all_steps[1:])), all_steps
    rates = [w.hz for w in agent.windows() if w.service == "upsilon"]
    assert {99, 66} <= set(rates) <= {99, *(b for _, b in all_steps)}
    assert rates[-1] > min(rates)
