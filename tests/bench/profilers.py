# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How each profiler is found, started on a target, stopped and read."""
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable

from runs import LAST_CPU, BenchError

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("PYPERF_TEST_CACHE", Path.home() / ".cache/pyperf-bpf"))
PEERS = CACHE / "peers"
OURS = os.environ.get("PYPERF_BPF", str(ROOT / ".output/pyperf-bpf"))


@dataclasses.dataclass(eq=False)
class Profiler:
    """argv(target, hz, output file) starts it; read(output file, what it said) is its result."""
    name: str
    argv: Callable
    read: Callable = lambda output, said: {}
    bpf: bool = False       # samples with a BPF program
    stop: int = signal.SIGINT   # 0: the end of its stdin
    after: Callable = lambda output: ()  # commands to be run for the result
    every_run: bool = False  # each run of that is a sample of the target
    ready: Callable = lambda: True  # it has found the target
    begins: str = ""        # what it says when it begins
    settle_s: float = 0     # until it is surely at work, where nothing tells
    python: tuple = ()      # the only interpreter that it works with
    note: str = ""


# ---- ours ----------------------------------------------------------------------------------------

def read_ours(output, said):
    profile = json.loads(output.with_suffix(".json").read_text())
    drain = re.search(r"^counter drain_ns (\d+)$", said, re.M)
    return {"counters": profile.get("counters", {}), "cost": profile["cost"],
            "duration_s": profile["duration_s"], "cpus": profile["cpus"],
            "stacks": len(profile["stacks"]), "drain_ns": int(drain[1]) if drain else None}


def ours(program=OURS, name="pyperf-bpf"):
    def argv(target, hz, output):
        who = ["-p", str(target.pid)] + ["--children"] * target.workload.family
        return [program, "-v", "-F", str(hz), *who, "-o", "%s.json" % output]

    return Profiler(name, argv, read_ours, bpf=True)


