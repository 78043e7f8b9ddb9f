# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Objects far from what holds them, or held by nothing. Prints whom module gc knows as their
holders, and rests until its stdin ends. Runs on 2.7 and 3.6 - 3.15."""
import ctypes
import gc
import json
import sys
import weakref

CHAIN = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


def make(name, *fields):
    return type(name, (object,), {"__slots__": fields})


def make_weak(name):
    return type(name, (object,), {"__slots__": ("__weakref__",)})


Node, Both, Ring = make("Node", "next"), make("Both", "before", "after"), make("Ring", "other")
Chained, Linked, Grown = make("Chained"), make("Linked"), make("Grown")
InRing, Leaked, Local = make("InRing"), make("Leaked"), make("Local")
Thing = make_weak("Thing")


class Branch(object):
    def __init__(self, child):
        self.children = [child]


def chain(count):
    top = Chained()
    for i in range(count):
        node = Node()
        node.next = top
        top = node
    return top


def two_ways(count):
    """Both neighbours hold each other, so that many ways lead nowhere."""
    top = Both()
    top.after = Linked()
    for i in range(count):
        node = Both()
        node.after = top
        top.before = node
        top = node
    return top


def grow(depth):
    top = Grown()
    for i in range(depth):
        top = Branch(top)
    return top


def ring():
    """Holds itself: garbage that nobody collects."""
    first, second = Ring(), Ring()
    first.other = (second, InRing())
    second.other = first


def holders(one):
    """The names of the types of its holders. Frames have it only while this function is called."""
    return sorted(set(type(r).__name__ for r in gc.get_referrers(one)) - {"frame"})


gc.collect()
gc.disable()
HEAD = chain(CHAIN)
MIDDLE = two_ways(100)
TREE = grow(40)
ring()
for i in range(3):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(Leaked()))
THINGS = [Thing() for i in range(100)]
WEAK = list(map(weakref.ref, THINGS)), weakref.WeakValueDictionary(enumerate(THINGS))


BIG = tuple(range(100000))


class Keeper(object):
    def __init__(self):
        self.rows = tuple(range(90000))


KEEPER = Keeper()


def classes():
    return [one.__name__ for one in gc.get_objects() if isinstance(one, type)]


def rest():
    kept = Local()
    sys.stdout.write("ready\n")
    sizes = list(map(sys.getsizeof, (BIG, KEEPER.rows)))
    truth = {"Thing": holders(THINGS[0]), "sizes": sizes, "classes": classes()}
    sys.stdout.write(json.dumps(truth) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    return kept


rest()
