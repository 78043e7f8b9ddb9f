# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What scripts/bench measures, part by part. Each part yields plain data, rows of the JSON file."""
import contextlib
import dataclasses
import os
import statistics
import subprocess
import sys

import calls
import collector
import profilers
import waits as waiting
import whole as everything
from runs import (SPEED, SPEEDY, BenchError, Running, Target, Workload, fastest, in_turn, is_full, rounds,
                  share_at_full_speed, slices_of, slowdown, together)

RATES = (19, 99, 999, 9999)
MORE_TRIES = 3
# Long enough for the steady state; a window may take 30 seconds until it is read.
PEER_SECONDS, PEER_ROUNDS = 5.5, 2
PEER_SETTLE_S = 2  # what is left of a start, as the reading of the first names, is not what sampling costs
TYPICAL = Workload("typical", "typical", "3", text="30 Python and about 30 native frames")
WORKLOADS = (
    Workload("shallow", "shallow", "0", text="a loop in four frames"),
    TYPICAL,
    Workload("deep", "deep", "200", text="200 Python frames of a recursion"),
    Workload("extensions", "extensions", "20", text="20 times Python, C, Python"),
    Workload("threads", "threads", "100", pinned=False, text="100 threads, one GIL"),
    Workload("processes", "processes", "50+500", family=True, pinned=False,
             text="50 busy and 500 idle processes"),
    Workload("imports", "imports", "40", family=True,
             text="interpreters that import 40 new modules and end"),
    Workload("stacks", "stacks", "131072", text="more than 100,000 different stacks"),
)
# The same work in one thread, one process, one stack.
FLAT = (
    ("threads", WORKLOADS[4], Workload("one thread", "threads", "1", pinned=False)),
    ("processes", WORKLOADS[5], Workload("one process", "processes", "1+0", family=True,
                                         pinned=False)),
    ("stacks", WORKLOADS[7], Workload("one stack", "stacks", "1")),
)
# The same work by more and more of them, smallest first. A turn of the relays is some 0.1 ms, so at
# this rate nearly each sample finds another process or thread than the one before.
SIZES, SCALE_HZ = (10, 100, 1000), 9999
MORE = 8  # times as long with 1,000: else many samples are the first of their process or thread
BUSY = 5


def cpus():
    """1, 2, 4 ... and all of this machine."""
    most = len(os.sched_getaffinity(0))
    return sorted({most, *(1 << i for i in range(most.bit_length()))})


SCALE = (
    ("processes, %d of them busy" % BUSY, tuple(
        Workload(str(n), "relay", "%d+%d" % (BUSY, n - BUSY), family=True) for n in SIZES)),
    ("processes, all in turn", tuple(
        Workload(str(n), "relay", "%d+0" % n, family=True) for n in SIZES)),
    ("threads, all in turn", tuple(Workload(str(n), "thread_relay", str(n)) for n in (1, *SIZES))),
    ("CPUs", tuple(Workload(str(n), "on_cpus", str(n), family=True, pinned=False) for n in cpus())),
)
START_ROUNDS = 3  # times as many: a start is short, and each takes its own time
# Of one process on each CPU, within one run. One sample in five or so finds a stack again.
STACKS = 100000
# Pairs that differ in depth, for what a frame costs. Not recursion: a frame of the function of the
# one before costs less.
DEPTHS = tuple(Workload("%s %s" % (f, n), f, n) for f, n in (
    ("chain", "30"), ("chain", "200"), ("extensions", "4"), ("extensions", "20")))


def say(text):
    print(text, file=sys.stderr, flush=True)


def total(costs, name):
    return sum(c.result["counters"].get(name, 0) for c in costs)


def bpf_ns_of_runs(slices):
    return sum(s.bpf_ns for s in slices) / max(1, sum(s.bpf_runs for s in slices))


