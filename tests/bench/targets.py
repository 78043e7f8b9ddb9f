# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the project wants its costs to be, and whether a run shows it.

A target that the run did not measure is left out.
"""
from runs import SPEEDY

MIB = 1 << 20
# Of frames and samples that are measured one after the other: this much is noise.
FLAT = 1.3
# Bytes, with its names and the writing of the results: docs/performance.md, "What grows with what".
A_STACK = 1000
# Whoever samples all that runs on a CPU has samples of others if the target had less of it.
WHOLE = 0.95


def verdict(name, ok, figure, wanted, known=True):
    """`known`: it is exact enough to tell."""
    return {"target": name, "passed": bool(ok and known), "figure": figure, "wanted": wanted,
            "verdict": ("met" if ok else "MISSED") if known else "noise"}


def noisy(pair):
    text = "%.2f%%" % (100 * pair["median"])
    return text + (" +- %.2f%%" % (100 * pair["spread"]) if pair["spread"] is not None else "")


def of_slowdown(cells):
    for hz, limit in ((99, 0.001), (999, 0.01), (9999, 0.1)):
        for c in cells:
            if c["workload"] == "typical" and c["hz"] == hz:
                slow, wanted = c["over_empty"], "< %g%%" % (100 * limit)
                yield verdict("slowdown over an empty handler at %d Hz" % hz,
                              slow["median"] < limit, noisy(slow), wanted,
                              abs(slow["median"] - limit) > (slow["spread"] or 0))
                # Without what the caches lose, but exact.
                yield verdict("CPU of the target for its samples at %d Hz" % hz,
                              c["handler"] < limit, "%.3f%%" % (100 * c["handler"]), wanted,
                              c["full_speed"] >= SPEEDY)


def of_samples(cells):
    if cells:
        lost = sum(c["lost"] for c in cells)
        reasons = {"%s at %d Hz: %s" % (c["workload"], c["hz"], " ".join(c["reasons"]))
                   for c in cells if c["lost"]}
        yield verdict("lost samples up to %d Hz" % max(c["hz"] for c in cells), not lost,
                      "%d %s" % (lost, "; ".join(sorted(reasons))), "0")


def of_memory(cells):
    """Its peak until the end of sampling, and that with the last window, the names and the files."""
    for key, what in (("sampling_rss", "while sampling"), ("rss", "with the results")):
        if cells:
            worst = max(cells, key=lambda c: c[key])
            yield verdict("resident memory %s" % what, worst[key] <= 30 * MIB,
                          "%.1f MiB (%s at %d Hz)" % (worst[key] / MIB, worst["workload"],
                                                      worst["hz"]), "<= 30 MiB")


def of_frames(rows, main):
    for r in rows:
        if r["python"] != main:
            continue
        t, known = r["typical"], r["full_speed"] >= SPEEDY
        yield verdict("BPF time of %.0f native + %.0f Python frames" % (t["native"], t["python"]),
                      t["bpf_ns"] <= 10000, "%.1f us" % (t["bpf_ns"] / 1000), "<= 10 us", known)
        yield verdict("a native frame", r["native_frame_ns"] <= 110,
                      "%.0f ns" % r["native_frame_ns"], "<= 110 ns", known)
        yield verdict("a Python frame", r["python_frame_ns"] <= 120,
                      "%.0f ns" % r["python_frame_ns"], "<= 120 ns", known)


def of_sizes(rows):
    """The largest of each kind against the smallest.

    Memory: docs/performance.md, "What grows with what".
    """
    first = {}
    for r in rows:
        first.setdefault(r["of"], r)
    for r in {r["of"]: r for r in rows}.values():
        name, one = "%d %s" % (r["n"], r["of"]), first[r["of"]]
        yield verdict("a sample of %s" % name, r["ratio"] <= FLAT,
                      "%.2f times that of %d (bpf_get_stack() %.2f)" % (
                          r["ratio"], one["n"], r["get_stack_ratio"]), "<= %.1f" % FLAT,
                      min(r["full_speed"], one["full_speed"]) >= SPEEDY)
        yield verdict("lost of %s" % name, not r["lost"],
                      "%d %s" % (r["lost"], " ".join(sorted(r["reasons"]))), "0")
        if r["of"] == "stacks":
            each = (r["rss"] - one["rss"]) / r["stacks"]
            yield verdict("different stacks in one run", r["stacks"] >= r["n"], str(r["stacks"]),
                          ">= %d" % r["n"])
            yield verdict("memory for each stack", each <= A_STACK, "%.0f bytes" % each,
                          "<= %d bytes" % A_STACK)
        else:
            yield verdict("resident memory, %s" % name, r["rss"] <= 30 * MIB,
                          "%.1f MiB (%.1f with %d)" % (r["rss"] / MIB, one["rss"] / MIB, one["n"]),
                          "<= 30 MiB")


def of_scale(flat, start):
    for f in flat:
        yield verdict("a sample among many %s" % f["in"], f["ratio"] <= FLAT,
                      "%.2f times that of one" % f["ratio"], "<= %.1f" % FLAT,
                      f["full_speed"] >= SPEEDY)
    for s in start:
        yield verdict("first sample on a host of %d processes" % s["processes"],
                      s["first_sample_s"] < 0.15, "%.0f ms" % (1000 * s["first_sample_s"]),
                      "< 150 ms", s["full_speed"] > 0)
        yield verdict("resident memory on a host of %d processes" % s["processes"],
                      s["rss"] <= 30 * MIB, "%.1f MiB" % (s["rss"] / MIB), "<= 30 MiB")


def of_otel(ours, theirs):
    ratio = ours["bpf_ns"] / theirs["bpf_ns"]
    figure = "%.1f : %.1f us = %.2f" % (ours["bpf_ns"] / 1000, theirs["bpf_ns"] / 1000, ratio)
    if theirs["target_share"] < WHOLE:
        figure = "not to be told: other work had %.0f%% of the target's CPU" % (
            100 - 100 * theirs["target_share"])
    return verdict("BPF time against %s at %d Hz" % (theirs["name"], theirs["hz"]),
                   ratio <= 0.5, figure, "<= 0.5", theirs["target_share"] >= WHOLE and
                   min(ours["full_speed"], theirs["full_speed"]) >= SPEEDY)


def of_peers(rows):
    ours = {r["hz"]: r for r in rows if r["name"] == "pyperf-bpf" and "cpu" in r}
    if 999 in ours:
        cpu = ours[999]["cpu"]
        yield verdict("user space at 999 Hz", cpu < 0.01, "%.3f%% of a core" % (100 * cpu), "< 1%")
    for r in rows:
        mine = ours.get(r.get("hz"))
        if not mine or "cpu" not in r or r["name"] in ("pyperf-bpf", "empty handler"):
            continue
        ratio = mine["cpu"] / r["cpu"] if r["cpu"] else float("inf")
        yield verdict("user space against %s at %d Hz" % (r["name"], r["hz"]), ratio <= 0.1,
                      "%.4f%% : %.4f%% = %.3f" % (100 * mine["cpu"], 100 * r["cpu"], ratio),
                      "<= 0.1")
        if r["name"].startswith("OpenTelemetry"):
            yield of_otel(mine, r)


def is_told(mine, theirs):
    """The rounds of the one lie apart from those of the other."""
    return mine["most"] < theirs["least"] or theirs["most"] < mine["least"]


def limit_of(row, key, limit, text, name, wanted):
    """All rounds, or none, keep to it; else the figure is noise."""
    value = row[key]
    return verdict(name, value["median"] <= limit, text(value["median"]), wanted,
                   value["most"] <= limit or value["least"] > limit)


def of_whole(rows):
    """All BPF programs, the profiler's processes from start to exit, memory together with maps."""
    done = [r for r in rows if "cpu_s" in r]
    theirs = {r["situation"]: r for r in done if r["name"].startswith("OpenTelemetry")}
    for r in done:
        if not r["name"].startswith("pyperf-bpf"):
            continue
        what = "%s, %s" % (r["name"], r["situation"])
        if r["situation"] == "typical":
            yield limit_of(r, "first_sample_s", 0.08, lambda s: "%.0f ms" % (1000 * s),
                           "first sample: %s" % what, "<= 80 ms")
            yield limit_of(r, "user_s", 0.07, lambda s: "%.0f ms" % (1000 * s),
                           "CPU from start to exit: %s" % what, "<= 70 ms")
        if r["situation"] == "compiles" and r["name"] == "pyperf-bpf":
            yield limit_of(r, "memory", 64 * MIB, lambda b: "%.1f MiB" % (b / MIB),
                           "resident memory and maps: %s" % what, "<= 64 MiB")
        if r["situation"] == "chunks":
            mine, other = r["sampler_s"], r["other_bpf_s"]
            yield verdict("BPF beside the sampler: %s" % what, other["median"] <= mine["median"],
                          "%.1f : %.1f ms" % (1000 * other["median"], 1000 * mine["median"]), "<= the sampler",
                          is_told(mine, other))
        if r["situation"] in theirs:
            yield from against(r, theirs[r["situation"]], what)


