# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A run as tables for people, and as a picture of the comparison with others, of workloads and sizes."""
from xml.sax.saxutils import escape

MIB = 1 << 20


def percent(share, digits=2):
    return "%.*f%%" % (digits, 100 * share)


def spread(pair):
    text = percent(pair["median"])
    return text if pair["spread"] is None else "%s +-%s" % (text, percent(pair["spread"]))


def mib(size):
    return "%.1f" % (size / MIB)


def ms(seconds):
    return "-" if seconds is None else "%.1f" % (1000 * seconds)


def us(ns):
    return "-" if ns is None else "%.2f" % (ns / 1000)


def table(title, heads, rows):
    """Lines of a table, the first column to the left."""
    cells = [heads, *rows]
    widths = [max(len(r[i]) for r in cells) for i in range(len(heads))]
    lines = ["  ".join(c.ljust(w) if not i else c.rjust(w)
                       for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in cells]
    return [title, "", *lines, ""]


def matrix(cells):
    slow = [[c["workload"], str(c["hz"]), spread(c["slowdown"]), spread(c["over_empty"]),
             percent(c["handler"], 3), us(c["bpf_ns"]), us(c["all_bpf_ns"]), percent(c["full_speed"], 0),
             "%.0f" % (c["bpf_ns"] / (c["native"] + c["python"] + c["kernel"])),
             "%.1f" % c["native"], "%.1f" % c["python"], percent(c["cpu"], 3),
             ms(c["results_cpu_s"]), mib(c["sampling_rss"]), mib(c["rss"]), mib(c["map_bytes"])] for c in cells]
    accounts = [[c["workload"], str(c["hz"]), str(c["asked"]), str(c["delivered"]),
                 str(c["counted"]), percent(c["complete"]),
                 " ".join([str(c["lost"]), *sorted(c["reasons"])]), str(c["stacks"]),
                 ms(c["first_sample_s"]), ms(c["drain_s"])] for c in cells]
    return [*table("Cost", ["workload", "Hz", "slowdown", "over empty", "handler", "us/sample", "all us",
                            "full speed", "ns/frame", "native", "Python", "CPU", "results ms", "MiB", "with results", "maps MiB"], slow),
            *table("Samples", ["workload", "Hz", "asked", "delivered", "of the target", "complete",
                               "lost", "stacks", "first ms", "drain ms"], accounts)]


def frames(rows):
    return table("Frames", ["python", "us/sample", "all us", "native", "Python", "ns/native frame",
                            "ns/Python frame", "complete"],
                 [[r["python"], us(r["typical"]["bpf_ns"]), us(r["typical"]["all_bpf_ns"]), "%.1f" % r["typical"]["native"],
                   "%.1f" % r["typical"]["python"], "%.0f" % r["native_frame_ns"],
                   "%.0f" % r["python_frame_ns"], percent(r["complete"])] for r in rows])


def native(rows):
    return table("One native frame", ["ns by unwind rows", "ns by bpf_get_stack()"],
                 [["%.0f" % r["rows_ns"], "%.0f" % r["get_stack_ns"]] for r in rows])


def flat(rows):
    return table("Many against one", ["of", "one us", "many us", "ratio", "full speed", "frames"],
                 [[r["in"], us(r["one_ns"]), us(r["many_ns"]), "%.2f" % r["ratio"], percent(r["full_speed"], 0),
                   "%.1f, %.1f" % (r["one_frames"], r["many_frames"])] for r in rows])


def scale(rows):
    heads = ["of", "", "us/sample", "ratio", "all us", "full speed", "frames", "searched", "helper us", "ratio", "complete",
             "lost", "stacks", "MiB", "with results", "maps MiB", "first ms", "drain ms"]
    return table("Scale, at %d Hz" % rows[0]["hz"], heads,
                 [[r["of"], str(r["n"]), us(r["bpf_ns"]), "%.2f" % r["ratio"], us(r["all_bpf_ns"]), percent(r["full_speed"], 0),
                   "%.1f" % (r["native"] + r["python"]), percent(r["searched"], 0),
                   us(r["get_stack_ns"]), "%.2f" % r["get_stack_ratio"], percent(r["complete"], 1),
                   " ".join([str(r["lost"]), *sorted(r["reasons"])]), str(r["stacks"]),
                   mib(r["sampling_rss"]), mib(r["rss"]), mib(r["map_bytes"]),
                   ms(r["first_sample_s"]), ms(r["drain_s"])] for r in rows])


def peers(rows):
    lines = table("Peers", ["profiler", "Hz", "slowdown", "CPU", "whole CPU s", "results s", "MiB", "maps MiB",
                            "BPF us/sample", "all us", "samples"],
                  [[r["name"], str(r["hz"]), spread(r["slowdown"]), percent(r["cpu"], 3),
                    "%.2f" % r["whole_cpu_s"], "%.2f" % r["results_cpu_s"], mib(r["rss"]), mib(r["map_bytes"]),
                    us(r.get("bpf_ns")), us(r.get("all_bpf_ns")), str(r.get("samples") or "-")]
                   for r in rows if "cpu" in r])
    lines[-1:] = ["%s: %s" % (r["name"], r.get("missing") or r.get("failed"))
                  for r in rows if "cpu" not in r] + [""]
    return lines


def ranged(value, factor, digits):
    """Its median, and its least and greatest value."""
    if value is None:
        return "-"
    if value["least"] == value["most"]:
        return "%.*f" % (digits, factor * value["median"])
    return "%.*f (%.*f to %.*f)" % (digits, factor * value["median"], digits, factor * value["least"],
                                 digits, factor * value["most"])


def against(rows):
    return table("Against %s: the median of %d pairs, and the least and the most" % (rows[0]["against"], rows[0]["rounds"]),
                 ["workload", "Hz", "figure", "now", "before", "ratio", "least", "most", ""],
                 [[r["workload"], str(r["hz"]), r["figure"], "%.4g" % r["now"], "%.4g" % r["before"],
                   "%.3f" % r["ratio"], "%.3f" % r["least"], "%.3f" % r["most"], r["verdict"]] for r in rows])


def whole(rows):
    heads = ["situation", "profiler", "rounds", "slowdown %", "all CPU ms", "user ms", "sampler ms", "other BPF ms",
             "first ms", "exit ms", "MiB", "maps MiB"]
    lines = table("All of a run, at %d Hz: the median, and the least and the most of the rounds" % rows[0]["hz"], heads,
                  [[r["situation"], r["name"], str(r["rounds"]), ranged(r["slowdown"], 100, 1), ranged(r["cpu_s"], 1000, 0),
                    ranged(r["user_s"], 1000, 0), ranged(r["sampler_s"], 1000, 1), ranged(r["other_bpf_s"], 1000, 1),
                    ranged(r.get("first_sample_s"), 1000, 0), ranged(r["exit_s"], 1000, 0),
                    ranged(r["rss"], 1 / MIB, 1), ranged(r["map_bytes"], 1 / MIB, 1)]
                   for r in rows if "cpu_s" in r])
    lines[-1:] = ["%s, %s: %s" % (r["situation"], r["name"], r["failed"])
                  for r in rows if "failed" in r] + [""]
    return lines


def of_kind(rows, kind):
    return [r for r in rows if r["of"] == kind and "failed" not in r]


def waits(rows):
    lines = []
    found = of_kind(rows, "switches")
    if found:
        lines += table("Switches: the median, and the least and the most of the rounds", [
            "tool", "wanted/s", "switches/s", "of alone %", "BPF % of a CPU", "net %", "ns a switch", "user %", "lost"],
            [[r["name"], str(r["rate"]), ranged(r["switches"], 1, 0), ranged(r["ratio"], 100, 1), ranged(r["bpf"], 100, 2),
              ranged(r["net"], 100, 2), ranged(r["each_ns"], 1, 0), ranged(r["user"], 100, 2),
              "-" if r["lost"] is None else str(r["lost"])] for r in found])
    found = of_kind(rows, "service")
    if found:
        lines += table("A service", ["tool", "rounds", "slowdown", "lost"],
                       [[r["name"], str(r["rounds"]), spread(r["slowdown"]), "-" if r["lost"] is None else str(r["lost"])]
                        for r in found])
    found = of_kind(rows, "truth")
    if found:
        lines += table("Waits, by the clocks of a program and by -e off-cpu", [
            "function", "reason", "true s", "told s", "of the reason s", "differs %"],
            [[r["name"], r["reason"], "%.3f" % r["true_s"], "%.3f" % r["told_s"], "%.3f" % r["reason_s"], ranged(r["differs"], 100, 2)]
             for r in found])
    lines += ["%s: the thread that differs most does by %s %%" % (r["name"], ranged(r["differs"], 100, 2))
              for r in of_kind(rows, "timehist")]
    lines += ["%s: differs by %s %%" % (r["name"], ranged(r["differs"], 100, 2)) for r in of_kind(rows, "faults")]
    return lines + ["%s%s: %s" % (r["name"], ", %d switches/s" % r["rate"] if "rate" in r else "", r["failed"])
                    for r in rows if "failed" in r] + [""]


TRACE_FIGURES = (("cost", "CPU time that a call costs the program, us"), ("bpf_ns", "... of that in BPF programs, ns"),
                 ("runs", "breakpoints that a call hits"), ("user", "CPU time of the tool for a call, us"))


def trace_figure(row, key):
    value = row.get(key)
    if value is None:
        return "-"
    if isinstance(value, dict):
        return "%.2f +-%.2f" % (value["median"], value["spread"])
    return "%.0f" % value if key == "bpf_ns" else "%.1f" % value


def trace(rows):
    """A table for each figure: the tools by interpreter."""
    pythons = list(dict.fromkeys(r["python"] for r in rows))
    found = {(r["tool"], r["python"]): r for r in rows if "failed" not in r}
    lines = []
    for key, title in TRACE_FIGURES:
        shown = [t for t in dict.fromkeys(r["tool"] for r in rows)
                 if any(found.get((t, p), {}).get(key) is not None for p in pythons)]
        cells = [[t, *(trace_figure(found.get((t, p), {}), key) for p in pythons)] for t in shown]
        if key == "cost":
            alone = {r["python"]: r for r in found.values()}
            cells.insert(0, ["(a call that nothing looks at)", *(trace_figure(alone.get(p, {}), "alone") for p in pythons)])
        lines += table(title, ["tool", *pythons], cells)
    return lines + ["%s, CPython %s: %s" % (r["tool"], r["python"], r["failed"]) for r in rows if "failed" in r] + [
        "%s, CPython %s: %d events were lost" % (r["tool"], r["python"], r["lost"]) for r in rows if r.get("lost")] + [""]


def targets(verdicts):
    lines = table("Targets", ["target", "wanted", "figure"],
                  [[v["target"], v["wanted"], v["figure"]] for v in verdicts])
    met = [v["verdict"] for v in verdicts]
    return [*lines[:2], " " * 8 + lines[2],
            *("%-6s  %s" % (v["verdict"], line) for line, v in zip(lines[3:], verdicts)), "",
            "%d met, %d missed; %d noise: nearer to the target than the figure is exact" % (
                met.count("met"), met.count("MISSED"), met.count("noise")), ""]


def machine(run):
    m, took = run["machine"], run.get("took_s", {})
    return ["%s, %d CPUs, Linux %s, load %.1f; %s; CPython %s; %s" % (
        m["cpu"], m["cpus"], m["kernel"], m["load"], run["program"], run["python"], run["date"]),
        "%d rounds; %d s: %s" % (run["options"]["rounds"], sum(took.values()), ", ".join(
            "%s %d" % part for part in took.items())), ""]


def text(run):
    """The verdicts first, then all that they come from."""
    lines = machine(run)
    if run.get("targets"):
        lines += targets(run["targets"])
    if run.get("matrix"):
        lines += matrix(run["matrix"])
    if run.get("frames"):
        lines += frames(run["frames"])
    if run.get("native"):
        lines += native(run["native"])
    if run.get("flat"):
        lines += flat(run["flat"])
    if run.get("scale"):
        lines += scale(run["scale"])
    for s in run.get("start", []):
        lines += ["Start: first sample on a host of %d processes after %s ms (worst %s), %s ms of CPU;"
                  " %s MiB resident until the end of sampling, %s with results" % (
                      s["processes"], ms(s["first_sample_s"]), ms(s["worst_s"]), ms(s["cpu_s"]),
                      mib(s["sampling_rss"]), mib(s["rss"])), ""]
    if run.get("peers"):
        lines += peers(run["peers"])
    if run.get("whole"):
        lines += whole(run["whole"])
    if run.get("waits"):
        lines += waits(run["waits"])
    if run.get("trace"):
        lines += trace(run["trace"])
    if run.get("against"):
        lines += against(run["against"])
    return "\n".join(lines)


def markdown(text):
    """The first paragraph as it is, all others as code."""
    first, _, rest = text.strip().partition("\n\n")
    return first.replace("; ", ";\n", 1) + "\n\n" + "\n".join(
        "    " + line if line else "" for line in rest.splitlines())


# ---- picture -------------------------------------------------------------------------------------

BAR, LEFT, WIDE, ROW, HEAD = 14, 230, 420, 20, 34
PANELS = (("cpu", "user space, % of a core", 100), ("slowdown", "slowdown of the target, %", 100),
          ("rss", "resident memory, MiB", 1 / MIB), ("bpf_ns", "BPF time per sample, us", 1 / 1000))


def panel(rows, top, title):
    """Bars of (name, value)."""
    most = max([value for _, value in rows] + [1e-9])
    parts = ['<text x="8" y="%d" class="t">%s</text>' % (top + 22, escape(title))]
    for i, (name, value) in enumerate(rows):
        y = top + HEAD + i * ROW
        width = max(1, WIDE * max(0, value) / most)
        ours = ' class="o"' if name == "pyperf-bpf" else ""
        parts.append('<text x="%d" y="%d" text-anchor="end">%s</text>'
                     '<rect x="%d" y="%d" width="%.1f" height="%d"%s/>'
                     '<text x="%.1f" y="%d">%.3g</text>'
                     % (LEFT - 6, y + 11, escape(name), LEFT, y, width, BAR, ours,
                        LEFT + width + 6, y + 11, value))
    return parts, top + HEAD + len(rows) * ROW


def panels(run):
    """(title, bars): profilers at the highest rate that was compared, and a sample by size."""
    rows = [r for r in run.get("peers", []) if "cpu" in r]
    hz = max((r["hz"] for r in rows), default=0)
    for key, title, factor in PANELS if rows else ():
        yield "%s, %d Hz" % (title, hz), [
            (r["name"], factor * (r[key]["median"] if key == "slowdown" else r[key]))
            for r in rows if r["hz"] == hz and r.get(key) is not None]
    cells = run.get("matrix", [])
    for hz in sorted({c["hz"] for c in cells}):
        yield "CPU of the target for its samples, %%, %d Hz" % hz, [
            (c["workload"], 100 * c["handler"]) for c in cells if c["hz"] == hz]
    if run.get("scale"):
        yield "BPF time per sample, us, %d Hz" % run["scale"][0]["hz"], [
            ("%d %s" % (r["n"], r["of"]), r["bpf_ns"] / 1000) for r in run["scale"]]


def svg(run):
    """Panels of bars; None without any."""
    parts, at = [], 0
    for title, bars in panels(run):
        more, at = panel(bars, at, title)
        parts += more
    if not parts:
        return None
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 %d" width="760" '
            'font-family="sans-serif" font-size="12">\n'
            '<style>rect{fill:#9ab}.o{fill:#c52}.t{font-weight:bold}</style>\n'
            '<rect width="100%%" height="100%%" style="fill:#fff"/>\n%s\n</svg>\n'
            % (at + 10, "\n".join(parts)))
