# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Probes (-e uprobe:..., -e usdt:...): each hit is counted once, with the stack that it had, also while samples of the CPU clock interrupt
the program that takes it."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import interpreters
from conftest import INTERPRETERS
from harness import PYPERF, find_tool, profile, total
from probe_runs import CALLS, THREADS, Run, hits_of, libc_of, names_of
from test_formats import validate

pytestmark = pytest.mark.beside

HERE = Path(__file__).parent
HZ = 9999

def test_hits_alone(any_python, tmp_path):
    run = Run(any_python, tmp_path / "x.json", "uprobe:{libc}:getppid")
    run.check_hits(0)
    counters = run.result.counters
    assert counters["delivered"] == CALLS * THREADS * 2
    assert counters["complete"] >= 0.99 * counters["counted"]
    validate(HERE.parent.parent / "docs/profile.schema.json", tmp_path / "x.json")


@pytest.mark.parametrize("options", [(), ("--nmi",)], ids=["clock", "nmi"])
def test_hits_among_samples(any_python, tmp_path, options):
    """A sample interrupts the program of a probe every 100 us, with maps and scratch in every state."""
    run = Run(any_python, tmp_path / "x.json", "cpu-clock,uprobe:{libc}:getppid", "-F", HZ, *options)
    run.check_hits(1)
    run.check_samples(0, 200)
    # A sample in the middle of a hit: its kernel frames have the program.
    frames = run.document["frames"]
    inside = [s for s in run.stacks(0) if any("on_probe" in frames[f].get("function", "") for f in s["frames"])]
    assert sum(s["samples"] for s in inside) > 20
    assert [v["name"] for v in run.values] == ["cpu-clock", "uprobe:%s:getppid" % os.path.basename(run.libc)]


def claim_all(profiler):
    """As if a program of a probe stood in the middle of a hit on each CPU."""
    maps = [json.loads(subprocess.run([find_tool("bpftool"), "-j", "map", "show", "id", str(n)], stdout=subprocess.PIPE,
                                      check=True).stdout) for n in profiler.bpf_ids()["map"]]
    counters = max(m["id"] for m in maps if m.get("name") == "counters")  # the sampler's was made before
    size = next(m["bytes_value"] for m in maps if m["id"] == counters)
    value = [0] * size
    value[-8] = 1  # `claims`, and a word behind it
    subprocess.run([find_tool("bpftool"), "map", "update", "id", str(counters), "key", "0", "0", "0", "0", "value",
                    *map(str, value)], check=True)


def test_refused_hits_are_counted(any_python, tmp_path):
    """Programs of probes may interrupt each other where the kernel is preemptible: the second one leaves."""
    if not find_tool("bpftool"):
        pytest.skip("bpftool is not installed")
    run = Run(any_python, tmp_path / "x.json", "uprobe:{libc}:getppid", before=claim_all)
    counters = run.result.counters
    assert counters["lost_busy"] == counters["delivered"] == CALLS * THREADS * 2
    assert not counters["counted"] and not run.stacks(0)


def test_each_probe_has_its_hits(any_python, tmp_path):
    run = Run(any_python, tmp_path / "x.json", "uprobe:{libc}:getppid,uprobe:{libc}:getsid,uprobe:{libc}:getppid+0",
              processes=1)
    assert run.document["values"][1]["total"] == 0
    for value in (0, 2):
        found = sum(hits_of(s) for s in run.stacks(value) if names_of(run.document, s) in run.chains)
        assert found <= CALLS * THREADS
    both = sum(hits_of(s) for s in run.document["stacks"])
    assert both + run.result.counters["lost_busy"] >= 2 * CALLS * THREADS


def test_children_of_a_command(any_python, tmp_path):
    """A command's children are its own: the probe is in every process then, and others are not counted."""
    program = "import os\nfor _ in range(3):\n  if not os.fork():\n    [os.getppid() for _ in range(500)]; os._exit(0)\n" \
        "[os.wait() for _ in range(3)]\n"
    libc = libc_of(os.getpid())
    result = profile("-f", "-e", "uprobe:%s:getppid" % libc, "--", any_python, "-c", program).ok()
    hits = sum(s.count for s in result.stacks if s.frames[-1].name.endswith("getppid"))
    assert 1500 <= hits + result.counters["lost_busy"] <= 1600


@pytest.mark.parametrize("event, words", [
    ("uprobe", "must be uprobe:PATH:SYMBOL"),
    ("uprobe:libc.so.6:getppid", "with PATH from the root"),
    ("uprobe:/etc/passwd", "must be uprobe:PATH:SYMBOL"),
    ("uprobe:/no/such/file:f", "/no/such/file: No such file or directory"),
    ("uprobe:/etc/passwd:f", "/etc/passwd: Exec format error"),
    ("uprobe:%s:no_such_function" % PYPERF, "has no symbol no_such_function"),
    ("uprobe:%s:main+0x1z" % PYPERF, "must be uprobe:PATH:SYMBOL"),
    ("usdt:/bin/sh:main", "must be usdt:PATH:PROVIDER:NAME"),
    ("usdt:%s:python:gc__start" % PYPERF, "no such probe"),
])
def test_wrong_places(any_python, event, words):
    """One line says what is wrong, and nothing stays behind."""
    result = subprocess.run([PYPERF, "-q", "-e", event, "--", any_python, "-c", ""], stderr=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, universal_newlines=True)
    assert result.returncode != 0
    assert words in result.stderr and result.stderr.count("\n") == 1, result.stderr