def per_sample(costs):
    """What the sampler did, of all phases together."""
    counted = total(costs, "counted")
    if not counted:
        raise BenchError("nothing was sampled")
    slices = slices_of(costs)
    # For a sample of the target: those of idle CPUs are the sampler's, too.
    runs = sum(s.bpf_runs for c in costs for s in (*c.settled, *c.slices)) / counted
    return {
        "counted": counted,
        "bpf_ns": runs * bpf_ns_of_runs(fastest(slices)),
        "all_bpf_ns": runs * bpf_ns_of_runs(slices),
        "full_speed": share_at_full_speed(slices),
        "native": total(costs, "frames_native") / counted,
        "python": total(costs, "frames_python") / counted,
        "kernel": total(costs, "frames_kernel") / counted,
        "complete": total(costs, "complete") / max(1, total(costs, "user_stacks")),
    }


def accounts(costs, hz):
    """What became of the samples. Asked for are those of all CPUs, idle or not."""
    reasons = {}
    for cost in costs:
        for name, n in cost.result["counters"].items():
            if n and name.startswith("lost_"):
                reasons[name] = reasons.get(name, 0) + n
    return {
        "asked": round(sum(hz * c.result["duration_s"] * c.result["cpus"] for c in costs)),
        "delivered": total(costs, "delivered"),
        "lost": sum(reasons.values()), "reasons": reasons,
        "stacks": max(c.result["stacks"] for c in costs),
    }


def longest_drain(costs):
    """Seconds that reading a window took; None: it did not say."""
    drains = [c.result["drain_ns"] for c in costs if c.result["drain_ns"] is not None]
    return max(drains) / 1e9 if drains else None


def map_bytes(costs):
    """As the profiler says: with the tables of programs, which have no descriptor."""
    return max(c.result["cost"]["map_bytes"] for c in costs)


def user_space(costs):
    """Of any profiler. A share of 1 is one core."""
    return {
        "cpu": statistics.median(c.cpu_s / c.seconds for c in costs),
        "whole_cpu_s": statistics.median(c.whole_cpu_s for c in costs),
        "results_cpu_s": statistics.median(c.results_cpu_s for c in costs),
        "rss": max(c.rss for c in costs),
        "sampling_rss": max(c.sampling_rss for c in costs),
        "map_bytes": max(c.map_bytes for c in costs),
        "first_sample_s": statistics.median(c.ready_s for c in costs),
    }


def with_spread(pair):
    return {"median": pair[0], "spread": pair[1]}


# ---- parts ---------------------------------------------------------------------------------------

def cell(target, ours, empty, hz, count):
    costs = rounds(target, [None, empty, ours], hz, count)
    mine = costs[ours]
    empty_ns = bpf_ns_of_runs(fastest(slices_of(costs[empty])))
    return {
        "workload": target.workload.name, "hz": hz, "rounds": count,
        "slowdown": with_spread(slowdown(mine, costs[None])),
        "empty": with_spread(slowdown(costs[empty], costs[None])),
        "over_empty": with_spread(slowdown(mine, costs[empty])),
        **per_sample(mine), **accounts(mine, hz), **user_space(mine),
        "map_bytes": map_bytes(mine), "drain_s": longest_drain(mine),
        # Of a CPU that the target has for itself, at the rate that was asked for.
        "handler": hz * (per_sample(mine)["bpf_ns"] - empty_ns) / 1e9,
    }


def matrix(args, python):
    """Each workload at each rate, in turn without, with an empty handler, and with pyperf-bpf."""
    ours, empty = profilers.ours(), profilers.empty()
    for workload in WORKLOADS:
        if args.workload and workload.name not in args.workload:
            continue
        with Target(python, workload, args.seconds) as target:
            for hz in args.frequency:
                say("%s at %d Hz" % (workload.name, hz))
                # The targets are about the typical stack: it is measured best.
                count = args.rounds * (3 if workload is TYPICAL and not args.quick else 1)
                yield cell(target, ours, empty, hz, count)


def samples_of(python, workloads, args, count, hz=999):
    """per_sample() of each. There are more rounds while the machine was too seldom at its full speed to tell."""
    ours = profilers.ours()
    costs = [[] for _ in workloads]
    with together(python, [(w, args.seconds) for w in workloads]) as targets:
        for _ in range(1 + MORE_TRIES):
            for known, new in zip(costs, in_turn(targets, [ours], hz, count)):
                known += new[ours]
            samples = [per_sample(c) for c in costs]
            if min(s["full_speed"] for s in samples) >= SPEEDY:
                break
    return samples


