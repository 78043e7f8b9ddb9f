# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every format of `report` against what reads it elsewhere: schemas, speedscope in a browser, the
Firefox profiler's own command line. Names that want to do harm come out harmless in all of them."""
import collections
import csv
import functools
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata

import pytest

import harness
import pprof_write
import webdriver
from harness import PYPERF, REPO

pytestmark = pytest.mark.beside

SPEEDSCOPE, FIREFOX = "speedscope@1.25.0", "@firefox-devtools/profiler-cli@0.10.0"
SUFFIXES = ["txt", "folded", "collapsed", "json", "speedscope.json", "firefox.json", "pb.gz"]

HOSTILE = ["<script>window.pwned=1</script>", "</script><img src=x onerror=window.pwned=1>",
           "\x1b[31mred\x1b]0;title\x07", "quo\"te'\\back", "semi;colon", "new\nline\r",
           "x" * 10000, b"bad\xff\xc0\x80\xed\xa0\x80utf8", "\u202eright-to-left\u2066",
           "nul\x00byte", "\u2028\u2029", "\x7f\x85\x9b31m", "${jndi:x}", "%s%n", "a b  c",
           "f (x.py:1)", "x_[k]", "[marker]", "", "&amp;"]


def profile_of(path, names, line=3):
    profile = pprof_write.Profile()
    for i, name in enumerate(names):
        text = name if isinstance(name, bytes) else name.encode()
        frames = [(("main", "/srv/app.py"), 1), ((text, b"/srv/" + text[:300] + b".py"), line)]
        profile.add(frames, i + 1, [("pid", 40 + i % 3), ("comm", text or b"empty"),
                                    ("tid", 50 + i), ("thread", text)])
    path.write_bytes(profile.pack())
    return len(names) * (len(names) + 1) // 2


