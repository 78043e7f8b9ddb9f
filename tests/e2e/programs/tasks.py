# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""asyncio tasks that wait in every way for each other, in two event loops. Runs on 3.7 and later.

The second loop is blocked by a function that one of its tasks calls: so there is a task that runs,
some that are ready, and one that never began. The truth is what the program says of itself while all
rest: asyncio.all_tasks(), the frames of each coroutine and of what it awaits, and which task awaits
which by construction. From 3.14 on asyncio has to say the same of the latter.
"""
import asyncio
import ctypes
import gc
import inspect
import os
import sys
import threading
import types
import weakref

import common

AWAITERS = {}  # task: the tasks that await it, by construction
KEPT = []  # loops know their tasks by weak references only
LOOPS = []


def task(coro, name, *awaiters):
    made = asyncio.get_running_loop().create_task(coro)
    if hasattr(made, "set_name"):
        made.set_name(name)
    AWAITERS.setdefault(made, set()).update(awaiters)
    KEPT.append(made)
    return made


def awaits(awaiter, *tasks):
    for each in tasks:
        AWAITERS.setdefault(each, set()).add(awaiter)


async def forever():
    await asyncio.get_running_loop().create_future()


async def fetch():
    await forever()


async def deep(depth):
    if depth:
        await deep(depth - 1)
    else:
        await asyncio.sleep(100000)


async def values():
    while True:
        await forever()
        yield 1


async def over_values():
    async for _ in values():
        pass


@types.coroutine
def by_generator():
    yield from forever()


@types.coroutine
def by_hand():
    for future in futures():  # what is on top of its stack is not what it waits for
        future._asyncio_future_blocking = True
        yield future


def futures():
    while True:
        yield asyncio.get_running_loop().create_future()


async def by_decorator(generator):
    await generator


class Awaitable:
    def __await__(self):
        return (yield from forever().__await__())


async def by_awaitable():
    await Awaitable()


async def queued():
    await asyncio.Queue().get()


async def locked():
    event = asyncio.Event()
    await event.wait()


async def awaiting(others):
    for other in others:
        await other


async def gathering(others):
    await asyncio.gather(*others)


async def waiting_for_all(others):
    await asyncio.wait(others)


async def shielding(others):
    await asyncio.shield(others[0])


async def with_timeout():
    await asyncio.wait_for(forever(), 100000)


async def grouping():
    async with asyncio.TaskGroup() as group:
        for i in range(3):
            made = group.create_task(fetch())
            made.set_name("grouped-%d" % i)
            awaits(asyncio.current_task(), made)
            KEPT.append(made)


def await_others(name, how, *more):
    """A task that awaits three others, and these tasks."""
    others = [task(fetch(), "%s-%d" % (name, i)) for i in range(3)] + list(more)
    if how is shielding:
        others = others[:1]
    awaits(task(how(others), name), *(others[:1] if how is awaiting else others))
    return others


async def in_ring(others):
    await others[0]


def make_ring():
    """Two that await each other: nothing forbids it."""
    first, second = [], []
    a, b = task(in_ring(first), "ring-a"), task(in_ring(second), "ring-b")
    first.append(b)
    second.append(a)
    awaits(a, b)
    awaits(b, a)
    awaits(task(in_ring([a]), "into-ring"), a)


async def main(running):
    for name, made in (("deep", deep(40)), ("values", over_values()), ("queue", queued()),
                       ("event", locked()), ("generator", by_decorator(by_generator())),
                       ("hand", by_decorator(by_hand())),
                       ("awaitable", by_awaitable()), ("caf\u00e9 \u65e5\u672c", fetch()),
                       ("\x1b[31m\nTask \"x\"", fetch())):
        task(made, name)
    for i in range(100):
        task(fetch(), "fetch-%d" % i)
    await_others("awaiter", awaiting)
    await_others("gather", gathering)
    shared = await_others("wait", waiting_for_all)[0]
    await_others("shield", shielding)
    awaits(task(awaiting([shared]), "also"), shared)
    if sys.version_info >= (3, 12):  # before, it makes a task of its own
        task(with_timeout(), "timeout")
    if hasattr(asyncio, "TaskGroup"):
        task(grouping(), "group")
    make_ring()
    me = asyncio.current_task()
    AWAITERS[me] = set()
    if hasattr(me, "set_name"):
        me.set_name("main")
    await settle()
    second = threading.Thread(target=run_second, daemon=True)
    second.start()
    blocked.acquire()
    forged = forge(sys.argv[1]) if len(sys.argv) > 1 else None
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    watch(running, loop, ended)
    common.start(running)
    await ended
    if forged:
        forged()
    if "--silent" not in sys.argv:
        common.finish({"tasks": truth(me), "main": common.gettid(), "second": second_tid[0]})
    os._exit(0)  # tasks that await each other cannot be cancelled: they would for ever


async def settle():
    """Until all are where they stay."""
    for _ in range(20):
        await asyncio.sleep(0)


def watch(running, loop, ended):
    def wait():
        running.watch()
        loop.call_soon_threadsafe(ended.set_result, None)
    running.watcher = threading.Thread(target=wait, daemon=True)
    running.watcher.start()


# ---- the second loop -----------------------------------------------------------------------------

blocked, go_on = threading.Semaphore(0), threading.Lock()
second_tid = []
go_on.acquire()


async def yields():
    while True:
        await asyncio.sleep(0)


def block():
    blocked.release()
    with go_on:
        pass


async def blocks():
    block()


async def second_main():
    AWAITERS[asyncio.current_task()] = set()
    KEPT.append(asyncio.current_task())
    if hasattr(asyncio.current_task(), "set_name"):
        asyncio.current_task().set_name("second")
    task(yields(), "ready")
    await settle()
    task(blocks(), "blocks")
    task(fetch(), "new")
    await forever()


def run_second():
    second_tid.append(common.gettid())
    loop = asyncio.new_event_loop()
    LOOPS.append(loop)
    loop.run_until_complete(second_main())


# ---- truth ---------------------------------------------------------------------------------------

def inner(awaitable):
    """What a coroutine, or a thing between two, waits for; None: nothing that has a frame."""
    for attribute in ("cr_await", "gi_yieldfrom", "ag_await"):
        if hasattr(awaitable, attribute):
            return getattr(awaitable, attribute)
    for each in gc.get_referents(awaitable):  # a coroutine_wrapper, an async_generator_asend
        if isinstance(each, (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)):
            return each
    return None


def frame_of(awaitable):
    for attribute in ("cr_frame", "gi_frame", "ag_frame"):
        if hasattr(awaitable, attribute):
            return getattr(awaitable, attribute)
    return None


def place(frame):
    return [common.qualname(frame.f_code), frame.f_code.co_filename, frame.f_lineno]


def frames_of(coro):
    """Innermost first."""
    found = []
    while coro is not None and not isinstance(coro, asyncio.Future):
        if frame_of(coro) is not None:
            found.append(place(frame_of(coro)))
        coro = inner(coro)
    return found[::-1]


def running_frames(coro):
    """From the innermost one of the second thread to the coroutine's own."""
    frame, found = sys._current_frames()[threads()[second_tid[0]]], []
    while True:
        found.append(place(frame))
        if frame is coro.cr_frame:
            return found
        frame = frame.f_back