def flat(args, python):
    """Does a sample cost more when there is more of everything?"""
    for name, many, one in FLAT:
        say("flat in %s" % name)
        a, b = samples_of(python, (one, many), args, args.rounds)
        yield {"in": name, "one_ns": a["bpf_ns"], "many_ns": b["bpf_ns"],
               "one_frames": a["native"] + a["python"], "many_frames": b["native"] + b["python"],
               "full_speed": min(a["full_speed"], b["full_speed"]),
               "ratio": b["bpf_ns"] / a["bpf_ns"]}


def scale_row(what, workload, mine, theirs, count):
    """`theirs`: what the kernel's helper took on the same load, to see how much of a difference is the machine's."""
    taken = sum(c.result["samples"] for c in theirs)
    if not taken:
        raise BenchError("bench_getstack: nothing was sampled")
    slices = slices_of(theirs)
    faster = bpf_ns_of_runs(fastest(slices)) / bpf_ns_of_runs(slices)
    return {
        "of": what, "n": int(workload.name), "hz": SCALE_HZ, "rounds": count,
        **per_sample(mine),
        "get_stack_ns": faster * sum(c.result["ns"] for c in theirs) / taken,
        "get_stack_frames": sum(c.result["frames"] for c in theirs) / taken,
        # The first sample of a thread looks for it in the list of its interpreter.
        "searched": total(mine, "note_tstate_scan") / total(mine, "counted"),
        **accounts(mine, SCALE_HZ), **user_space(mine), "map_bytes": map_bytes(mine),
        "drain_s": longest_drain(mine),
    }


def scale_rows(what, python, workloads, count):
    """Of [(workload, seconds)]."""
    ours, helper = profilers.ours(), profilers.get_stack()
    with together(python, workloads) as targets:
        found = in_turn(targets, [helper, ours], SCALE_HZ, count)
    return with_ratios(scale_row(what, w, costs[ours], costs[helper], count)
                       for (w, _), costs in zip(workloads, found))


def with_ratios(rows):
    """To the smallest, which is the first."""
    first = None
    for row in rows:
        first = first or row
        yield {**row, "ratio": row["bpf_ns"] / first["bpf_ns"],
               "get_stack_ratio": row["get_stack_ns"] / first["get_stack_ns"]}


