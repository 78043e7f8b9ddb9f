# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Objects of types that are held in one way each. Rests until its stdin ends. Runs on 2.7 and 3.6 - 3.15."""
import collections
import functools
import gc
import sys


def make(name):
    return type(name, (object,), {"__slots__": ()})


InList, InDict, InTuple, InSet, Slotted, Attribute, InCell, Key, Raised, Named, InDeque, InOrdered, InCache, InUnlimited = map(make, (
    "InList InDict InTuple InSet Slotted Attribute InCell Key Raised Named InDeque InOrdered InCache InUnlimited").split())


class Keeper(object):
    __slots__ = ("kept", "other")


class Owner(object):
    def __init__(self, n):
        self.first = n
        self.owned = Attribute()


class Cache(object):
    def __init__(self):
        self.entries = [InList() for i in range(1000)]


def closure(value):
    return lambda: value


def fail(depth):
    local_name = Raised()
    if depth:
        fail(depth - 1)
    raise ValueError(local_name is None)


CACHE = Cache()
BY_NUMBER = dict((i, InDict()) for i in range(1000))
TUPLES = [(InTuple(), None) for i in range(500)]
SET = set(InSet() for i in range(400))
OWNERS = [Owner(i) for i in range(300)]
CELLS = [closure(InCell()) for i in range(200)]
KEYS = dict((Key(), i) for i in range(100))
NAMES = {"the_name": Named()}
KEEPERS = []
for i in range(250):
    KEEPERS.append(Keeper())
    KEEPERS[-1].kept = Slotted()
try:
    fail(5)
except ValueError:
    FAILURE = sys.exc_info()
if sys.version_info < (3,):
    sys.exc_clear()  # sys.exc_traceback holds it, too
QUEUE = collections.deque(InDeque() for i in range(700))
for i in range(100):  # it does not begin where its first block does
    QUEUE.popleft()
ORDERED = collections.OrderedDict((i, InOrdered()) for i in range(350))
if sys.version_info >= (3,):
    LIMITED = functools.lru_cache(maxsize=500)(lambda n: InCache())
    UNLIMITED = functools.lru_cache(maxsize=None)(lambda n: InUnlimited())
    for i in range(150):
        LIMITED(i)
        UNLIMITED(i)
gc.collect()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