def threads():
    """{the kernel's number: ident} of the second thread."""
    return {second_tid[0]: next(t.ident for t in threading.enumerate() if t._target is run_second)}


def state_of(each, coro):
    if coro.cr_running:
        return "running"
    if inspect.getcoroutinestate(coro) == "CORO_CREATED":
        return "new"
    return "waiting" if each._fut_waiter is not None else "ready"


def name_of(each):
    return each.get_name() if hasattr(each, "get_name") else None


def coro_of(each):
    return each.get_coro() if hasattr(each, "get_coro") else each._coro


def identity(each, me):
    coro = coro_of(each)
    frames = running_frames(coro) if coro.cr_running and each is not me else frames_of(coro)
    return [name_of(each), frames]


def check_awaiters(each):
    """asyncio's own word, from 3.14 on."""
    if sys.version_info >= (3, 14):
        said = set(each._asyncio_awaited_by or ())
        assert said == AWAITERS[each], (each, said, AWAITERS[each])


def truth(me):
    """This task runs while it says so: of it everything but its name is made up."""
    found = []
    for loop in [asyncio.get_running_loop(), *LOOPS]:
        for each in asyncio.all_tasks(loop):
            if each is me:
                continue
            check_awaiters(each)
            name, frames = identity(each, me)
            found.append({"name": name, "frames": frames, "state": state_of(each, coro_of(each)),
                          "awaited_by": [identity(a, me) for a in AWAITERS[each]]})
    return found


# ---- what nobody would do ------------------------------------------------------------------------

def word_at(addr):
    return ctypes.c_uint64.from_address(addr)


def poke(addr, value):
    """Returns what puts it back."""
    word = word_at(addr)
    old, word.value = word.value, value

    def back():
        word.value = old
    return back


def find_word(obj, size, value):
    for at in range(16, size, 8):
        if word_at(id(obj) + at).value == value:
            return at
    raise AssertionError("not found")


def forge(how):
    if how == "chain":  # a task that comes after itself
        a, b = KEPT[10], KEPT[11]
        node = next(at for at in range(64, 400, 8)
                    if word_at(id(a) + at).value == id(b) + at)
        return poke(id(b) + node, id(b) + node)
    if how == "coroutine":  # one that awaits itself
        coro = KEPT[10].get_coro()
        at = find_word(coro, coro.__sizeof__(), id(coro.cr_await))
        return poke(id(coro) + at, id(coro))
    known = getattr(asyncio.tasks, "_scheduled_tasks", None) or asyncio.tasks._all_tasks
    if how == "set":  # a table of 2^40 entries
        return poke(id(known.data) + 32, (1 << 40) - 1)
    if how == "strangers":  # what is no task
        class Stranger:
            pass
        KEPT.extend(Stranger() for _ in range(10))
        known.data.update(map(weakref.ref, KEPT[-10:]))
        return lambda: known.data.difference_update(
            [r for r in known.data if isinstance(r(), Stranger)])
    raise ValueError(how)


def run(running):
    if "--uvloop" in sys.argv:
        import uvloop
        sys.argv.remove("--uvloop")
        uvloop.install()
    asyncio.run(main(running))


run(common.Running())
