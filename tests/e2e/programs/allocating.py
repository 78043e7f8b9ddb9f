# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Keeps blocks of several sizes, made by several callers, after a line on stdin. With "trace" it says what tracemalloc knows:
{function: bytes}, by the innermost function, most bytes first."""
import json
import sys
import tracemalloc

KEPT = []


def parse(cnt):
    KEPT.extend(bytearray(30000) for i in range(cnt))


def index(cnt):
    KEPT.append([None] * 40000)
    return [KEPT.append(bytes(6000)) for i in range(cnt)]


def render(cnt):
    KEPT.extend([bytearray(100000 + i) for i in range(cnt)])


def passing(cnt):
    for i in range(cnt):
        bytearray(50000)


def work():
    parse(1600)
    index(4000)
    render(120)
    passing(3000)


print("ready", flush=True)
sys.stdin.readline()
if "trace" in sys.argv:
    tracemalloc.start(1)
work()
sums = {}
if "trace" in sys.argv:
    lines = open(__file__).read().split("\n")
    for one in tracemalloc.take_snapshot().statistics("lineno"):
        at = one.traceback[0]
        if at.filename == __file__:
            function = next(l for l in reversed(lines[:at.lineno]) if l.startswith("def "))[4:].split("(")[0]
            sums[function] = sums.get(function, 0) + one.size
print(json.dumps(sums), flush=True)
sys.stdin.readline()