def convert(path, directory):
    """All formats: a dictionary of paths by suffix."""
    outputs = {s: directory / ("x." + s) for s in SUFFIXES}
    args = [a for path in outputs.values() for a in ("-o", str(path))]
    subprocess.run([harness.PYPERF, "report", *args, str(path)], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    return outputs


@pytest.fixture(scope="module", params=["plain", "hostile"])
def made(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    names = ["alpha", "beta", "gamma"] if request.param == "plain" else HOSTILE
    total = profile_of(directory / "in.pb.gz", names)
    return convert(directory / "in.pb.gz", directory), total


@pytest.fixture(scope="module")
def npm(tmp_path_factory):
    """A function that gives a package's files, as npm gets them, once."""
    @functools.lru_cache(maxsize=None)
    def get(package):
        if not harness.find_tool("npm"):
            return None, "npm is not installed"
        directory = tmp_path_factory.mktemp("npm")
        done = subprocess.run(["npm", "pack", "--silent", package], cwd=directory, text=True,
                              capture_output=True, timeout=120)
        if done.returncode:
            return None, "npm cannot get " + package
        shutil.unpack_archive(directory / done.stdout.split()[-1], directory, filter="data")
        return directory / "package", ""

    def files_of(package):
        files, why = get(package)
        return files or pytest.skip(why)
    return files_of


def validate(schema, document):
    """By any Python that has jsonschema: that of the tests may not be the distribution's."""
    code = "import json, sys, jsonschema\n" \
           "schema, document = [json.load(open(path)) for path in sys.argv[1:]]\n" \
           "jsonschema.validate(document, schema)"
    for python in sys.executable, "/usr/bin/python3":
        if not subprocess.run([python, "-c", "import jsonschema"], capture_output=True).returncode:
            done = subprocess.run([python, "-c", code, str(schema), str(document)],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr[-2000:]
            return
    pytest.skip("python3-jsonschema is not installed")


# ---- JSON ----------------------------------------------------------------------------------------

def test_json(made):
    outputs, total = made
    validate(REPO / "docs" / "profile.schema.json", outputs["json"])
    document = json.loads(outputs["json"].read_text())
    assert sum(s["samples"] for s in document["stacks"]) == document["samples"] == total
    assert sum(p["samples"] for p in document["processes"]) == total
    assert sum(t["samples"] for t in document["threads"]) == total
    for stack in document["stacks"]:
        frames = [document["frames"][i] for i in stack["frames"]]
        assert frames[0]["function"] == "main" and frames[0]["line"] == 1
        assert stack["process"] < len(document["processes"])


def test_schema_can_fail(made, directory):
    document = json.loads(made[0]["json"].read_text())
    del document["stacks"][0]["frames"]
    broken = directory / "x.json"
    broken.write_text(json.dumps(document))
    with pytest.raises(AssertionError, match="'frames' is a required property"):
        validate(REPO / "docs" / "profile.schema.json", broken)


# ---- speedscope ----------------------------------------------------------------------------------

def test_speedscope_sums(made):
    outputs, total = made
    document = json.loads(outputs["speedscope.json"].read_text())
    weights = [sum(p["weights"]) for p in document["profiles"]]
    assert weights == [p["endValue"] for p in document["profiles"]] == sorted(weights, reverse=True)
    assert abs(sum(weights) - total * 10 ** 9 // 99) < 1000
    for p in document["profiles"]:
        assert len(p["samples"]) == len(p["weights"])
        assert all(i < len(document["shared"]["frames"]) for s in p["samples"] for i in s)


def test_speedscope_schema(made, npm):
    validate(npm(SPEEDSCOPE) / "dist/release/file-format-schema.json", made[0]["speedscope.json"])


def test_speedscope_opens_it(made, npm):
    if isinstance(webdriver.find(), str):
        pytest.skip(webdriver.find())
    site = npm(SPEEDSCOPE) / "dist/release"
    shutil.copy(made[0]["speedscope.json"], site / "x.speedscope.json")
    first = json.loads(made[0]["speedscope.json"].read_text())["profiles"][0]["name"]
    with webdriver.serve(site) as base, webdriver.Browser((1200, 900)) as page:
        page.go(base + "index.html#profileURL=" + base + "x.speedscope.json")
        page.wait("return document.querySelectorAll('canvas').length > 0")
        shown = page.wait("const text = document.body.innerText;"
                          "return text.includes('(1/') && text")
        assert " ".join(first.split())[:20] in " ".join(shown.split()), shown[:500]
        assert page.js("return window.pwned === undefined")


# ---- Firefox profiler ----------------------------------------------------------------------------

THREAD = {"samples", "stackTable", "frameTable", "funcTable", "stringArray", "markers",
          "resourceTable", "nativeSymbols", "name", "processName", "pid", "tid", "isMainThread",
          "registerTime", "unregisterTime", "processStartupTime", "processShutdownTime",
          "pausedRanges", "processType"}


def test_firefox_tables(made):
    outputs, total = made
    document = json.loads(outputs["firefox.json"].read_text())
    assert document["meta"]["preprocessedProfileVersion"] == 48
    weights = 0
    for thread in document["threads"]:
        assert THREAD <= set(thread)
        for table in ("samples", "stackTable", "frameTable", "funcTable"):
            columns = thread[table]
            assert all(len(c) == columns["length"] for c in columns.values() if isinstance(c, list))
        stacks, frames, funcs = thread["stackTable"], thread["frameTable"], thread["funcTable"]
        assert all(p is None or p < i for i, p in enumerate(stacks["prefix"]))
        assert all(f < frames["length"] for f in stacks["frame"])
        assert all(f < funcs["length"] for f in frames["func"])
        assert all(n < len(thread["stringArray"]) for n in funcs["name"])
        for stack in thread["samples"]["stack"]:
            while stacks["prefix"][stack] is not None:
                stack = stacks["prefix"][stack]
            root = funcs["name"][frames["func"][stacks["frame"][stack]]]
            assert thread["stringArray"][root] == "main"
        weights += sum(thread["samples"]["weight"])
    assert weights == total


def test_firefox_loads_it(made, npm, directory):
    """By the profiler's own reader, which upgrades the format to its newest version."""
    program = npm(FIREFOX) / "dist/profiler-cli.js"
    env = {**os.environ, "HOME": str(directory), "PROFILER_CLI_SESSION_DIR": str(directory / "s")}

    def cli(*args):
        return subprocess.run(["node", str(program), *args], env=env, text=True, timeout=60,
                              capture_output=True)

    try:
        cli("load", str(made[0]["firefox.json"]))
        # The command returns before its daemon is ready on a busy machine.
        harness.poll(lambda: not cli("profile", "info").returncode, "the profile to be loaded")
        info = cli("profile", "info").stdout
        threads = len(json.loads(made[0]["firefox.json"].read_text())["threads"])
        assert "%d threads" % threads in info, info
        top = cli("thread", "samples").stdout
        assert "main - total" in top and "100.0%" in top, top
    finally:
        cli("stop", "--all")


# ---- Names that want to do harm ------------------------------------------------------------------

def test_hostile_names(directory):
    profile_of(directory / "in.pb.gz", HOSTILE)
    outputs = convert(directory / "in.pb.gz", directory)
    for suffix, path in outputs.items():
        content = path.read_bytes()
        if suffix == "pb.gz":
            content = b"".join(strings_of(gzip.decompress(content)))
        text = content.decode("utf-8")  # valid
        bad = set(text) & ({chr(c) for c in (*range(32), *range(0x7f, 0xa0))} - {"\n"} |
                           set("\u2028\u2029\u202e\u2066"))
        assert not bad, (suffix, bad)
        if suffix.endswith("json"):
            assert "<script" not in text and "</script" not in text
            assert "\\u003cscript\\u003e" in text
    lines = outputs["folded"].read_text().splitlines()
    assert len(lines) == len(HOSTILE) and all(line.count(";") == 3 for line in lines)
    assert len(outputs["txt"].read_text().splitlines()) < 100


def strings_of(raw):
    """The string table of a pprof message."""
    def varint(at):
        value = shift = 0
        while True:
            byte = raw[at]
            value, shift, at = value | (byte & 0x7f) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(raw):
        tag, at = varint(at)
        value, at = varint(at)
        if tag & 7 == 2:
            if tag >> 3 == 6:
                yield raw[at:at + value]
            at += value


# ---- callgrind -----------------------------------------------------------------------------------

def read_callgrind(text):
    """(summary, {function: own cost}, {(caller, callee): cost}), by the specification of the format."""
    names, own, calls = {}, collections.Counter(), collections.Counter()
    function = callee = summary = None
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if line.startswith("summary: "):
            summary = int(line.split()[1])
        elif key in ("fl", "fn", "cfi", "cfn"):
            number, _, name = value.partition(" ")
            table = names.setdefault(key[-2:] == "fn", {})
            assert re.fullmatch(r"\(\d+\)", number) and bool(name) == (number not in table), line
            table[number] = name or table[number]
            if key == "fn":
                function, callee = (number, table[number]), None
            elif key == "cfn":
                callee = (number, table[number])
        elif key == "calls":
            # callgrind_annotate takes the cost of no calls for the caller's own.
            assert callee and re.fullmatch(r"[1-9]\d* \d+", value), line
        elif re.fullmatch(r"\d+ \d+", line):
            cost = int(line.split()[1])
            if callee:
                calls[function, callee] += cost
            else:
                own[function] += cost
            callee = None
        else:
            assert not line or line[0] == "#" or re.match(r"(version|creator|positions|event|events): ", line), line
    return summary, own, calls


def test_callgrind(any_python, directory):
    """Own and inclusive costs are those of the stacks; recursion is counted once."""
    code = ("import sys\nsys.setrecursionlimit(10000)\ndef leaf(x=1):\n    for i in range(3000): x = (x * 31 + i) & 0xffff\n"
            "def deep(n):\n    leaf()\n    if n: deep(n - 1)\ndef flat():\n    leaf()\nfor i in range(150):\n    deep(30); flat()\n")
    (directory / "calls.py").write_text(code)
    harness.profile("-F", 999, "-o", directory / "x.pb.gz", "--", any_python, directory / "calls.py").ok()
    for out in "x.callgrind", "x.json":
        subprocess.run([PYPERF, "report", directory / "x.pb.gz", "-o", directory / out], check=True)
    summary, own, calls = read_callgrind((directory / "x.callgrind").read_text())
    assert sum(own.values()) == summary > 0
    total = sum(s["samples"] for s in json.loads((directory / "x.json").read_text())["stacks"])
    assert abs(summary - total * 1e9 / 999) < 0.01 * summary
    inclusive, wanted = collections.Counter(own), collections.Counter()
    for (caller, _), cost in calls.items():
        inclusive[caller] += cost
    found = collections.Counter()
    for (_, name), cost in inclusive.items():
        found[name] += cost
    document = json.loads((directory / "x.json").read_text())
    for stack in document["stacks"]:
        for name in {document["frames"][f].get("function") for f in stack["frames"]}:
            wanted[name] += stack["samples"] * 1e9 / 999
    for name in "leaf", "deep", "flat":
        assert abs(found[name] - wanted[name]) <= 0.001 * summary, (name, found[name], wanted[name])
    assert max(inclusive.values()) <= summary


def test_callgrind_hostile(directory):
    profile_of(directory / "a.pb.gz", HOSTILE)
    subprocess.run([PYPERF, "report", directory / "a.pb.gz", "-o", directory / "a.callgrind"], check=True)
    text = (directory / "a.callgrind").read_text()
    summary, own, _ = read_callgrind(text)
    assert sum(own.values()) == summary and len(own) > 1
    assert not {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cs")}


# ---- CSV -----------------------------------------------------------------------------------------

def test_csv(directory):
    """Self and total are those of the stacks, recursion is counted once, and hostile names are cells that do nothing."""
    names = HOSTILE + ["=1+1", "@SUM(A1)", "+1;=1", "-1, =1"]
    profile = pprof_write.Profile()
    for i, name in enumerate(names):
        text = name if isinstance(name, bytes) else name.encode()
        frames = [(("main", "/srv/app.py"), 1), ((text, b"/srv/x.py"), 2), (("main", "/srv/app.py"), 3)]
        profile.add(frames[:2 + i % 2], i + 1, [("pid", 40), ("comm", b"x")])
    (directory / "a.pb.gz").write_bytes(profile.pack())
    outputs = [a for out in ("a.csv", "a.json") for a in ("-o", directory / out)]
    subprocess.run([PYPERF, "report", directory / "a.pb.gz", *outputs], check=True)
    document = json.loads((directory / "a.json").read_text())
    own, total = collections.Counter(), collections.Counter()
    for stack in document["stacks"]:
        called = [document["frames"][f].get("function", "") for f in stack["frames"]]
        own[called[-1]] += stack["samples"]
        total.update({name: stack["samples"] for name in set(called)})
    with open(directory / "a.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert len(rows) == len(total)
    for row in rows:
        assert None not in row and all(re.match(r"(?!\s*[=+@-])", cell) for cell in row.values()), row
        assert not {c for cell in row.values() for c in cell if unicodedata.category(c) in ("Cc", "Cs")}, row
        name = re.sub(r"((?:^|;) *)'(?=[=+@-])", r"\1", row["function"])
        assert row["unit"] == "nanoseconds"
        for cell, samples in (row["self"], own[name]), (row["total"], total[name]):
            assert int(cell) == samples * 10 ** 9 // document["frequency_hz"], row


def test_page_without_source(any_python, directory):
    """The page has the text of the hottest lines, unless --no-lines keeps it out: a page may be meant for others."""
    (directory / "work.py").write_text("def work():\n    n = 0\n    while n < 3000000: n += 1  # only for us\nwork()\n")
    for options, there in ((), True), (("--no-lines",), False):
        page = directory / "x.html"
        harness.profile("-F", "499", *options, "-o", page, "--", any_python, directory / "work.py").ok()
        text = page.read_text()
        assert "work" in text and ("only for us" in text) == there
