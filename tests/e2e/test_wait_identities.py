# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Sums that must come out: of a thread, on a CPU + run queue + waiting = its life; of the GIL, waited = charged to holders.

The exact sums are those that the kernel half keeps of each thread, whether its waits are drawn or not. They are compared while the
target is stopped, so that nothing changes between the reading of one side and of the other.
"""
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import interpreters
from harness import PYPERF, Process, Profiler, clean_environment, find_tool, poll, profile, stolen_seconds
from test_waits import FINE_HZ, REASONS, GilRun, Waits

# Threads that spin, on the one CPU that the process has: they wait in the run queue and for the GIL; others sleep and wait for each other.
THREADS = """
import os, socket, sys, threading, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
def spins():
    while True: pass
def naps():
    while True: time.sleep(0.0007)
def hands(out, into):
    while True:
        os.read(out, 1)
        os.write(into, b"x")
a, b = os.pipe(), os.pipe()
jobs = [(spins, ()), (spins, ()), (naps, ()), (hands, (a[0], b[1])), (hands, (b[0], a[1]))]
for f, args in jobs: threading.Thread(target=f, args=args, daemon=True).start()
os.write(a[1], b"x")
if os.fork() == 0: spins()
os.write(1, b"ready\\n")
sys.stdin.read()
os.kill(0, 9)
"""


def tasks(pid):
    return sorted(int(tid) for tid in os.listdir("/proc/%d/task" % pid))


def is_stopped(pid, tid):
    """Also off its CPU, and in no run queue: the state is set before that, and a busy machine may preempt the thread in between."""
    task = Path("/proc/%d/task/%d" % (pid, tid))
    return task.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "T" and task.joinpath("syscall").read_text() != "running\n"


class Stopped:
    """What the kernel and the kernel half say of each thread of a process, while it is stopped."""

    def __init__(self, profiler, pid):
        os.kill(pid, signal.SIGSTOP)
        poll(lambda: all(is_stopped(pid, tid) for tid in tasks(pid)), "all threads to stop")
        # The kernel's own account: on CPUs, and in run queues.
        self.schedstat = {tid: [int(n) for n in Path("/proc/%d/task/%d/schedstat" % (pid, tid)).read_text().split()[:2]]
                          for tid in tasks(pid)}
        self.threads = {t["tid"]: t for t in wait_threads(profiler) if t["tgid"] == pid}
        os.kill(pid, signal.SIGCONT)


def wait_threads(profiler):
    """The elements of the map `waits`."""
    for number in profiler.bpf_ids()["map"]:
        told = json.loads(subprocess.run([find_tool("bpftool"), "-j", "map", "show", "id", str(number)], stdout=subprocess.PIPE, check=True).stdout)
        if told["name"] == "waits":
            dump = subprocess.run([find_tool("bpftool"), "-j", "map", "dump", "id", str(number)], stdout=subprocess.PIPE, check=True).stdout
            return [e["formatted"]["value"] for e in json.loads(dump)]
    return []


def test_life_of_each_thread(any_python):
    """Running + queued + waiting = the time between two switches, to the nanosecond; each is what the kernel says."""
    if not find_tool("bpftool"):
        pytest.skip("bpftool is not installed")
    with Process([any_python, "-c", THREADS], env=clean_environment(), start_new_session=True) as process:
        profiler = Profiler("-f", "-e", "off-cpu", "-F", 99, "-p", process.pid)
        poll(lambda: len([t for t in wait_threads(profiler) if t["tgid"] == process.pid]) >= 5, "all threads to be seen")
        stolen = stolen_seconds()
        before = Stopped(profiler, process.pid)
        cpu = lambda: sum(int(Path("/proc/%d/task/%d/schedstat" % (process.pid, t)).read_text().split()[0]) for t in before.schedstat)
        begin = cpu()
        poll(lambda: cpu() - begin > 0.3e9, "its threads to run for a while")
        after = Stopped(profiler, process.pid)
        stolen = (stolen_seconds() - stolen) * 1e9
        profiler.interrupt_group()
        profiler.wait()
    assert len(after.threads) >= 6
    for tid, t in after.threads.items():
        was = before.threads[tid]
        kept = {key: t[key] - was[key] for key in ("ran_ns", "queued_ns", "waited_ns")}
        life = t["out_ns"] - was["out_ns"]
        ran, queued = (now - then for now, then in zip(after.schedstat[tid], before.schedstat[tid]))
        assert sum(kept.values()) == pytest.approx(life, rel=0.001), (tid, life, kept)
        # The kernel counts no time that interrupts or a hypervisor take.
        assert kept["ran_ns"] == pytest.approx(ran, rel=0.02, abs=0.002 * life + stolen), (tid, life, kept, ran)
        assert kept["queued_ns"] == pytest.approx(queued, rel=0.02, abs=0.002 * life + stolen), (tid, life, kept, queued)


@pytest.fixture(name="cold_file")
def make_cold_file():
    """On a disk, where temporary files need not be."""
    path = Path(PYPERF).parent / ("cold-%d" % os.getpid())
    with open(path, "wb") as f:
        f.write(os.urandom(1 << 24))
        os.fsync(f.fileno())
    yield path
    path.unlink()


@pytest.mark.parametrize("reasons", [REASONS, {"reading_disk": "disk"}, {"faulting": "page fault"}], ids=["calls", "disk", "faults"])
def test_waits_by_the_clocks_of_the_program(any_python, tmp_path, cold_file, reasons):
    """For each thing that a thread can wait for: the time in the function less what the kernel says of CPU and run queue."""
    waits = Waits(any_python, tmp_path / "truth", *reasons, env={"WAITING_FILE": str(cold_file)})
    for label, reason in reasons.items():
        true = waits.truth[label]
        off, queued = true["elapsed"] - true["cpu"], waits.seconds(label, "CPU")
        away = waits.seconds(label) - waits.seconds(label, "CPU", None)
        # Short waits are drawn, and the kernel counts no time that interrupts take.
        room = 0.02 * true["elapsed"] + 0.003 + waits.stolen
        if label == "faulting":  # all of its waits are short: four standard errors
            room += 4 * (off / FINE_HZ) ** 0.5
        told = (label, off, away, queued, waits.seconds(label, reason), true, waits.stolen)
        assert away + queued >= off - room and queued >= true["run_delay"] - room, told
        most = off - true["run_delay"] + room
        # To us a thread waits for a CPU from when it is woken until the tracepoint of the switch. The kernel's count begins when it is
        # in a run queue, where a CPU that was idle has to be told to put it, and ends earlier in the switch. Of waits as short as
        # these, which are thousands, that can be a good part.
        least = most - 2 * room
        assert (least / 4 if label == "faulting" else least) <= away <= most, told
        # The rest waits for the GIL, and for the start of a thread; subprocess also does this and that until its child runs.
        if label != "awaiting_child":
            assert away - waits.seconds(label, reason, "GIL", "lock", "disk") <= room, told
        assert waits.seconds(label, reason) >= 0.5 * (away - waits.seconds(label, "GIL")), told


def check_gil(python, tmp_path, holder, env=()):
    """N x 30 ms with the GIL while another thread always wants it: both trees have the same sum."""
    run = GilRun(python, tmp_path / "truth", holder, "wanting", hz=FINE_HZ, env=env)
    waited, held = run.seconds("gil"), run.seconds("gil-held")
    assert held == pytest.approx(waited, rel=0.02, abs=0.01)
    return run


def test_gil_waited_is_charged(any_python, tmp_path):
    assert check_gil(any_python, tmp_path, "holding_alone").seconds("gil") > 0.3


def without_symbols(python, directory):
    """What to run an interpreter with so that its library, if it has one, has no symbols but those that it exports."""
    for library in Path(python).resolve().parents[1].glob("lib/libpython3.*.so.1.0"):
        subprocess.run([find_tool("strip"), "-o", directory / library.name, library], check=True)
    return {"LD_LIBRARY_PATH": str(directory)}


@pytest.mark.parametrize("name", ["bullseye/2.7", "pyenv/3.6"])
def test_gil_of_old_versions(name, directory):
    """It is where their code says: they have no symbols. A holder sleeps without it, too, or in 2.7 nobody else would ever have it."""
    python = interpreters.named(name)
    if not python:
        pytest.skip("there is no %s" % name)
    env = without_symbols(python, directory) if name.startswith("pyenv") else ()
    stolen = stolen_seconds()
    run = check_gil(python, directory, "holding", env)
    stolen = stolen_seconds() - stolen
    true = {t["label"]: t for t in json.loads((directory / "truth").read_text()).values()}["wanting"]
    wants = run.seconds("gil", "wanting", "[waits: GIL]")
    # Its first wait may be missing.
    assert wants > 0.05
    assert wants == pytest.approx(true["elapsed"] - true["cpu"] - true["run_delay"], rel=0.05, abs=0.035 + stolen), true
    assert run.seconds("gil-held", "holding", "[waits: sleep]") > 0.5 * wants
    assert run.seconds("gil", "[waits: GIL]") == pytest.approx(run.seconds("gil"))
