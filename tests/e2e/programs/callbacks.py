# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Python functions that do little, called by C functions: most samples are of a call or a return.

The truth is who calls each of them, by the interpreter's own profile hook (which sees C functions, too): one pass
is recorded, then all passes are the same.
"""
import functools
import re
import sys
import xml.parsers.expat

from common import finish, rounds, start

CO_GENERATOR = 0x20
NUMBERS = list(range(40))
DOCUMENT = "<a>" + "<b>x</b>" * 40 + "</a>"


def plain(x):
    return x


def deeper(x):
    return plain(x)


def sort_key(x):
    return deeper(x)


def max_key(x):
    return x


def reduce_step(x, y):
    return plain(y)


def map_item(x):
    return deeper(x)


def on_match(match):
    return plain("x")


def on_element(name, attributes):
    return deeper(name)


def inner():
    for i in NUMBERS:
        yield i


def outer():
    for i in inner():
        yield plain(i)


def parse():
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = on_element
    parser.Parse(DOCUMENT, True)


def one_pass():
    sorted(NUMBERS, key=sort_key)
    max(NUMBERS, key=max_key)
    functools.reduce(reduce_step, NUMBERS)
    list(map(map_item, NUMBERS))
    re.sub("a", on_match, "a" * 40)
    sum(outer())
    parse()


def record():
    """{callee: whether C functions called it, always}: what stands below a call event of C.

    Generators are left out: creating one, which their callers do, is no event.
    """
    called_by_c = {}
    stack = []

    def hook(frame, event, arg):
        if event == "call":
            if not frame.f_code.co_flags & CO_GENERATOR:
                name, by_c = frame.f_code.co_name, bool(stack) and stack[-1] == "c"
                called_by_c[name] = by_c and called_by_c.get(name, True)
            stack.append("python")
        elif event == "c_call":
            stack.append("c")
        elif stack:
            stack.pop()

    sys.setprofile(hook)
    one_pass()
    sys.setprofile(None)
    return called_by_c


def main():
    truth = record()
    running = start()
    for _ in rounds(running):
        for _ in range(20):
            one_pass()
    finish({"called_by_c": truth, "file": main.__code__.co_filename})


main()