def of_commit(commit):
    """Ours as it was, built from the repository's history below .output/against; it stays there."""
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "-q", commit + "^{commit}"],
                           capture_output=True, text=True)
    if found.returncode:
        raise BenchError("--against: this repository has no commit '%s'" % commit)
    number = found.stdout.strip()[:12]
    there = ROOT / ".output/against" / number
    program = there / ".output/pyperf-bpf"
    if not program.exists():
        there.mkdir(parents=True, exist_ok=True)
        archive = subprocess.Popen(["git", "-C", ROOT, "archive", number], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", there], stdin=archive.stdout, check=True)
        if archive.wait():
            raise BenchError("--against: git archive %s failed" % number)
        # Of the make that may have called us, nothing counts.
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        subprocess.run(["make", "-s", "-C", there, "-j%d" % os.cpu_count(), ".output/pyperf-bpf"], env=env,
                       stdout=sys.stderr, check=True)
    return ours(str(program), number)


def ours_on_all(*options):
    """Every process of the machine."""
    return Profiler(" ".join(["pyperf-bpf", *options]), lambda target, hz, output:
                    [OURS, "-v", "-F", str(hz), *options, "-o", "%s.json" % output], read_ours, bpf=True)


def agent():
    """With its store, at a rate that its budget does not lower."""
    def argv(target, hz, output):
        config, state = output.with_suffix(".conf"), output.with_suffix(".state")
        state.mkdir(mode=0o700)
        config.write_text("[agent]\nfrequency = %d\nstate-dir = %s\n[budget]\ncpu = 100%%\n"
                          "[http]\nlisten = unix:%s/http.sock\n" % (hz, state, state))
        return [OURS, "agent", "--config", str(config)]

    return Profiler("pyperf-bpf agent", argv, bpf=True, stop=signal.SIGTERM)


def helper(name):
    """A program of tests/bench, built; its path."""
    path = ROOT / ".output/bench" / name
    subprocess.run(["make", "-s", "-C", ROOT, path.relative_to(ROOT)], stdout=sys.stderr, check=True)
    return str(path)


def empty():
    path = helper("bench_empty")
    return Profiler("empty handler", lambda target, hz, output: [path, str(hz)], bpf=True,
                    every_run=True, stop=0)


def samples_frames_ns(output, said):
    """What bench_getstack prints."""
    samples, frames, ns = map(int, said.split())
    return {"samples": samples, "frames": frames, "ns": ns}


def get_stack():
    path = helper("bench_getstack")
    return Profiler("bpf_get_stack()", lambda target, hz, output: [path, "all", str(hz)],
                    samples_frames_ns, bpf=True, stop=0)


# ---- peers ---------------------------------------------------------------------------------------

def collapsed(output, said):
    """Lines that end in a count."""
    text = output.read_text(errors="replace") if output.exists() else said
    return {"samples": sum(int(n) for n in re.findall(r" (\d+)$", text, re.M))}


def lines(output, said):
    """austin: one line for each sample, with its duration."""
    text = output.read_text(errors="replace") if output.exists() else ""
    return {"samples": len(re.findall(r"^P\d+;", text, re.M))}


def perf_samples(output, said):
    found = re.search(r"\((\d+) samples\)", said)
    return {"samples": int(found[1]) if found else None}


def stacks_of_maps(output, said):
    """bpftrace prints "]: COUNT" behind each stack."""
    return {"samples": sum(int(n) for n in re.findall(r"\]: (\d+)$", said, re.M))}


def find(name):
    """On PATH, or in the environment that --install-peers makes."""
    return shutil.which(name) or shutil.which(name, path=PEERS / "bin")


def works(argv):
    try:
        return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install():
    """py-spy and austin from PyPI."""
    subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
    pip = [PEERS / "bin/pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "py-spy"], check=True)
    # Version 4 is built against glibc 2.38.
    for version in ("austin-dist", "austin-dist<4"):
        subprocess.run([*pip, version], check=True)
        if works([PEERS / "bin/austin", "--version"]):
            break


IN_ROOT = ("mount --rbind /proc \"$0/proc\" && mount --bind /tmp \"$0/tmp\" && "
           "exec chroot \"$0\" \"$@\"")


def in_a_root(version):
    """(a command, its file): this CPython of a test root (scripts/test-roots); ((), None): there is none."""
    program = "/usr/bin/python" + version
    for root in sorted((CACHE / "roots").glob("*")):
        if (root / program[1:]).exists():
            return ("unshare", "--mount", "--propagation", "private", "sh", "-c", IN_ROOT, str(root), program), root / program[1:]
    return (), None


def python315():
    """A command: CPython 3.15 of this system, or of a test root."""
    return (shutil.which("python3.15"),) if shutil.which("python3.15") else in_a_root("3.15")[0]


def py_spy(native):
    return Profiler(
        "py-spy --native" if native else "py-spy",
        lambda target, hz, output: [find("py-spy"), "record", "-p", str(target.pid), "-r", str(hz),
                                    "-f", "raw", "-o", str(output), *["--native"] * native],
        collapsed, settle_s=2 if native else 1)


def austin():
    return Profiler("austin", lambda target, hz, output:
                    [find("austin"), "-i", str(1000000 // hz), "-p", str(target.pid),
                     "-o", str(output)], lines, settle_s=1)


def perf():
    return Profiler("perf --call-graph dwarf", lambda target, hz, output:
                    [find("perf"), "record", "-e", "cpu-clock", "-F", str(hz), "--call-graph",
                     "dwarf", "-p", str(target.pid), "-o", str(output)], perf_samples, settle_s=1,
                    after=lambda output: ([find("perf"), "script", "-i", str(output)],),
                    note="copies stacks, unwinds them later")


def bpftrace():
    return Profiler("bpftrace ustack", lambda target, hz, output:
                    [find("bpftrace"), "-e", "profile:hz:%d /pid == %d/ { @[ustack] = count(); }"
                     % (hz, target.pid)], stacks_of_maps, bpf=True,
                    note="frame pointers; no Python frames")


def sampling(python):
    """Looks for the target's files by their names, so it has to see the same ones."""
    def argv(target, hz, output):
        enter = ["nsenter", "-t", str(target.pid), "-m", "-r", "-w", "/usr/bin/python3.15"]
        return [*(enter if len(python) > 1 else python), "-m", "profiling.sampling", "attach",
                "-r", str(hz), "-d", "3600", "--collapsed", "-o", str(output), str(target.pid)]

    return Profiler("profiling.sampling", argv, collapsed, settle_s=1.5, python=python,
                    note="on CPython 3.15; Python frames only")


OTEL = "OpenTelemetry eBPF profiler"
WITH_TRACEFS = ("unshare", "--mount", "--propagation", "private", "sh", "-c",
                "mount -t tracefs tracefs /sys/kernel/tracing && exec \"$0\" \"$@\"")


def otel(program, collector):
    """Samples one CPU only, so that each sample is the target's, which is pinned to that CPU. It is
    ready when it has reported a Python function of the target."""
    prefix = () if Path("/sys/kernel/tracing/events").exists() else WITH_TRACEFS

    def argv(target, hz, output):
        collector.last = b""
        return [*prefix, program, "-collection-agent", "127.0.0.1:%d" % collector.port,
                "-disable-tls", "-samples-per-second", str(hz), "-pin-cpu-ids", str(LAST_CPU),
                "-monitor-interval", "1s", "-reporter-interval", "1s", "-t", "python"]

    return Profiler(OTEL, argv, bpf=True, every_run=True, ready=lambda: b"between" in collector.last)


def otel_on_all(program, collector):
    """Samples all CPUs."""
    one = otel(program, collector)

    def argv(target, hz, output):
        words = one.argv(target, hz, output)
        at = words.index("-pin-cpu-ids")
        return words[:at] + words[at + 2:]

    return Profiler(OTEL, argv, bpf=True)


def find_otel(program):
    return program or find("ebpf-profiler")


def of_a_process():
    """(those that are installed, {name of those that are not: why})."""
    found, missing = [], {}

    def add(name, tool, make, *args):
        if not tool:
            missing[name] = "not installed"
        elif not works([tool, "--version"]):
            missing[name] = "%s --version fails" % tool
        else:
            found.append(make(*args))

    add("py-spy", find("py-spy"), py_spy, False)
    add("py-spy --native", find("py-spy"), py_spy, True)
    add("austin", find("austin"), austin)
    add("perf --call-graph dwarf", find("perf"), perf)
    add("bpftrace ustack", find("bpftrace"), bpftrace)
    python = python315()
    if python and works([*python, "-c", "import profiling.sampling"]):
        found.append(sampling(python))
    else:
        missing["profiling.sampling"] = "no CPython 3.15 that has it"
    return found, missing


def peers(otel_program, collector):
    """The same, and the profiler that samples a CPU."""
    found, missing = of_a_process()
    program = find_otel(otel_program)
    if program and works([program, "--version"]):
        found.append(otel(program, collector))
    else:
        missing[OTEL] = "%s --version fails" % program if program else "not installed"
    return found, missing


# ---- of waits ------------------------------------------------------------------------------------

def ours_of(event):
    """With an event of waits, or several."""
    one = ours()

    def argv(target, hz, output):
        return [*one.argv(target, hz, output), "-e", event]

    return Profiler("pyperf-bpf -e " + event, argv, read_ours, begins="the profile begins", settle_s=1)


def perf_sched():
    """All switches of the machine, without stacks."""
    return Profiler("perf sched record", lambda target, hz, output:
                    [find("perf"), "sched", "record", "-q", "-o", str(output)], settle_s=1)


def offcputime(tool):
    """All threads of the machine, for it takes one process at most; without Python frames."""
    return Profiler("bcc offcputime", lambda target, hz, output: [tool], settle_s=1)


def otel_waits(program, collector):
    """All threads of the machine, one wait in a hundred."""
    one = otel_on_all(program, collector)
    return Profiler(OTEL + ", off-CPU", lambda target, hz, output:
                    [*one.argv(target, hz, output), "-off-cpu-threshold", "0.01"], settle_s=8)


def of_waits(events, otel_program, collector):
    """(ours with each event, and the others that are installed; {name of those that are not: why})."""
    found, missing = [ours_of(e) for e in events], {}
    if find("perf"):
        found.append(perf_sched())
    else:
        missing["perf sched record"] = "not installed"
    # The one of libbpf-tools; that of bpfcc-tools compiles itself with the kernel's headers first.
    tool = find("offcputime") or find("offcputime-bpfcc")
    if tool:
        found.append(offcputime(tool))
    else:
        missing["bcc offcputime"] = "not installed"
    program = find_otel(otel_program)
    if program:
        found.append(otel_waits(program, collector))
    else:
        missing[OTEL + ", off-CPU"] = "not installed"
    return found, missing