def against(row, peer, what):
    """Less than the peer takes: of BPF programs, and of CPU time with that of the processes."""
    for key, text in (("bpf_s", "all BPF time"), ("cpu_s", "all CPU time")):
        mine, other = row[key], peer[key]
        yield verdict("%s against %s: %s" % (text, peer["name"], what), mine["median"] < other["median"],
                      "%.0f : %.0f ms" % (1000 * mine["median"], 1000 * other["median"]), "less",
                      is_told(mine, other))


# Switches a second -> the most that an event of waits may take of a CPU.
SWITCHES = {1000: 0.01, 10000: 0.02, 100000: 0.05}
SAME_SWITCHES = 0.01
MOST_OF_A_SERVICE = 0.03
# By how much a reason's time, and a thread's time off its CPU, may be wrong.
A_REASON, A_THREAD = 0.02, 0.01


def within(name, value, limit):
    """A difference, up or down. Noise if some rounds keep to the limit and others do not."""
    most = max(abs(value["least"]), abs(value["most"]))
    least = min(abs(value["least"]), abs(value["most"])) if value["least"] * value["most"] > 0 else 0
    return verdict(name, abs(value["median"]) <= limit, "%.2f%%" % (100 * value["median"]), "within %g%%" % (100 * limit),
                   most <= limit or least > limit)


