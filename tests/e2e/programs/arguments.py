# -*- coding: utf-8 -*-
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls functions do_*() with values of every kind, and says with which, as `trace --args --ret` should.

Says "ready", and for each line that comes: calls, then prints {"calls": [[function, [[parameter, value], ...]], ...],
"returns": [[function, value], ...], "yields": [position in "returns", ...]}. The functions note their arguments themselves, by their own frame. For
CPython 2.7 and 3.6 on.
"""
import json
import sys
import threading

PY2 = sys.version_info[0] == 2
SECRET = ("pass", "secret", "token", "key", "auth", "cookie", "session")
CALLS, RETURNS = [], []
YIELDS = []  # positions in RETURNS
TEXT = type(u"")
INTS = (int, type(1 << 100))
CHARACTERS, BYTES = 32, 64
NAME = 63


def clean(c):
    bad = 0x80 <= c <= 0x9f or 0xd800 <= c <= 0xdfff or c in (0x2028, 0x2029) or 0x202a <= c <= 0x202e
    special = {10: u"\\n", 13: u"\\r", 9: u"\\t", 39: u"\\'", 92: u"\\\\"}
    if bad:
        return u"\ufffd"
    if c in special:
        return special[c]
    if c < 32 or c == 127:
        return u"\\x%02x" % c
    return unichr(c) if PY2 else chr(c)  # noqa: F821


def quoted(numbers, width, prefix, as_bytes):
    shown = numbers[:min(CHARACTERS, BYTES // width)]
    text = u"".join(u"\\x%02x" % c if as_bytes and c > 127 else clean(c) for c in shown)
    return prefix + u"'" + text + (u"'..." if len(shown) < len(numbers) else u"'")


def show(name, value):
    if any(word in name.lower() for word in SECRET):
        return u"***"
    if value is None or value is True or value is False:
        return TEXT(value)
    if type(value) in INTS:
        if abs(value) < 1 << 64:
            return TEXT(value)
        return u"<int of up to %d bits>" % ((abs(value).bit_length() + 29) // 30 * 30)
    if type(value) is float:
        return TEXT(repr(value))
    if type(value) is TEXT:
        numbers = [ord(c) for c in value]
        most = max(numbers or [0])
        width = 4 if PY2 or most > 0xffff else 2 if most > 0xff else 1
        return quoted(numbers, width, u"u" if PY2 else u"", False)
    if type(value) is bytes:
        return quoted(list(bytearray(value)), 1, u"" if PY2 else u"b", True)
    return u"<%s>" % type(value).__name__


def note():
    """The arguments of the caller."""
    frame = sys._getframe(1)
    code = frame.f_code
    cnt = code.co_argcount + getattr(code, "co_kwonlyargcount", 0)
    stars = [""] * cnt + ["*"] * bool(code.co_flags & 4) + ["**"] * bool(code.co_flags & 8)
    CALLS.append([code.co_name, [
        [star + name, show(name, frame.f_locals[name])] if len(name) <= NAME else [star + name[:NAME] + "...", u"***"]
        for star, name in zip(stars, code.co_varnames)]])


def ret(value):
    """What the caller returns."""
    name = sys._getframe(1).f_code.co_name
    RETURNS.append([name, show(name, value)])
    return value


def out(value):
    """What the caller yields, and what delegates to it."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name.startswith("do_"):
        YIELDS.append(len(RETURNS))
        RETURNS.append([frame.f_code.co_name, show(frame.f_code.co_name, value)])
        frame = frame.f_back
    return value


class Order(object):
    def __init__(self):
        self.n = 1

    def do_method(self, n, s="s"):
        note()
        return ret(self)

    @classmethod
    def do_of_class(cls, n):
        note()
        return ret(cls)

    @staticmethod
    def do_static(n):
        note()
        return ret(n)

    @property
    def do_property(self):
        note()
        return ret(self.n)


class Old:
    pass


class MyInt(int):
    pass


class MyStr(TEXT):
    pass


class cell(object):
    """Its name is that of another type."""


def do_plain(a, b, c):
    note()
    return ret(c)


def do_many(a, b, c, d, e, f, g, h):
    note()
    return ret(h)


def do_none():
    note()
    ret(None)


def do_defaults(a, b=2, c=u"c", d=None):
    note()
    return ret(b)


def do_stars(a, *args, **kwargs):
    note()
    return ret(args)


def do_secrets(user, password, apiKey, auth_token, COOKIES, my_session):
    note()
    return ret(user)


def do_get_secret(n):
    note()
    return ret(u"geheim")


def do_constant(n):
    note()
    ret(u"a constant")
    return u"a constant"


def do_number(n):
    note()
    ret(123456)
    return 123456


def do_nothing(n):
    note()
    ret(None)


def do_loop(items):
    note()
    for i in items:
        with threading.Lock():
            try:
                return ret(i)
            finally:
                pass


def do_caught(n):
    note()
    try:
        raise ValueError(n)
    except ValueError:
        return ret(n)


