# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""scripts/bench: what it measures, how it judges, and that it leaves nothing behind."""
import argparse
import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

import pytest

from test_scripts import TOP, environment

pytestmark = pytest.mark.host


def bench(*args, **env):
    return subprocess.run([TOP / "scripts/bench", *args], env=environment(**env), text=True,
                          capture_output=True, timeout=120, start_new_session=True)


def bench_module(monkeypatch, name):
    monkeypatch.syspath_prepend(TOP / "tests/bench")
    return __import__(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_bench_measures(directory):
    """One workload, quickly: every figure is there and can be true."""
    stats = Path("/proc/sys/kernel/bpf_stats_enabled").read_text()
    got = bench("--quick", "--part", "matrix", "-w", "deep", "-o", directory / "run.json",
                "-o", directory / "run.svg", TMPDIR=str(directory))
    assert got.returncode == 0, got.stderr
    run = json.loads((directory / "run.json").read_text())
    (cell,) = run["matrix"]
    assert (cell["workload"], cell["hz"], cell["rounds"]) == ("deep", 999, 1)
    # It waits for work at the same depth; only what is sampled of its start has fewer frames.
    assert 150 < cell["python"] <= 210, cell
    assert 0 < cell["counted"] <= cell["delivered"] <= 1.05 * cell["asked"], cell
    assert 0.5 < cell["complete"] <= 1 and cell["bpf_ns"] > 1000, cell
    assert 0 <= cell["full_speed"] <= 1 and cell["all_bpf_ns"] > 1000, cell
    assert cell["rss"] >= cell["sampling_rss"] > 1 << 20 and cell["map_bytes"] > 1 << 20, cell
    assert cell["first_sample_s"] > 0 and cell["drain_s"] > 0, cell
    assert {"median", "spread"} == set(cell["over_empty"]) == set(cell["slowdown"])
    assert run["machine"]["cpus"] == os.cpu_count()
    (row,) = [line for line in got.stdout.splitlines() if line.startswith("deep   ")][:1]
    assert row.split()[1] == "999"
    assert any(line.split()[:3] in (["met", "resident", "memory"], ["MISSED", "resident", "memory"])
               for line in got.stdout.splitlines()), got.stdout
    assert cell["handler"] > 0 and cell["results_cpu_s"] > 0 and run["took_s"]["matrix"] > 0, run
    assert {p.name for p in directory.iterdir()} == {"run.json", "run.svg"}
    assert Path("/proc/sys/kernel/bpf_stats_enabled").read_text() == stats


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_bench_whole(directory):
    """All that a run costs while a program maps: also what BPF programs take that do not sample."""
    got = bench("--quick", "--part", "whole", "--situation", "chunks", "-o", directory / "run.json",
                TMPDIR=str(directory))
    assert got.returncode == 0, got.stderr
    run = json.loads((directory / "run.json").read_text())
    rows = {row["name"]: row for row in run["whole"]}
    assert {"pyperf-bpf", "pyperf-bpf -a", "pyperf-bpf agent"} <= set(rows), rows
    for name, row in rows.items():
        assert row["situation"] == "chunks" and "failed" not in row, row
        for key in ("cpu_s", "user_s", "sampler_s", "other_bpf_s", "first_sample_s", "exit_s", "rss", "map_bytes"):
            assert 0 < row[key]["least"] <= row[key]["median"] <= row[key]["most"], (name, key, row)
        together = row["user_s"]["median"] + row["bpf_s"]["median"]
        assert abs(together - row["cpu_s"]["median"]) < 1e-6, row
        assert row["bpf_s"]["median"] > row["sampler_s"]["median"], row
    assert any("BPF beside the sampler: pyperf-bpf, chunks" in line for line in got.stdout.splitlines()), got.stdout
    assert {p.name for p in directory.iterdir()} == {"run.json"}


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_bench_trace(directory):
    """A call is counted once, at one breakpoint, which costs it more than an empty one; the program's own profiler has none."""
    stats = Path("/proc/sys/kernel/bpf_stats_enabled").read_text()
    got = bench("--quick", "--part", "trace", "-o", directory / "run.json", TMPDIR=str(directory))
    assert got.returncode == 0, got.stderr
    rows = {row["tool"]: row for row in json.loads((directory / "run.json").read_text())["trace"]}
    assert set(rows) == {"trace", "the bare trap", "cProfile"} and not any("failed" in row for row in rows.values()), rows
    for name in ("trace", "the bare trap"):
        assert 1 <= rows[name]["runs"] < 1.01 and rows[name]["cost"]["median"] > rows[name]["alone"]["median"], rows
        assert rows[name]["user"]["median"] >= 0 and rows[name]["lost"] == 0, rows
    assert rows["trace"]["bpf_ns"] > rows["the bare trap"]["bpf_ns"] > 0, rows
    assert rows["cProfile"]["runs"] is None and rows["cProfile"]["cost"]["median"] > 0, rows
    shown = [line.split() for line in got.stdout.splitlines() if line.startswith("the bare trap ")]
    assert [line[3] for line in shown][2:3] == ["1.0"], got.stdout
    assert Path("/proc/sys/kernel/bpf_stats_enabled").read_text() == stats
    assert {p.name for p in directory.iterdir()} == {"run.json"}


def test_bench_trace_figures(monkeypatch):
    """The spread is half of the distance between the quartiles; breakpoints and losses are those that the program tells."""
    calls = bench_module(monkeypatch, "calls")
    assert calls.spread([5, 1, 9, 3, 7]) == {"median": 5, "spread": 2}
    assert calls.spread([4]) == {"median": 4, "spread": 0}
    said = ("pyperf-bpf: breakpoint 1 at 0x2f0 in /usr/bin/python3.11\n"
            "pyperf-bpf: breakpoint 0 at 0x1a0 in /usr/bin/python3.11\n"
            "pyperf-bpf: 12 events were lost, and the times of calls that were open: ...\n")
    assert calls.places_in(said) == ["/usr/bin/python3.11", "0x2f0", "0x1a0"] and calls.lost(said) == 12
    assert calls.places_in("") == [] and calls.lost("") == 0


def test_bench_judges_rounds(monkeypatch):
    """A difference that is smaller than that of the rounds is noise."""
    targets = bench_module(monkeypatch, "targets")

    def row(name, *values):
        figure = dict(zip(("least", "median", "most"), values))
        return {"name": name, "situation": "execs", "bpf_s": figure, "cpu_s": figure}

    for ours, theirs, wanted in (((1, 2, 3), (4, 5, 6), "met"), ((4, 5, 6), (1, 2, 3), "MISSED"),
                                 ((1, 2, 5), (4, 5, 6), "noise")):
        verdicts = list(targets.of_whole([row("pyperf-bpf", *ours), row("OpenTelemetry", *theirs)]))
        assert [v["verdict"] for v in verdicts] == [wanted] * 2, verdicts


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_bench_against(monkeypatch):
    """The same build as both: each figure is there, and the one without chance is the same."""
    runs, parts = bench_module(monkeypatch, "runs"), bench_module(monkeypatch, "parts")
    monkeypatch.setattr(parts.profilers, "of_commit", lambda commit: parts.profilers.ours(name=commit))
    args = argparse.Namespace(against="twin", workload=None, frequency=[999], rounds=1, seconds=0.3)
    with runs.bpf_stats():
        rows = {row["figure"]: row for row in parts.against(args, [sys.executable])}
    assert set(rows) >= {"BPF us/sample", "user CPU ms", "first sample ms", "MiB"}, rows
    if "verified instructions" in rows:  # the kernel says so from 5.16 on
        same = rows["verified instructions"]
        assert same["now"] > 10000 and same["ratio"] == 1 and same["verdict"] == "no difference", same


def test_bench_judges_pairs(monkeypatch):
    parts = bench_module(monkeypatch, "parts")
    assert parts.judged([1.1, 1.2, 1.1]) == "too few pairs"
    assert parts.judged([1.01, 1.02, 1.1, 1.2, 1.3, 1.1]) == "more"
    assert parts.judged([0.9, 0.8, 0.9, 0.7, 0.99, 0.9]) == "less"
    assert parts.judged([0.9, 0.8, 0.9, 0.7, 1.01, 0.9]) == "no difference"
    assert parts.judged([1.1, 1.1]) == "more"


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_bench_scale(monkeypatch):
    """Two rows of it: most turns are another thread's, and each was searched once."""
    runs, parts = bench_module(monkeypatch, "runs"), bench_module(monkeypatch, "parts")
    sizes = [(runs.Workload(n, "thread_relay", n), 0.3) for n in ("1", "20")]
    with runs.bpf_stats():
        one, row = parts.scale_rows("threads", [sys.executable], sizes, 1)
    assert (one["n"], row["n"]) == (1, 20) and one["ratio"] == 1, (one, row)
    assert row["ratio"] == row["bpf_ns"] / one["bpf_ns"], (one, row)
    assert 0 < row["searched"] < 0.5 and row["python"] > 3, row
    assert row["bpf_ns"] > row["get_stack_ns"] > 100 and row["get_stack_frames"] >= 1, row
    assert row["lost"] == 0 and row["stacks"] > 1, row


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_bench_waits(monkeypatch):
    """A rate of switches that is held, beside one tool; and a wait against the clock of its program."""
    runs, profilers = bench_module(monkeypatch, "runs"), bench_module(monkeypatch, "profilers")
    waits = bench_module(monkeypatch, "waits")
    with runs.bpf_stats(), contextlib.closing(waits.Pairs([sys.executable], 1000)) as pairs:
        begin = pairs.switches(), time.monotonic()
        found = waits.beside(pairs, profilers.ours_of("off-cpu"), 0.3)
        rate = (pairs.switches() - begin[0]) / (time.monotonic() - begin[1])
    assert 0 < rate < 3000 and 0 < found["switches"] < 3000, (rate, found)
    assert 0 < found["bpf_ns"] < 1e9 and found["bpf_runs"] > found["switches"] and found["lost"] == 0, found
    (row,) = waits.truths([sys.executable], [{"piping": "pipe"}], 1)
    assert row["true_s"] > 0.1 and row["told_s"] == pytest.approx(row["true_s"], rel=0.1), row
    assert row["reason_s"] <= row["told_s"] and row["differs"]["median"] == row["told_s"] / row["true_s"] - 1, row


def test_bench_waits_for_full_speed(monkeypatch):
    """What was measured while the machine was slow is measured again, and all of it counts."""
    parts = bench_module(monkeypatch, "parts")
    ours = object()
    rounds = iter([(0, 1), (0, 1), (1, 1), (1, 1)])
    monkeypatch.setattr(parts.profilers, "ours", lambda: ours)
    monkeypatch.setattr(parts, "together", lambda *_: contextlib.nullcontext([]))
    monkeypatch.setattr(parts, "in_turn", lambda *_: [{ours: [full]} for full in next(rounds)])
    monkeypatch.setattr(parts, "per_sample", lambda costs: {"full_speed": sum(costs) / len(costs), "of": len(costs)})
    slow, fast = parts.samples_of("python", (None, None), argparse.Namespace(seconds=1), 1)
    assert (slow["of"], fast["of"]) == (3, 3) and slow["full_speed"] == 1 / 3
    monkeypatch.setattr(parts, "in_turn", lambda *_: [{ours: [0]}])
    slow, = parts.samples_of("python", (None,), argparse.Namespace(seconds=1), 1)
    assert slow == {"full_speed": 0, "of": 1 + parts.MORE_TRIES}


def test_bench_finds_the_sampler(monkeypatch, directory):
    """Of a profiler that has loaded another program first, to try the kernel, and has closed it."""
    runs = bench_module(monkeypatch, "runs")
    trial, sampler, info = directory / "3", directory / "4", {"prog_type": str(runs.PERF_EVENT_PROG),
                                                               "prog_id": "7"}
    looks = [[(sampler, info)], [(trial, info)]]
    monkeypatch.setattr(runs, "bpf_objects", lambda _: looks.pop() if len(looks) > 1 else looks[0])
    monkeypatch.setattr(runs, "LOOK_AGAIN_S", 0)
    sampler.write_text("run_cnt:\t0\n")
    has_run = runs.first_run(1)
    assert not has_run() and not has_run()
    sampler.write_text("run_cnt:\t12\n")
    assert has_run()


def children_of(parent):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("function, size, count", [
    ("processes", "50+500", 550), ("relay", "5+95", 100), ("on_cpus", "1", 1)])
def test_bench_leaves_no_process(monkeypatch, function, size, count):
    """Also when the target is killed, and whoever started it with it."""
    runs = bench_module(monkeypatch, "runs")
    target = runs.Target([sys.executable], runs.Workload(function, function, size), 0.1)
    children = children_of(target.pid)
    target.process.kill()
    target.close()
    assert len(children) == count
    deadline = time.monotonic() + 30
    while any(os.path.exists("/proc/%d" % pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_bench_refuses():
    assert bench("-o", "x.txt").returncode == 2
    assert bench("-w", "nonesuch").returncode == 2
    assert bench("--against", "HEAD", "--part", "whole").returncode == 2
    assert bench("--record").returncode == bench("--record", "--part", "trace", "--part", "flat").returncode == 2
    got = bench("--quick", PYPERF_BPF="/nonexistent")
    assert got.returncode == 1
    assert ("needs root" if os.geteuid() else "/nonexistent is not there") in got.stderr


def made_run():
    def pair(median, spread=None):
        return {"median": median, "spread": spread}

    def same(value):
        return {"median": value, "least": value, "most": value}

    cell = {"workload": "typical", "hz": 99, "over_empty": pair(0.0005, 0.0001), "lost": 0,
            "handler": 0.0009, "full_speed": 0.5,
            "reasons": [], "rss": 20 << 20, "sampling_rss": 19 << 20}
    size = {"of": "threads", "n": 1000, "hz": 9999, "bpf_ns": 5000.0, "ratio": 1.1, "full_speed": 0.5,
            "get_stack_ratio": 1.2, "lost": 0, "reasons": [], "rss": 20 << 20, "stacks": 10}
    peer = {"cpu": 0.001, "rss": 1 << 20, "map_bytes": 0, "whole_cpu_s": 1, "slowdown": pair(0.01),
            "hz": 999, "bpf_ns": 5000.0, "target_share": 1.0, "full_speed": 0.5}
    return {"python": "3.13.0", "matrix": [cell],
            "frames": [{"python": "3.13.0", "native_frame_ns": 100, "python_frame_ns": 100, "full_speed": 0.5,
                        "typical": {"native": 30, "python": 30, "bpf_ns": 9000}}],
            "flat": [{"in": "threads", "ratio": 1.1, "full_speed": 0.5}],
            "scale": [{**size, "n": 1}, size, {**size, "of": "stacks", "n": 1},
                      {**size, "of": "stacks", "n": 100000, "stacks": 100001, "rss": 90 << 20}],
            "start": [{"processes": 300, "first_sample_s": 0.1, "rss": 20 << 20, "full_speed": 0.5}],
            "waits": [{"of": "switches", "name": "pyperf-bpf -e wall", "rate": 10000, "net": same(0.01), "ratio": same(1.0),
                       "switches": same(10000), "bpf": same(0.01), "each_ns": same(500), "user": same(0), "lost": 0},
                      {"of": "service", "name": "pyperf-bpf -e wall", "rounds": 3, "slowdown": pair(0.01, 0.001), "lost": 0},
                      {"of": "truth", "name": "piping", "reason": "pipe", "differs": same(0.001), "true_s": 1, "told_s": 1,
                       "reason_s": 1},
                      {"of": "timehist", "name": "perf sched timehist", "differs": same(0.001)},
                      {"of": "switches", "name": "another", "rate": 1000, "failed": "not here"}],
            "trace": [{"tool": "trace", "python": "3.13.0", "rounds": 9, "limit": 0.8, "cost": pair(0.5, 0.01), "lost": 0,
                       "alone": pair(0.02, 0.001), "user": pair(0, 0), "bpf_ns": 90.0, "runs": 1.0},
                      {"tool": "cProfile", "python": "3.13.0", "rounds": 9, "limit": None, "cost": pair(0.9, 0.01), "lost": 0,
                       "alone": pair(0.02, 0.001), "user": None, "bpf_ns": None, "runs": None},
                      {"tool": "another", "python": "3.8.18", "failed": "not here"}],
            "peers": [{**peer, "name": "pyperf-bpf"}, {**peer, "name": "a & <b>", "cpu": 0.02},
                      {**peer, "name": "OpenTelemetry eBPF profiler", "cpu": 1, "bpf_ns": 11000.0},
                      {"name": "austin", "missing": "not installed"}]}


@pytest.mark.parametrize("path, value, target", [
    (("matrix", 0, "over_empty", "median"), 0.002, "slowdown over an empty handler at 99 Hz"),
    (("matrix", 0, "over_empty", "spread"), 0.0006, "slowdown over an empty handler at 99 Hz"),
    (("matrix", 0, "handler"), 0.0011, "CPU of the target for its samples at 99 Hz"),
    (("matrix", 0, "lost"), 1, "lost samples up to 99 Hz"),
    (("matrix", 0, "rss"), 31 << 20, "resident memory with the results"),
    (("matrix", 0, "sampling_rss"), 31 << 20, "resident memory while sampling"),
    (("frames", 0, "native_frame_ns"), 111, "a native frame"),
    (("frames", 0, "python_frame_ns"), 121, "a Python frame"),
    (("frames", 0, "typical", "bpf_ns"), 10001, "BPF time of 30 native + 30 Python frames"),
    (("flat", 0, "ratio"), 1.4, "a sample among many threads"),
    (("scale", 1, "ratio"), 1.4, "a sample of 1000 threads"),
    (("scale", 1, "lost"), 1, "lost of 1000 threads"),
    (("scale", 1, "rss"), 31 << 20, "resident memory, 1000 threads"),
    (("scale", 3, "stacks"), 99999, "different stacks in one run"),
    (("scale", 3, "rss"), 120 << 20, "memory for each stack"),
    (("start", 0, "first_sample_s"), 0.151, "first sample on a host of 300 processes"),
    (("start", 0, "rss"), 31 << 20, "resident memory on a host of 300 processes"),
    (("waits", 0, "net"), {"median": 0.021, "least": 0.0205, "most": 0.022}, "CPU of BPF: pyperf-bpf -e wall, 10000 switches/s"),
    (("waits", 0, "ratio"), {"median": 1.02, "least": 1.015, "most": 1.03},
     "switches with and without: pyperf-bpf -e wall, 10000 switches/s"),
    (("waits", 0, "ratio"), {"median": 1.005, "least": 0.98, "most": 1.03},
     "switches with and without: pyperf-bpf -e wall, 10000 switches/s"),
    (("waits", 0, "lost"), 1, "lost waits"),
    (("waits", 1, "slowdown", "median"), 0.04, "slowdown of a service: pyperf-bpf -e wall"),
    (("waits", 1, "slowdown", "spread"), 0.03, "slowdown of a service: pyperf-bpf -e wall"),
    (("waits", 2, "differs"), {"median": -0.03, "least": -0.05, "most": -0.025}, "piping, against clocks"),
    (("waits", 3, "differs"), {"median": 0.02, "least": 0.015, "most": 0.03}, "the worst thread, against perf sched timehist"),
    (("trace", 0, "cost"), {"median": 0.9, "spread": 0.01}, "a call: trace, CPython 3.13.0"),
    (("trace", 0, "cost"), {"median": 0.79, "spread": 0.02}, "a call: trace, CPython 3.13.0"),
    (("peers", 1, "cpu"), 0.009, "user space against a & <b> at 999 Hz"),
    (("peers", 2, "bpf_ns"), 9999.0, "BPF time against OpenTelemetry eBPF profiler at 999 Hz"),
    (("peers", 2, "target_share"), 0.5, "BPF time against OpenTelemetry eBPF profiler at 999 Hz"),
])
def test_bench_targets(monkeypatch, path, value, target):
    """Each is reached, and is missed for its own figure only."""
    targets, run = bench_module(monkeypatch, "targets"), made_run()
    assert all(v["passed"] for v in targets.judge(run)), targets.judge(run)
    at = run
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert [v["target"] for v in targets.judge(run) if not v["passed"]] == [target]


@pytest.mark.parametrize("part, at, count", [
    ("matrix", 0, 1), ("frames", 0, 3), ("flat", 0, 1), ("scale", 0, 1), ("scale", 1, 1),
    ("start", 0, 1), ("peers", 0, 1), ("peers", 2, 1)])
def test_bench_on_a_slow_machine(monkeypatch, part, at, count):
    """What was hardly ever measured at its full speed says nothing of us, good or bad."""
    targets, run = bench_module(monkeypatch, "targets"), made_run()
    run[part][at]["full_speed"] = 0
    verdicts = [v["verdict"] for v in targets.judge(run)]
    assert verdicts.count("noise") == count and "MISSED" not in verdicts


def test_bench_document(monkeypatch):
    """A paragraph and tables as code: nothing of a run becomes Markdown."""
    show = bench_module(monkeypatch, "show")
    run = {"machine": {"cpu": "C", "cpus": 2, "kernel": "6.1", "load": 0.1}, "program": "p 1",
           "python": "3.13.0", "date": "today", "took_s": {"start": 3}, "options": {"rounds": 2},
           "start": [{"processes": 300, "full_speed": 1, "first_sample_s": 0.1, "worst_s": 0.2, "cpu_s": 0.2,
                      "sampling_rss": 20 << 20, "rss": 20 << 20}]}
    run["waits"], run["trace"] = made_run()["waits"], made_run()["trace"]
    run["targets"] = bench_module(monkeypatch, "targets").judge(run)
    lines = show.markdown(show.text(run)).splitlines()
    assert lines[:3] == ["C, 2 CPUs, Linux 6.1, load 0.1;", "p 1; CPython 3.13.0; today",
                         "2 rounds; 3 s: start 3"] and lines[3] == ""
    assert all(line.startswith("    ") for line in lines[4:] if line)
    assert any(line.split()[0] == "met" for line in lines[4:] if line)
    assert [line for line in lines if "another, CPython 3.8.18" in line] == ["    another, CPython 3.8.18: not here"]
    costs = next(line for line in lines if line.startswith("    trace  ")).split()
    assert costs == ["trace", "0.50", "+-0.01", "-"], lines


def test_bench_arithmetic(monkeypatch):
    runs, parts = bench_module(monkeypatch, "runs"), bench_module(monkeypatch, "parts")
    assert runs.mean_lap([[1.0, 0], [3.0, 0], [50.0, 1]]) == 2.0
    assert runs.mean_lap([[1.0, 2], [3.0, 1]]) == 2.0
    monkeypatch.setattr(runs.SPEED, "best", 10000)
    costs = [[runs.Cost([runs.Slice(s, 1, speed_ns=10000) for s in laps])]
             for laps in ((1.1, 2.4, 3.1), (1, 2, 3))]
    assert runs.slowdown(*costs)[0] == pytest.approx(0.1)
    native, python = 100, 80
    rows = [(1, 2), (6, 2)]
    assert parts.solve([(a, b, a * native + b * python) for a, b in rows]) == (native, python)


def test_bench_picture(monkeypatch):
    show = bench_module(monkeypatch, "show")
    picture = xml.etree.ElementTree.fromstring(show.svg(made_run()))
    texts = [e.text for e in picture.iter() if e.tag.endswith("text")]
    assert texts.count("a & <b>") == len(show.PANELS)
    bars = [float(e.get("width")) for e in picture.iter() if e.get("height") == str(show.BAR)]
    assert len(bars) == 3 * len(show.PANELS) + len(made_run()["scale"]) + 1 and max(bars) == show.WIDE
    assert "100000 stacks" in texts
    assert show.svg({"peers": []}) is None


def test_bench_collector(monkeypatch):
    """It answers settings, and keeps what is sent to it."""
    collector = bench_module(monkeypatch, "collector")
    end = collector.Collector()
    try:
        with socket.create_connection(("127.0.0.1", end.port), timeout=10) as client, \
                client.makefile("rb") as stream:
            body = gzip.compress(b"a profile")
            client.sendall(b"P" * collector.PREFACE + collector.frame(collector.SETTINGS, 0, 0, b"") +
                           collector.frame(collector.DATA, collector.END_STREAM, 1,
                                           b"\1" + len(body).to_bytes(4, "big") + body))
            want = collector.frame(collector.SETTINGS, 0, 0, b"") + \
                collector.frame(collector.SETTINGS, collector.ACK, 0, b"")
            assert stream.read(len(want)) == want
            more_room = collector.frame(collector.WINDOW_UPDATE, 0, 0, bytes([0, 0, 0, len(body) + 5]))
            assert stream.read(len(more_room)) == more_room
            assert stream.read(len(collector.answer(1))) == collector.answer(1)
        deadline = time.monotonic() + 10
        while end.last != b"a profile":
            assert time.monotonic() < deadline
            time.sleep(0.001)
    finally:
        end.close()


def test_bench_at_full_speed(monkeypatch):
    """Slices in which the machine was slow are left out, whatever was measured in them; unless all are."""
    runs, parts = bench_module(monkeypatch, "runs"), bench_module(monkeypatch, "parts")
    monkeypatch.setattr(runs.SPEED, "best", 10000)
    fast, slow = ([runs.Slice(lap, 1, ns, 10, speed)] * 3 for lap, ns, speed in (
        (1, 100, 11000), (2, 500, 19000)))
    assert parts.bpf_ns_of_runs(runs.fastest(fast + slow)) == 10
    assert parts.bpf_ns_of_runs(runs.fastest(slow)) == 50
    assert runs.share_at_full_speed(fast + slow) == 0.5 and runs.share_at_full_speed(slow) == 0
    assert runs.slowdown([runs.Cost(fast + slow)], [runs.Cost(fast)]) == (0, 0)


def test_bench_tells_the_speed(monkeypatch):
    """A test is one of this machine's, and its best is remembered; the caller runs where it ran before."""
    runs = bench_module(monkeypatch, "runs")
    allowed, speed = os.sched_getaffinity(0), runs.Speed()
    took = speed.test()
    assert 0 < took == speed.best and os.sched_getaffinity(0) == allowed
    speed.best = 1
    assert speed.test() > 1 == speed.best
