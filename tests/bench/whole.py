# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Everything that a profiler costs from its start to its exit: the part "whole" of scripts/bench.

A Situation is a workload and how the whole machine, or one process, is profiled meanwhile. Each round runs the
workload alone and then with each profiler in turn, for the same number of laps. A figure is given with its least and
greatest value of all rounds: laps of one round differ less from each other than rounds do.

What is counted: the CPU time of the profiler's processes from start to exit, with its results written; the run time of
all BPF programs that it holds, not only of those that sample (kernel.bpf_stats); its greatest resident memory together
with its maps; the time until its first sample and from the signal that ends it to its exit.
"""
import contextlib
import dataclasses
import statistics
import time
from typing import Callable

import profilers
from runs import BenchError, Running, Target, Workload, all_programs, mean_lap

HZ = 99
# Of a run with a profiler, at the usual --seconds 1.
SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Situation:
    """profilers(collector, path of the OpenTelemetry profiler): those that are compared in it."""
    name: str
    text: str
    workload: Workload
    profilers: Callable


def of_one(collector, otel):
    """Those that attach to one process, and the one that cannot."""
    return [profilers.ours(), *(p for p in profilers.of_a_process()[0] if not p.python), *with_otel(collector, otel)]


def of_all(collector, otel):
    """Those that profile the machine."""
    return [profilers.ours_on_all(), profilers.ours_on_all("-a"), profilers.agent(),
            *with_otel(collector, otel)]


def with_otel(collector, otel):
    program = profilers.find_otel(otel)
    return [profilers.otel_on_all(program, collector)] if program else []


SITUATIONS = (
    Situation("typical", "one process, 30 Python and about 30 native frames", Workload("typical", "typical", "3"),
              of_one),
    Situation("chunks", "a recursion that maps and unmaps chunks of its data stack",
              Workload("chunks", "chunks", "160"), of_all),
    Situation("temporaries", "large blocks that malloc() maps and unmaps",
              Workload("temporaries", "temporaries", "100"), of_all),
    Situation("execs", "one /bin/true after the other", Workload("execs", "execs", "20"), of_all),
    Situation("forks", "one child after the other", Workload("forks", "forks", "20"), of_all),
    Situation("compiles", "a compiler, an assembler and a short Python, one after the other",
              Workload("compiles", "compiles", "2", pinned=False), of_all),
)


def once(target, profiler):
    """The figures of one run. None: the target alone."""
    if profiler is None:
        return {"lap_s": mean_lap(target.run())}
    begin = time.monotonic()
    with contextlib.closing(Running(profiler, target, HZ)) as running:
        laps = target.run()
        programs = all_programs(running.pid)
        cost = running.cost(laps)
        seconds = time.monotonic() - begin
        running.stop(cost)
    sampler = sum(ns for ns, samples in programs.values() if samples)
    everything = sum(ns for ns, _ in programs.values())
    return {
        "lap_s": mean_lap(laps),
        "seconds": seconds,
        "user_s": cost.whole_cpu_s,
        "sampler_s": sampler / 1e9,
        "other_bpf_s": (everything - sampler) / 1e9,
        "bpf_s": everything / 1e9,
        "cpu_s": cost.whole_cpu_s + everything / 1e9,
        "first_sample_s": cost.ready_s if profiler.bpf else None,
        "exit_s": cost.exit_s,
        "memory": cost.rss + cost.map_bytes,
        "rss": cost.rss,
        "map_bytes": cost.map_bytes,
    }


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def summary(found, alone):
    """Of the rounds of a profiler; `alone`: those of the target without it."""
    row = {key: spread([f[key] for f in found]) for key in found[0]
           if key != "lap_s" and found[0][key] is not None}
    row["slowdown"] = spread([f["lap_s"] / a["lap_s"] - 1 for f, a in zip(found, alone)])
    return row


def in_rounds(target, others, count):
    """{profiler: [figures of each round]}. One that fails is left out, with the reason."""
    found, failed = {p: [] for p in (None, *others)}, {}
    for i in range(count):
        order = [*others[i % len(others):], *others[:i % len(others)]]
        for p in (None, *order):
            if p in failed:
                continue
            try:
                found[p].append(once(target, p))
            except BenchError as e:
                failed[p] = str(e)
    return found, failed


def rows(situation, target, others, count):
    found, failed = in_rounds(target, others, count)
    for p in others:
        row = {"situation": situation.name, "name": p.name, "hz": HZ, "rounds": count}
        yield {**row, "failed": failed[p]} if p in failed else {**row, **summary(found[p], found[None])}


def chosen(names):
    """All without a name."""
    return [s for s in SITUATIONS if not names or s.name in names]


def rows_of(situation, python, seconds, count, collector, otel):
    others = [dataclasses.replace(p, settle_s=0) for p in situation.profilers(collector, otel)]
    with Target(python, situation.workload, SECONDS * seconds) as target:
        yield from rows(situation, target, others, count)
