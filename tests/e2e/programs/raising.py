# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Raises exceptions in every way that there is, and the same number of times in each run.

raising.py truth        notes each exception before it is raised, and prints [[type, stack, count], ...]
raising.py run          says "ready", waits for a line, raises, says "done", waits for the next line

A stack is ["function:first line:line", ...] of all Python functions, the innermost first. What an exception passes, and what raises it once
more, does not count. For CPython 2.7 and 3.6 on.
"""
import json
import sys
import threading

HERE = __file__
RAISED = {}
LOCK = threading.Lock()
NOTES = sys.argv[1] == "truth"


def name(frame, further=0):
    code = frame.f_code
    return "%s:%d:%d" % (getattr(code, "co_qualname", code.co_name), code.co_firstlineno, frame.f_lineno + further)


def note(kind, further=1, inner=()):
    """Its caller is about to raise this, so many lines further on, or the frames in `inner`, which it runs."""
    if not NOTES:
        return
    stack = [name(frame) for frame in inner]
    frame = sys._getframe(1)
    while frame is not None:
        stack.append(name(frame, further))
        further = 0
        frame = frame.f_back
    key = (kind, tuple(stack))
    with LOCK:
        RAISED[key] = RAISED.get(key, 0) + 1


class Simple(Exception):
    pass


class Outer(object):
    class Inner(Simple):
        pass

    def __getattr__(self, attribute):
        note("AttributeError")
        raise AttributeError(attribute)


if sys.version_info[0] == 2:
    class Old:
        pass
else:
    class Old(Exception):
        pass


def deep(n, what):
    if n:
        return deep(n - 1, what)
    what()


def simple():
    note("Simple")
    raise Simple


def inner():
    note("Inner")
    raise Outer.Inner(1)


def old():
    note("Old")
    raise Old()


class Picky(object):
    def __init__(self):
        note("Simple")
        raise Simple


def by_class():
    return Picky()


def by_operation():
    note("ZeroDivisionError")
    return 1 // (len(HERE) - len(HERE))


def by_lookup():
    note("KeyError")
    return {}["x"]


def by_call():
    note("ValueError")
    return int("x")


def by_arguments():
    note("TypeError")
    return simple(1)


def by_next():
    note("StopIteration")
    return next(iter(()))


def by_assertion():
    note("AssertionError")
    assert not HERE


def not_at_all():
    """Nothing reaches a frame."""
    for _ in iter(()):
        pass
    getattr(1, "x", 2)
    {}.get("x")
    return list(x for x in range(3))


def by_attribute():
    hasattr(Outer(), "x")
    return Outer().x


def again():
    """Caught, and raised once more: by `raise` it is the same one."""
    try:
        deep(3, simple)
    except Simple:
        raise


def once_more():
    """2.7 has no traceback in the exception, so this is another one."""
    try:
        deep(3, simple)
    except Simple as e:
        if sys.version_info[0] == 2:
            note("Simple")
        raise e


def instead():
    try:
        by_lookup()
    except KeyError:
        by_call()


def at_last():
    try:
        by_lookup()
    finally:
        not_at_all()


def key(x):
    if x == 3:
        note("Simple")
        raise Simple
    return x


def by_callback():
    return sorted(range(10), key=key)


def generator():
    yield 1
    note("KeyError")
    yield {}["x"]


def by_generator():
    return list(generator())


def waiting():
    yield 1


def thrown():
    g = waiting()
    next(g)
    note("Simple", inner=[g.gi_frame])
    g.throw(Simple())


def made():
    """Types that live only for a moment."""
    for i in range(20):
        kind = type("Made%d" % i, (Exception,), {})
        note(kind.__name__, 2)
        try:
            raise kind
        except kind:
            pass


LATER = """
class Again:
    def __await__(self):
        yield 1
        note("ValueError")
        int("x")

async def step():
    await Again()

async def steps():
    await step()

def by_coroutine():
    c = steps()
    while True:
        c.send(None)

def chained():
    try:
        by_lookup()
    except KeyError as e:
        note("Simple")
        raise Simple from e
"""
if sys.version_info[0] > 2:
    exec(compile(LATER, HERE, "exec"))

WAYS = [simple, inner, old, by_class, by_operation, by_lookup, by_call, by_arguments, by_next, by_assertion, not_at_all, by_attribute,
        again, once_more, instead, at_last, by_callback, by_generator, thrown, made]
if sys.version_info[0] > 2:
    WAYS += [by_coroutine, chained]


def catch(what, depth):
    try:
        deep(depth, what)
    except BaseException:
        pass
    except:  # noqa: E722
        pass


def in_thread():
    for i in range(50):
        catch(simple, i % 3)


def work():
    for i in range(60):
        for what in WAYS:
            catch(what, i % 4)
    for _ in range(10):
        catch(simple, 300)
    threads = [threading.Thread(target=in_thread) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def say(word):
    if not NOTES:
        sys.stdout.write(word + "\n")
        sys.stdout.flush()


def main():
    say("ready")
    for _ in [""] if NOTES else iter(sys.stdin.readline, ""):
        work()
        say("done")
    if NOTES:
        print(json.dumps([[kind, stack, n] for (kind, stack), n in RAISED.items()]))


main()
