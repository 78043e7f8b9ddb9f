# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every way from Python through C back into Python that a program has, one case after the other.

spin() is always the leaf. It records the stack that it runs under before it works. For some calls
the native files on the way are known, too: `native` lists [caller, callee, [role, ...]], where the
roles (see common.images()) have to appear in this order between the two Python frames.

usage: nesting.py [CASE...]    all of them if none is named

Runs on CPython 2.7, too; what needs the syntax of 3 is in nesting3.py.
"""
import contextlib
import ctypes
import ctypes.util
import functools
import heapq
import json
import re
import signal
import sys
import weakref
import xml.parsers.expat

from common import Recorder, clock, finish, images, rounds, start

try:
    import cPickle as pickle
except ImportError:
    import pickle

record = Recorder()
case_now = None

try:
    import sqlite3
    database = sqlite3.connect(":memory:")
except ImportError:
    database = None


def spin():
    x = 1
    record(sys._getframe(), case_now.__name__, case_now.native)
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff
    return 0


cases = []


def case(*native):
    def add(function):
        function.native = native
        cases.append(function)
        return function
    return add


# ---- calls from C with a plain function ----------------------------------------------------------

def sort_key(value):
    return spin()


@case(["sorted_key", "sort_key", ["python"]])
def sorted_key():
    sorted([1], key=sort_key)


def re_callback(match):
    spin()
    return ""


@case(["sub", "re_callback", ["python"]])
def re_sub():
    re.sub("x", re_callback, "x")


def json_object_hook(value):
    spin()
    return value


@case(["raw_decode", "json_object_hook", ["json"]])
def json_loads():
    json.loads('{"a": 1}', object_hook=json_object_hook)


def json_default(value):
    return spin()


@case(["iterencode", "json_default", ["json"]])
def json_dumps():
    json.dumps({"a": spin}, default=json_default)


def add_up(a, b):
    return spin()


@case(["functools_reduce", "add_up", ["functools"]])
def functools_reduce():
    functools.reduce(add_up, (1, 2))


@case(["builtin_map", "sort_key", ["python"]])
def builtin_map():
    list(map(sort_key, (1,)))


@case(["builtin_filter", "sort_key", ["python"]])
def builtin_filter():
    list(filter(sort_key, (1,)))


@case(["builtin_max", "sort_key", ["python"]])
def builtin_max():
    max((1,), key=sort_key)


@case()
def functools_partial():
    functools.partial(sort_key, 1)()


if hasattr(functools, "lru_cache"):
    @case(["lru_cache", "cached", ["functools"]])
    def lru_cache():
        @functools.lru_cache(maxsize=None)
        def cached(value):
            return sort_key(value)
        cached(1)


# ---- ctypes: through libffi and back, with the C library in between ------------------------------

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


def qsort_compare(a, b):
    return spin()


compare = COMPARE(qsort_compare)
numbers = (ctypes.c_int * 2)(2, 1)


@case(["ctypes_qsort", "qsort_compare", ["ctypes", "ffi", "libc", "ffi", "ctypes", "python"]])
def ctypes_qsort():
    libc.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)


@ctypes.CFUNCTYPE(ctypes.c_int)
def outer_callback():
    return inner_callback()


@ctypes.CFUNCTYPE(ctypes.c_int)
def inner_callback():
    return spin()


@case(["ctypes_direct", "outer_callback", ["ctypes", "ffi", "ffi", "ctypes", "python"]],
      ["outer_callback", "inner_callback", ["ctypes", "ffi", "ffi", "ctypes", "python"]])
def ctypes_direct():
    outer_callback()


# ---- classes -------------------------------------------------------------------------------------

class Plain(object):
    def __init__(self):
        self.value = spin()


class Special(object):
    def __lt__(self, other):
        return bool(spin())

    def __eq__(self, other):
        return bool(spin())

    def __hash__(self):
        return spin()

    def __getattr__(self, name):
        if name == "missing":
            return spin()
        raise AttributeError(name)

    @property
    def described(self):
        return spin()

    def __call__(self):
        return spin()

    def __format__(self, spec):
        spin()
        return ""

    def __iter__(self):
        return self

    def __next__(self):
        spin()
        raise StopIteration

    next = __next__  # 2.7

    def __enter__(self):
        spin()

    def __exit__(self, *exc):
        spin()

    def __reduce__(self):
        spin()
        return (int, ())

    def __add__(self, other):
        return spin()


class Defaults(dict):
    def __missing__(self, key):
        return spin()


class Dying(object):
    def __del__(self):
        spin()


@case()
def class_init():
    for _ in range(3):
        Plain()


@case(["special_sort", "Special.__lt__", ["python"]])
def special_sort():
    [Special(), Special()].sort()


@case(["special_heap", "Special.__lt__", ["python"]])
def special_heap():
    heapq.heapify([Special(), Special()])


@case()
def special_methods():
    special = Special()
    special in [Special()]
    {special: 1}
    special.missing
    special.described
    special()
    format(special, "x")
    for _ in special:
        pass
    with special:
        pass
    special + 1
    Defaults()[1]


@case(["special_pickle", "Special.__reduce__", ["python"]])
def special_pickle():
    pickle.dumps(Special())


@case()
def finaliser():
    Dying()


def weak_callback(reference):
    spin()


@case()
def weak_reference():
    special = Plain.__new__(Plain)
    reference = weakref.ref(special, weak_callback)
    del special
    return reference


# ---- generators, comprehensions, decorators ------------------------------------------------------

def generator_inner():
    yield spin()


def generator_outer():
    for value in generator_inner():
        yield value


@case()
def generator_for():
    for _ in generator_outer():
        pass


@case(["generator_next", "generator_outer", ["python"]])
def generator_next():
    next(generator_outer())


@case(["generator_sum", "<genexpr>", ["python"]])
def generator_sum():
    sum(spin() for _ in range(1))


def generator_catching():
    try:
        yield
    except KeyError:
        yield spin()


@case()
def generator_throw():
    generator = generator_catching()
    next(generator)
    generator.throw(KeyError)


@case()
def comprehensions():
    [spin() for _ in range(1)]
    {spin() for _ in range(1)}
    {1: spin() for _ in range(1)}
    [[spin() for _ in range(1)] for _ in range(1)]


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


@decorator
@decorator
def decorated():
    return spin()


@case()
def decorators():
    decorated()


@contextlib.contextmanager
def context():
    spin()
    yield
    spin()


@case()
def context_manager():
    with context():
        spin()


# ---- the interpreter's own ways ------------------------------------------------------------------

SOURCE = compile("def from_source():\n    return spin()\n\n\nfrom_source()\n", "<a string>", "exec")


@case(["exec_source", "<module>", ["python"]])
def exec_source():
    exec(SOURCE, {"spin": spin})


@case()
def import_module():
    sys.modules.pop("spin_on_import", None)
    import spin_on_import  # noqa: F401


def on_signal(number, frame):
    spin()


signal.signal(signal.SIGUSR1, on_signal)


@case()
def signal_handler():
    getattr(libc, "raise")(signal.SIGUSR1)  # to this very thread, by whichever Python


def on_element(name, attributes):
    spin()


# 2.7 puts a frame of its own in between, for the traceback's sake.
@case(["expat_parser", "on_element" if sys.version_info[0] > 2 else "StartElement", ["expat"]])
def expat_parser():
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = on_element
    parser.Parse("<a/>", True)


if database:
    database.create_function("spin", 0, spin)

    @case()
    def sqlite_function():
        database.execute("select spin()").fetchall()


# ---- all at once ---------------------------------------------------------------------------------

def all_sort(value):
    re.sub("x", all_re, "x")
    return 0


def all_re(match):
    json.loads('{"a": 1}', object_hook=all_json)
    return ""


def all_json(value):
    libc.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), all_compare)


def all_qsort(a, b):
    return functools.reduce(all_reduce, (1, 2))


all_compare = COMPARE(all_qsort)


def all_reduce(a, b):
    list(map(all_map, (1,)))
    return 0


def all_map(value):
    for _ in all_generator():
        pass


def all_generator():
    for value in ([Plain() for _ in range(1)] for _ in range(1)):
        yield value


@case(["everything", "all_sort", ["python"]],
      ["sub", "all_re", ["python"]],
      ["raw_decode", "all_json", ["json"]],
      ["all_json", "all_qsort", ["ctypes", "ffi", "libc", "ffi", "ctypes", "python"]],
      ["all_qsort", "all_reduce", ["functools"]],
      ["all_reduce", "all_map", ["python"]])
def everything():
    sorted([1], key=all_sort)


if sys.version_info[0] > 2:
    import nesting3  # noqa: F401, E402


def main():
    global case_now
    if sys.argv[1:]:
        cases[:] = [c for c in cases if c.__name__ in sys.argv[1:]]
    running = start()
    for _ in rounds(running):
        for case_now in cases:
            case_now()
    finish({"file": __file__, "stacks": record.truth(), "images": images(),
            "trampolines": getattr(sys, "is_stack_trampoline_active", bool)(),
            "cases": [c.__name__ for c in cases]})


main()
