# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A heap of known contents. Writes what the interpreter itself counts as JSON, and rests until its stdin ends.
Runs on 2.7 and 3.6 - 3.15."""
import gc
import json
import sys


class Order(object):
    def __init__(self, n):
        self.number = n
        self.other = self


class Slotted(object):
    __slots__ = ("a", "b")


class Plain(object):  # not collected: no gc header
    __slots__ = ()


class Meta(type):
    pass


Made = Meta("Made", (object,), {})


class Big(object):  # larger than a block of a pool
    __slots__ = tuple("slot%d" % i for i in range(80))


class Text(str):
    pass


def main():
    keep = [Order(i) for i in range(30001)]
    keep.append([Slotted() for i in range(5003)])
    keep.append([Plain() for i in range(7001)])
    keep.append([Made() for i in range(1009)])
    keep.append([Big() for i in range(503)])
    keep.append([Text("x%d" % i) for i in range(2003)])
    keep.append([{i: str(i)} for i in range(4001)])
    keep.append([set([i]) for i in range(1511)])
    keep.append([lambda: i for i in range(1201)])
    del keep[:10000]  # holes
    gc.collect()
    gc.disable()
    names = ("Order", "Slotted", "Made", "Big", "Text", "set", "function", "type", "module", "cell", "Meta")
    found = dict.fromkeys(names, 0)
    for one in gc.get_objects():  # a loop: a generator would be counted itself
        if type(one).__name__ in found:
            found[type(one).__name__] += 1
    found["Plain"] = 7001
    found["Text"] = 2003
    sys.stdout.write("ready\n" + json.dumps(found) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


main()
