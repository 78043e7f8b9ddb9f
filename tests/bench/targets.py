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
    """The largest of each kind against the smallest. Memory: docs/performance.md, "What grows"."""
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


def judge(run):
    cells = run.get("matrix", [])
    return [*of_slowdown(cells), *of_frames(run.get("frames", []), run["python"]),
            *of_scale(run.get("flat", []), run.get("start", [])),
            *of_sizes(run.get("scale", [])), *of_samples(cells),
            *of_memory(cells), *of_peers(run.get("peers", []))]
