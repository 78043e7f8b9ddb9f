# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Objects that threads made, freed for each other, and left behind when they ended. Writes what lives as JSON, and
rests until its stdin ends. For free-threaded builds, whose threads have heaps of their own."""
import gc
import json
import sys
import threading

THREADS, EACH = 4, 20000


class Kept(object):
    __slots__ = ("a",)


class Freed(object):
    pass


class Plain(object):
    __slots__ = ()


class Text(str):
    pass


def make(kept, freed, gate, end):
    kept.append([Kept() for i in range(EACH)] + [Plain() for i in range(EACH)])
    freed.append([Freed() for i in range(EACH)])
    gate.wait()  # the main thread frees some of them
    gate.wait()
    kept.append([Freed() for i in range(EACH // 10)])
    if end:
        end.wait()


def main():
    kept, freed, gate, end = [], [], threading.Barrier(THREADS + 1), threading.Event()
    # Half of the threads end: their heaps belong to nobody then.
    threads = [threading.Thread(target=make, args=(kept, freed, gate, i % 2 and end)) for i in range(THREADS)]
    for t in threads:
        t.start()
    gate.wait()
    for one in freed:
        del one[::2]
    gate.wait()
    for t in threads[::2]:
        t.join()
    while len(kept) < 2 * THREADS:
        pass
    kept.append([Text("x" * (200 << 20)), Text("y" * 100000), Text("z" * 9000)])
    gc.collect()
    gc.disable()
    found = {"Kept": THREADS * EACH, "Plain": THREADS * EACH, "Freed": THREADS * (EACH // 2 + EACH // 10), "Text": 3,
             "Thread": len([o for o in gc.get_objects() if type(o) is threading.Thread])}
    sys.stdout.write("ready\n" + json.dumps(found) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    end.set()


main()