def of_switches(r):
    what = "%s, %d switches/s" % (r["name"], r["rate"])
    limit = SWITCHES[r["rate"]]
    yield limit_of(r, "net", limit, lambda s: "%.2f%% at %.0f" % (100 * s, r["switches"]["median"]),
                   "CPU of BPF: " + what, "<= %g%%" % (100 * limit))
    yield within("switches with and without: " + what, {k: v - 1 for k, v in r["ratio"].items()}, SAME_SWITCHES)


def of_waits(rows):
    done = [r for r in rows if "failed" not in r]
    for r in done:
        mine = r["name"].startswith("pyperf-bpf")
        if r["of"] == "switches" and mine:
            yield from of_switches(r)
        if r["of"] == "service" and mine:
            slow = r["slowdown"]
            yield verdict("slowdown of a service: %s" % r["name"], slow["median"] < MOST_OF_A_SERVICE, noisy(slow),
                          "< %g%%" % (100 * MOST_OF_A_SERVICE),
                          abs(slow["median"] - MOST_OF_A_SERVICE) > (slow["spread"] or 0))
        if r["of"] == "truth":
            yield within("%s, against clocks" % r["name"], r["differs"], A_REASON)
        if r["of"] == "faults":
            yield within(r["name"], r["differs"], A_REASON)
        if r["of"] == "timehist":
            yield within("the worst thread, against perf sched timehist", r["differs"], A_THREAD)
    lost = [r["lost"] for r in done if r.get("lost") is not None]
    if lost:
        yield verdict("lost waits", not sum(lost), str(sum(lost)), "0")


def of_trace(rows):
    """What a call may cost the program that is traced, trap included."""
    for r in rows:
        if r.get("limit") and "failed" not in r:
            cost = r["cost"]
            yield verdict("a call: %s, CPython %s" % (r["tool"], r["python"]), cost["median"] <= r["limit"],
                          "%.2f +-%.2f us" % (cost["median"], cost["spread"]), "<= %.1f us" % r["limit"],
                          abs(cost["median"] - r["limit"]) > cost["spread"])


def judge(run):
    cells = run.get("matrix", [])
    return [*of_slowdown(cells), *of_frames(run.get("frames", []), run["python"]),
            *of_scale(run.get("flat", []), run.get("start", [])),
            *of_sizes(run.get("scale", [])), *of_samples(cells),
            *of_memory(cells), *of_peers(run.get("peers", [])), *of_whole(run.get("whole", [])),
            *of_waits(run.get("waits", [])), *of_trace(run.get("trace", []))]