def scale(args, python):
    """The same work by more and more processes, threads and CPUs, and in more and more stacks."""
    for what, workloads in SCALE:
        say("scale: %s" % what)
        if args.quick:
            workloads = workloads[::len(workloads) - 1]
        yield from scale_rows(what, python, [
            (w, args.seconds * (MORE if w.name == "1000" else 1)) for w in workloads], args.rounds)
    most, stacks = cpus()[-1], STACKS // (20 if args.quick else 1)
    say("scale: stacks")
    yield from scale_rows("stacks", python, [
        (Workload(str(n), "stacks_on_cpus", "%d+%d" % (paths, most), family=True, pinned=False),
         2 * (stacks if n == 1 else n) / (SCALE_HZ * most))
        for n, paths in ((1, 1), (stacks // 10, 1 << 20), (stacks, 1 << 20))], 1)


def solve(rows):
    """Native and Python ns of a frame, from two differences (native frames, Python frames, ns)."""
    (a, b, x), (c, d, y) = rows
    determinant = a * d - b * c
    return (x * d - b * y) / determinant, (a * y - x * c) / determinant


def frames(args, pythons):
    """What a sample and a frame cost, by interpreter."""
    count = args.rounds if len(pythons) == 1 else 1
    for version, python in pythons:
        say("frames of %s" % version)
        try:
            typical, *points = samples_of(python, (TYPICAL, *DEPTHS), args, count)
        except BenchError as e:
            say("%s is left out: %s" % (version, e))
            continue
        native, py = solve([[points[i + 1][k] - points[i][k] for k in ("native", "python", "bpf_ns")]
                            for i in (0, 2)])
        yield {"python": version, "typical": typical, "native_frame_ns": native,
               "python_frame_ns": py, "full_speed": min(p["full_speed"] for p in (typical, *points)),
               "complete": min(p["complete"] for p in points)}


def counters(command):
    """What pyperf-bpf -v counted."""
    run = subprocess.run(command, capture_output=True, text=True)
    found = {words[1]: int(words[2]) for words in map(str.split, run.stderr.splitlines())
             if len(words) == 3 and words[0] == "counter"}
    if not found.get("counted"):
        raise BenchError("%s: nothing was sampled" % " ".join(command))
    return found


def native_point(program, depth, seconds, hz=999):
    """((frames, ns) of a sample of ours, of bpf_get_stack()): both walk one process at a time."""
    target = subprocess.Popen([program, str(depth)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        theirs = subprocess.Popen([profilers.helper("bench_getstack"), str(target.pid), str(hz)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        c = counters([profilers.OURS, "-v", "-f", "-F", str(hz), "-d", str(seconds), "-a",
                      "--no-kernel", "-p", str(target.pid)])
        samples, frames_, ns = map(int, theirs.communicate()[0].split())
    finally:
        target.stdin.close()
        target.wait()
    if not samples:
        raise BenchError("bench_getstack: nothing was sampled")
    # Samples of others are filtered after two look-ups: a tenth of a microsecond at most.
    return ((c["frames_native"] / c["counted"], c["bpf_ns"] / c["counted"]),
            (frames_ / samples, ns / samples))


def native(args):
    """One more native frame: by unwind rows, and by the kernel's helper, which follows frame pointers."""
    program = os.path.join(os.path.dirname(profilers.helper("bench_getstack")), "recurse")
    source = os.path.join(profilers.ROOT, "tests", "e2e", "programs", "recurse.c")
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-o", program, source], check=True)
    for i in range(args.rounds):
        say("native frames, %d of %d" % (i + 1, args.rounds))
        few, many = (native_point(program, depth, max(1, round(2 * args.seconds)))
                     for depth in (15, 105))
        ours, theirs = ((m[1] - f[1]) / (m[0] - f[0]) for f, m in zip(few, many))
        yield {"rows_ns": ours, "get_stack_ns": theirs}


def start(args, python):
    """From the start of the program to the first sample, on a host with many processes."""
    workload = Workload("crowd", "crowd", "300", text="300 processes, 100 of them Python")
    costs = []
    with Target(python, workload, args.seconds) as target:
        count = args.rounds * (1 if args.quick else START_ROUNDS)
        for i in range(count):
            say("start, %d of %d" % (i + 1, count))
            before = SPEED.test()
            with contextlib.closing(Running(profilers.ours_on_all(), target, 999)) as running:
                speed = max(before, SPEED.test())
                costs.append((speed, running.measure(target)))
                running.stop(costs[-1][1])
    fast = [c for speed, c in costs if is_full(speed)]
    costs = [c for _, c in costs]
    yield {"processes": 300, "full_speed": len(fast) / len(costs),
           "first_sample_s": statistics.median(c.ready_s for c in fast or costs),
           "all_first_sample_s": statistics.median(c.ready_s for c in costs),
           "worst_s": max(c.ready_s for c in costs),
           "cpu_s": statistics.median(c.ready_cpu_s for c in fast or costs),
           "sampling_rss": max(c.sampling_rss for c in costs), "rss": max(c.rss for c in costs)}


def whole(args, python):
    """What all of a run costs, in several situations."""
    with contextlib.closing(collector.Collector()) as end:
        for situation in everything.chosen(args.situation):
            say("whole: %s" % situation.name)
            yield from everything.rows_of(situation, python, args.seconds, args.rounds, end, args.otel)


def waits(args, python):
    """What the events of waits cost, and how right they are."""
    with contextlib.closing(collector.Collector()) as end:
        yield from waiting.rows(args, python, say, end)


def trace(args):
    """What a traced call costs, by interpreter."""
    yield from calls.rows(args, say)


PAIRS = 6  # fewer tell nothing
# What is compared of one run.
PAIRED = (("BPF us/sample", lambda c: per_sample([c])["bpf_ns"] / 1000),
          ("user CPU ms", lambda c: 1000 * c.whole_cpu_s),
          ("first sample ms", lambda c: 1000 * c.ready_s),
          ("MiB", lambda c: (c.rss + map_bytes([c])) / (1 << 20)),
          ("verified instructions", lambda c: c.verified))


def judged(ratios):
    """Chance puts all of n pairs on one side in one of 2 ** (n - 1) comparisons."""
    if min(ratios) == max(ratios):  # a figure without chance
        return "no difference" if ratios[0] == 1 else "more" if ratios[0] > 1 else "less"
    if len(ratios) < PAIRS:
        return "too few pairs"
    if min(ratios) > 1:
        return "more"
    return "less" if max(ratios) < 1 else "no difference"


def paired(now, before):
    """A row for each figure of runs that were made in pairs."""
    for name, figure in PAIRED:
        mine, theirs = [figure(c) for c in now], [figure(c) for c in before]
        if not all(theirs):
            continue
        ratios = [a / b for a, b in zip(mine, theirs)]
        yield {"figure": name, "now": statistics.median(mine), "before": statistics.median(theirs),
               "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
               "verdict": judged(ratios)}


def against(args, python):
    """This build and that of another commit, in the same rounds."""
    now, before = profilers.ours(), profilers.of_commit(args.against)
    for workload in WORKLOADS:
        if workload.name not in (args.workload or [TYPICAL.name]):
            continue
        with Target(python, workload, args.seconds) as target:
            for hz in args.frequency:
                say("%s at %d Hz, against %s" % (workload.name, hz, before.name))
                costs = rounds(target, [now, before], hz, args.rounds)
                for row in paired(costs[now], costs[before]):
                    yield {"workload": workload.name, "hz": hz, "against": before.name, "rounds": args.rounds, **row}


def compare(target, others, hz, count):
    """One row for each of `others`, in the same rounds. One that fails is named and left out."""
    others, rows = list(others), []
    while others:
        try:
            costs = rounds(target, [None, *others], hz, count)
            break
        except BenchError as e:
            failed = next((p for p in others if str(e).startswith(p.name)), None)
            if not failed:
                raise
            say(str(e))
            others.remove(failed)
            rows.append({"name": failed.name, "hz": hz, "failed": str(e)})
    for p in others:
        row = {"name": p.name, "hz": hz, "note": p.note, **user_space(costs[p]),
               "slowdown": with_spread(slowdown(costs[p], costs[None]))}
        if "counters" in costs[p][0].result:
            row.update(per_sample(costs[p]), samples=total(costs[p], "counted"))
        elif p.every_run:
            slices = slices_of(costs[p])
            row.update(bpf_ns=bpf_ns_of_runs(fastest(slices)), full_speed=share_at_full_speed(slices),
                       all_bpf_ns=bpf_ns_of_runs(slices), samples=sum(s.bpf_runs for s in slices),
                       target_share=min(c.target_cpu_s / c.seconds for c in costs[p]))
        row.setdefault("samples", sum(c.result.get("samples") or 0 for c in costs[p]) or None)
        rows.append(row)
    return rows


def at_work(profiler):
    """The same, measured when it has settled."""
    return dataclasses.replace(profiler, settle_s=max(profiler.settle_s, PEER_SETTLE_S))


def peers(args, python, otel):
    """All on the same target, in the same rounds."""
    seconds = PEER_SECONDS * args.seconds
    count = min(args.rounds, PEER_ROUNDS)
    with contextlib.closing(collector.Collector()) as end:
        found, missing = profilers.peers(otel, end)
        yield from ({"name": name, "missing": why} for name, why in missing.items())
        found = [at_work(p) for p in (profilers.empty(), profilers.ours(), *found)]
        others = [p for p in found if not p.python]
        with Target(python, TYPICAL, seconds) as target:
            for hz in args.peer_frequency:
                say("peers at %d Hz" % hz)
                yield from compare(target, others, hz, count)
        for p in found:
            if not p.python:
                continue
            with Target(p.python, TYPICAL, seconds) as target:
                for hz in args.peer_frequency:
                    say("%s at %d Hz" % (p.name, hz))
                    yield from compare(target, [p], hz, count)
