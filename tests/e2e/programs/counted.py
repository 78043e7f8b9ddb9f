# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls functions in every way that there is, and the same number of times in each run.

counted.py truth          logs each call by the interpreter's own means, and prints the counts
counted.py events         the same, and prints each call and each end in their order: [["+fib:27", "-fib:27"], ...],
                          a list for each thread; a throw() into a generator is one, too
counted.py run            says "ready", waits for a line, calls, says "done", waits for the end of stdin

The counts are {"function:line": [calls, resumptions]} of the functions of this file. A generator or coroutine
that goes on is resumed; throw() into one is neither. For CPython 2.7 and 3.6 on.
"""
import json
import sys
import threading

HERE = __file__
# Of each thread by itself: 2.7 and 3.6 take turns between reading a count and writing it.
COUNTS = {}  # thread -> {"function:line": [calls, resumptions]}
EVENTS = {}  # thread -> list


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def deep(n):
    return n and deep(n - 1)


def numbers(n):
    for i in range(n):
        yield i


def nested(n):
    for i in numbers(n):
        yield i + 1


class Point(object):
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

    def __call__(self, *args, **kwargs):
        return self.x

    @property
    def double(self):
        return 2 * self.x

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return True


class Derived(Point):
    def __init__(self, x):
        super(Derived, self).__init__(x)


class Refusing(Point):
    def __init__(self, x):
        Point.__init__(self, x)
        if x % 2:
            raise ValueError(x)


def refused(x):
    try:
        Refusing(x)
    except ValueError:
        pass


def raiser(depth):
    if not depth:
        raise ValueError(depth)
    raiser(depth - 1)


def catcher(depth):
    try:
        raiser(depth)
    except ValueError:
        return depth


def key(x):
    return -x


def closure(n):
    def inner(x):
        return x + n
    return inner


def star(*args, **kwargs):
    return len(args) + len(kwargs)


def stopped():
    try:
        while True:
            yield 1
    except KeyError:
        yield 2


def throws():
    g = stopped()
    next(g)
    g.throw(KeyError)
    g.close()


LATER = """
def delegating(n):
    yield from numbers(n)

class Again:
    def __await__(self):
        yield 1
        return 2

async def step(n):
    return await Again()

async def steps(n):
    total = 0
    for i in range(n):
        total += await step(i)
    return total

def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value

def later():
    for i in range(40):
        list(delegating(5))
    for i in range(20):
        drive(steps(4))
"""
if sys.version_info[0] > 2:
    exec(compile(LATER, HERE, "exec"))


def made():
    """Functions that live only for a moment, each in place of the last one."""
    for i in range(60):
        names = {}
        exec(compile("def made_%d(): return %d" % (i, i), HERE, "exec"), names)
        for _ in range(i):
            names["made_%d" % i]()


def in_thread():
    for i in range(30):
        fib(6)
        list(numbers(3))


def threads():
    all_of_them = [threading.Thread(target=in_thread) for _ in range(4)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()


def work():
    fib(15)
    deep(300)
    for i in range(100):
        catcher(i % 7)
        Derived(i) == Point(i)
        Point(i)(1, a=2)
        Point(i).double
        refused(i)
        with Point(i):
            raise ValueError
        star(1, 2, *[3], **{"b": 4})
        closure(i)(i)
        throws()
    sum(nested(100))
    max(x for x in range(50))
    sorted(range(40), key=key)
    list(map(key, range(40)))
    (lambda: key(1))()
    if sys.version_info[0] > 2:
        later()
    made()
    threads()


def take(code, resumed):
    if code.co_filename == HERE:
        name = getattr(code, "co_qualname", code.co_name)
        mine = COUNTS.setdefault(threading.current_thread(), {})
        mine.setdefault("%s:%d" % (name, code.co_firstlineno), [0, 0])[resumed] += 1


def counts():
    total = {}
    for mine in COUNTS.values():
        for name, (calls, resumptions) in mine.items():
            sums = total.setdefault(name, [0, 0])
            sums[0] += calls
            sums[1] += resumptions
    return total


def note(sign, code):
    if code.co_filename == HERE:
        name = getattr(code, "co_qualname", code.co_name)
        EVENTS.setdefault(threading.current_thread(), []).append("%s%s:%d" % (sign, name, code.co_firstlineno))


def make_callback(sign):
    return lambda code, *rest: note(sign, code)


def events_by_monitoring():
    mon = sys.monitoring
    mon.use_tool_id(mon.PROFILER_ID, "truth")
    wanted = 0
    for sign, names in ("+", "PY_START PY_RESUME PY_THROW"), ("-", "PY_RETURN PY_YIELD PY_UNWIND"):
        for name in names.split():
            event = getattr(mon.events, name)
            wanted |= event
            mon.register_callback(mon.PROFILER_ID, event, make_callback(sign))
    mon.set_events(mon.PROFILER_ID, wanted)
    work()
    mon.set_events(mon.PROFILER_ID, 0)


def events_by_profile():
    def on_event(frame, event, arg):
        if event in ("call", "return"):
            note("+" if event == "call" else "-", frame.f_code)
    threading.setprofile(on_event)
    sys.setprofile(on_event)
    work()
    sys.setprofile(None)


def by_monitoring():
    mon = sys.monitoring
    mon.use_tool_id(mon.PROFILER_ID, "truth")
    mon.register_callback(mon.PROFILER_ID, mon.events.PY_START, lambda code, at: take(code, 0))
    mon.register_callback(mon.PROFILER_ID, mon.events.PY_RESUME, lambda code, at: take(code, 1))
    mon.set_events(mon.PROFILER_ID, mon.events.PY_START | mon.events.PY_RESUME)
    work()
    mon.set_events(mon.PROFILER_ID, 0)


def on_event(frame, event, arg):
    if event != "call":
        return
    code = frame.f_code
    if sys.version_info >= (3, 11):
        if code.co_code[frame.f_lasti] == 151:  # RESUME, not a throw
            take(code, int(code.co_code[frame.f_lasti + 1] & 3 > 0))
    else:
        take(code, int(frame.f_lasti >= 0))


def by_profile():
    threading.setprofile(on_event)
    sys.setprofile(on_event)
    work()
    sys.setprofile(None)


def main():
    if sys.argv[1] == "truth":
        by_monitoring() if hasattr(sys, "monitoring") else by_profile()
        print(json.dumps(counts()))
        return
    if sys.argv[1] == "events":
        events_by_monitoring() if hasattr(sys, "monitoring") else events_by_profile()
        print(json.dumps(list(EVENTS.values())))
        return
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        work()
        sys.stdout.write("done\n")
        sys.stdout.flush()


main()
