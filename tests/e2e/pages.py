# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Pages with a profile made by hand, in the format of user/export/export_html.c.

    stacks = [(["main", "f"], 70), (["main", "g", Native("read")], 30)]
    path.write_text(page(shell, stacks))

`shell` is a page that the profiler wrote: its data is replaced, the rest is as it is.
"""
import base64
import gzip
import json
import re

DIGITS = ("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
          "!#$%()*+,-./:;=?@[]^_`{|}~")
DATA = re.compile(r'(<script type="application/json" id="profile">)(.*?)(</script>)', re.S)
PACKED = re.compile(r'(<script type="application/gzip" id="profile">)(.*?)(</script>)', re.S)


class Frame:
    """A frame; a plain string is a Python function of that name, "name:LINE" one of its lines.

    Python below /srv is own code.
    """

    def __init__(self, name, kind=1, file="/srv/shop/app.py", line=0, plumbing=0, source=""):
        self.name, self.kind, self.file, self.line, self.plumbing = name, kind, file, line, plumbing
        self.source = source

    @classmethod
    def of(cls, frame):
        if isinstance(frame, cls):
            return frame
        name, _, line = frame.partition(":")
        return cls(name, line=int(line or 0))

    def function(self):
        return (self.name, self.file, self.kind, self.plumbing)

    def place(self):
        return (self.function(), self.line, self.source)


def Native(name):
    return Frame(name, 2, "/usr/lib/libx.so")


def Plumbing(name):
    return Frame(name, 2, "/usr/bin/python3.11", plumbing=1)


def Box(name):
    """Stands for the plumbing behind it."""
    return Frame(name, 2, "/usr/bin/python3.11", plumbing=2)


def Kernel(name):
    return Frame(name, 3, "[kernel]")


def digits(n):
    base, out = len(DIGITS) // 2, ""
    while n >= base:
        out += DIGITS[n % base + base]
        n //= base
    return out + DIGITS[n]


def column(numbers):
    return "".join(map(digits, numbers))


class Table(dict):
    """Value -> number, in the order of first use."""

    def number(self, value):
        return self.setdefault(value, len(self))


def package_of(path):
    _, site, name = path.partition("/site-packages/")
    return name.partition("/")[0] if site else "shop"


def zigzag(n):
    return -2 * n + 1 if n < 0 else 2 * n


def changes(values):
    """What each is more than the one before."""
    return [zigzag(now - before) for before, now in zip([0, *values], values)]


def profile(stacks, base=None, scale=1.0, hz=100, over_time=None):
    """`stacks` and `base`: [(frames, count[, (comm, pid, tid, thread)])]. `over_time`: {"when": [ms], "rss": [bytes], "peak": ms,
    "values": for each of `stacks` what it had at each point}."""
    data = flat(stacks, base, scale, hz)
    if over_time:
        order = sorted(range(len(stacks)), key=lambda i: (("web", 42, 0, ""), tuple(Frame.of(f).place() for f in stacks[i][0])))
        data["curves"] = {"when": column(over_time["when"]), "rss": column(over_time["rss"]), "peak": column([over_time["peak"]]),
                          "change": "".join(column(changes(over_time["values"][i])) for i in order)}
    return data


def flat(stacks, base, scale, hz):
    counts, strings, groups = {}, Table(), Table()
    funcs, places, tasks = Table(), Table(), Table()
    for which, of in enumerate((stacks, base or [])):
        for frames, count, *task in of:
            places_of = tuple(Frame.of(f).place() for f in frames)
            key = (task[0] if task else ("web", 42, 0, ""), places_of)
            counts.setdefault(key, [0, 0])[which] += count
    keys = sorted(counts)
    for task, places_of in keys:
        tasks.number(task)
        for place in places_of:
            funcs.number(place[0])
            places.number(place)
    shared, fresh, frames, last = [], [], [], ()
    for _, places_of in keys:
        same = 0
        while same < min(len(last), len(places_of)) and last[same] == places_of[same]:
            same += 1
        shared.append(same)
        fresh.append(len(places_of) - same)
        frames += [places[place] for place in places_of[same:]]
        last = places_of
    group = [groups.number({1: package_of(f[1]), 2: f[1].rpartition("/")[2], 3: "kernel"}.get(f[2], "marker"))
             for f in funcs]
    text = strings.number
    return {
        "compared": base is not None, "before": "Before", "scale": scale, "weights": [1, 1], "hz": hz,
        "total": sum(s[1] for s in stacks), "complete": 99, "userStacks": 100, "lost": 0,
        "refused": 0, "stdlib": -1, "one": "sample", "many": "samples", "digits": DIGITS, "groups": list(groups),
        "funcs": {"kind": column(f[2] for f in funcs), "plumbing": column(f[3] for f in funcs),
                  "own": column(f[2] == 1 and f[1].startswith("/srv/") for f in funcs),
                  "name": column(text(f[0]) for f in funcs),
                  "file": column(text(f[1]) for f in funcs),
                  "line": column(0 for f in funcs), "group": column(group)},
        "places": {"func": column(funcs[p[0]] for p in places),
                   "line": column(p[1] for p in places),
                   "text": column(text(p[2]) for p in places)},
        "tasks": {"comm": column(text(t[0]) for t in tasks),
                  "exe": column(text("") for t in tasks),
                  "thread": column(text(t[3]) for t in tasks),
                  "pid": column(t[1] for t in tasks), "tid": column(t[2] for t in tasks)},
        "stacks": {"task": column(tasks[key[0]] for key in keys),
                   "value": column(counts[key][0] for key in keys),
                   "base": column(counts[key][1] for key in keys) if base else None,
                   "shared": column(shared), "fresh": column(fresh), "frames": column(frames)},
        "strings": list(strings),
    }


def page(shell, *args, **kwargs):
    data = json.dumps(profile(*args, **kwargs)).replace("<", "\\u003c")
    return DATA.sub(lambda m: m[1] + data + m[3], shell, count=1)


def data_of(text):
    if packed := PACKED.search(text):
        return json.loads(gzip.decompress(base64.b64decode(packed[2])))
    return json.loads(DATA.search(text)[2])


def damaged(text):
    """The page, packed, as a download leaves it that has ended early."""
    return PACKED.sub(lambda m: m[1] + m[2][:len(m[2]) // 8 * 4] + m[3], text, count=1)


def undigits(text):
    """The numbers of a column."""
    base, out, n, unit = len(DIGITS) // 2, [], 0, 1
    for c in text:
        digit = DIGITS.index(c)
        n += digit % base * unit
        unit *= base
        if digit < base:
            out.append(n)
            n, unit = 0, 1
    return out