def do_raise(n):
    note()
    raise ValueError(n)


def do_closure(a, b, c):
    note()

    def do_inner(x):
        note()
        return ret(a)
    return ret(do_inner(c))


def do_closure_of_stars(a, *args, **kwargs):
    note()
    return ret((lambda: len(args) + len(kwargs))())


def do_recursion(n, s):
    note()
    return ret(n) if n == 0 else ret(do_recursion(n - 1, s))


def do_generator(n, s):
    note()
    yield out(n)
    yield out(s)
    ret(None)


def do_generator_closure(n, s):
    note()
    yield out((lambda: n)())
    ret(None)


def do_hot(n):
    note()
    return ret(n)


MODERN = u"""
def do_keywords(a, *, b=5, c):
    note()
    return ret(b)

def do_keyword_closure(a, *rest, b, c=3):
    note()
    return ret((lambda: b)())

def do_größe(größe, 名前, x):
    note()
    return ret(größe)

def do_%(long)s(%(long)s, b):
    note()
    return ret(b)

async def do_coroutine(n, s):
    note()
    return ret(s)

def do_generator_returns(n, s):
    note()
    yield out(n)
    return ret(s)

def do_delegates(n, s):
    note()
    return ret((yield from do_generator_returns(n, s)))

def do_far_constant(n):
    note()
    x = [%(numbers)s]
    ret("the end")
    return "the end"
"""


def modern():
    do_keywords(1, c=7)  # noqa: F821
    do_keyword_closure(1, 2, 3, b=u"b")  # noqa: F821
    globals()[u"do_größe"](1, 2, 3)
    globals()["do_" + "l" * 70](1, 2)
    for start in (do_coroutine(1, u"s"), ):  # noqa: F821
        try:
            start.send(None)
        except StopIteration:
            pass
    list(do_generator_returns(2, u"s"))  # noqa: F821
    list(do_delegates(3, u"t"))  # noqa: F821
    do_far_constant(4)  # noqa: F821


def values():
    return [0, 1, -1, 255, 2 ** 30 - 1, 2 ** 30, -2 ** 30, 2 ** 60, 2 ** 62, -2 ** 63, 2 ** 63, 2 ** 64 - 1, 1 - 2 ** 64,
            2 ** 64, -2 ** 64, 1 << 10000, True, False, None, 0.0, 1.0, -1.5, 0.1, 1e100, 1e22, 1e16, 1e15, 100.0, 123456.789, 1e-4, 1.25e-5, -0.0, 2.0 ** 53 + 2, 5e-324, float("inf"),
            -float("inf"), float("nan"), b"", b"bytes", b"\0\xff\x1b[31m\n'\\", b"x" * 40, u"", u"text", u"\x1b]0;title\x07",
            u"\n\r\t'\\", u"\x85\x9b31m", u"caf\xe9", u"\u20ac", u"\u202eabc\u2028", u"\ud800", u"\U0001f600 smile",
            u"x" * 32, u"x" * 33, u"\u20ac" * 32, u"\u20ac" * 33, u"\U0001f600" * 16, u"\U0001f600" * 17,
            u"m" * (1 << 20), b"m" * (1 << 20), u"\u20ac" * (1 << 20), MyInt(3), MyStr(u"s"), Order(), Order, Old(), cell(),
            [1], (1, 2), {}, {1}, object(), len, sys, 1j, type, Ellipsis, bytearray(b"x"), do_plain]


def call():
    order = Order()
    order.do_method(1)
    order.do_method(s=u"t", n=2)
    Order.do_of_class(1)
    Order.do_static(1)
    assert order.do_property == 1
    for value in values():
        do_plain(value, 1, value)
    do_many(1, 2, 3, 4, 5, 6, 7, 8)
    do_none()
    do_defaults(1)
    do_defaults(1, c=3)
    do_stars(1)
    do_stars(1, 2, 3, x=4)
    do_secrets(u"bob", u"geheim", b"geheim", 815, u"geheim", [u"geheim"])
    do_get_secret(1)
    do_constant(1)
    do_number(1)
    do_nothing(1)
    do_loop([u"i"])
    do_caught(1)
    try:
        do_raise(1)
    except ValueError:
        pass
    do_closure(u"a", 2, 3)
    do_closure_of_stars(1, 2, x=3)
    do_recursion(5, u"s")
    list(do_generator(1, u"s"))
    list(do_generator_closure(1, u"s"))
    for n in range(200):
        do_hot(n)
    threads = [threading.Thread(target=do_plain, args=(n, u"thread", None)) for n in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    if not PY2:
        modern()


if not PY2:
    exec(compile(MODERN % {"long": "l" * 70, "numbers": ", ".join("n + %d.5" % n
                                                                   for n in range(300))}, __file__, "exec"))

if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        del CALLS[:], RETURNS[:], YIELDS[:]
        call()
        sys.stdout.write(json.dumps({"calls": CALLS, "returns": RETURNS, "yields": YIELDS}) + "\n")
        sys.stdout.flush()