WITHIN = """
int table[64];
__attribute__((noinline)) int sum(int n)
{
	int total = 0x11223344;

	for (int i = 0; i < n; i++)
		total += table[i & 63] * 0x10203 + i;
	return total;
}
"""


def instructions_of(library, function):
    """(address, size, addresses of the instructions) by objdump."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    body = re.search(r"^([0-9a-f]+) <%s>:\n((?:.+\n)+)" % function, text, re.M)
    symbols = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True).stdout
    size = int(re.search(r"^\S+ (\S+) T %s$" % function, symbols, re.M)[1], 16)
    return int(body[1], 16), size, {int(a, 16) for a in re.findall(r"^ *([0-9a-f]+):\t", body[2], re.M)}


def test_only_between_instructions(tmp_path):
    """A place within an instruction is refused, by symbol and by offset; each other one is taken (a library's text lies
    at the same offset as address)."""
    source, library = tmp_path / "sum.c", tmp_path / "libsum.so"
    source.write_text(WITHIN)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    start, size, begins = instructions_of(library, "sum")
    assert 20 < size < 200 and len(begins) > 8
    for place, by in (("sum+%d", 0), ("0x%x", start)):
        for n in range(1, size):
            event = "uprobe:%s:%s" % (library, place % (by + n))
            run = subprocess.run([PYPERF, "-q", "-d", "0.01", "-e", event, "--", "/bin/true"], stderr=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, text=True) if (start + n not in begins) or n % 8 == 0 else None
            refused = run and "within an instruction" in run.stderr
            assert not run or bool(refused) == (start + n not in begins), (event, run.stderr)
            assert not refused or run.returncode and run.stderr.count("\n") == 1


def test_outside_of_functions(any_python, tmp_path):
    """Where nothing tells what an instruction is, a place is refused; so is one of another function."""
    for event, words in (("uprobe:%s:main+0x7fffffff" % PYPERF, "is not"),
                         ("uprobe:%s:0x40" % PYPERF, "nothing tells where its instructions begin")):
        run = subprocess.run([PYPERF, "-q", "-e", event, "--", "/bin/true"], stderr=subprocess.PIPE, text=True)
        assert run.returncode and words in run.stderr, run.stderr


def test_probe_without_rate(any_python):
    for option in (["-F", "99"], ["-c", "5"]):
        result = subprocess.run([PYPERF, "-e", "uprobe:/bin/sh:main", *option, "--", any_python, "-c", ""],
                                stderr=subprocess.PIPE, universal_newlines=True)
        assert result.returncode != 0 and "every hit" in result.stderr


# ---- static probes -------------------------------------------------------------------------------

COLLECT = """
import gc
gc.disable()
def collect_all(): gc.collect()
def collect_young(): gc.collect(0)
for _ in range(30): collect_all()
for _ in range(20): collect_young()
"""


@pytest.fixture(scope="module")
def with_probes():
    """An interpreter that was built with static probes."""
    if "system" not in INTERPRETERS:
        pytest.skip("the system has no Python")
    path = os.path.realpath(INTERPRETERS["system"])
    listed = subprocess.run([PYPERF, "probes", path], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    if "python:gc__start" not in listed:
        pytest.skip("the system's Python has no static probes")
    return path


def test_static_probe(with_probes, tmp_path):
    """Each hit counts, with the function that caused it; the semaphore is raised, or the interpreter would not get there."""
    event = "usdt:%s:python:gc__start" % with_probes
    result = profile("-f", "-e", event, "--", with_probes, "-c", COLLECT).ok()
    counts = {name: total(s for s in result.stacks if any(f.name == name for f in s.python()))
              for name in ("collect_all", "collect_young")}
    assert counts == {"collect_all": 30, "collect_young": 20}
    text = profile("-e", event, "--", with_probes, "-c", COLLECT).ok().stdout
    head, answer = [line for line in text.splitlines() if line][:2]
    assert " hits of " in head and " of the hits are in collect_all" in answer


def test_probe_that_crashes(with_probes):
    """CPython 3.11 can crash when its probe of lines is enabled."""
    listed = subprocess.run([PYPERF, "probes", with_probes], stdout=subprocess.PIPE, universal_newlines=True).stdout
    done = profile("-e", "usdt:%s:python:line" % with_probes, "--", with_probes, "-c", "")
    assert done.status == 1 and ("can crash" if "python:line" in listed else "no such probe") in done.stderr


def test_free_threaded():
    """3.13 has one opcode for the first and all other calls there: none is single-stepped, at twenty times the price."""
    python = interpreters.named("builds/3.13t")
    if not python:
        pytest.skip("builds/3.13t is not installed")
    out = subprocess.run([PYPERF, "probes", python], capture_output=True, text=True, check=True).stdout
    calls = re.findall(r"  call \(\w+\) +\d+ +0x[0-9a-f]+ +(.*)", out)
    assert calls and set(calls) == {"emulated"}, out
