# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An aiohttp server whose handlers wait, and clients that wait for its answers."""
import asyncio
import gc
import sys
import threading
import types

from aiohttp import ClientSession, web

import common

arrived = []


async def handler(request):
    future = asyncio.get_running_loop().create_future()
    arrived.append(future)
    await future
    return web.Response(text="done")


async def ask(session, port):
    async with session.get("http://127.0.0.1:%d/" % port) as response:
        return await response.text()


def inner(awaitable):
    for attribute in ("cr_await", "gi_yieldfrom"):
        if hasattr(awaitable, attribute):
            return getattr(awaitable, attribute)
    return next((each for each in gc.get_referents(awaitable)
                 if isinstance(each, (types.CoroutineType, types.GeneratorType))), None)


def frames_of(coro):
    """Innermost first."""
    found = []
    while coro is not None and not isinstance(coro, asyncio.Future):
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame:
            found.append([common.qualname(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        coro = inner(coro)
    return found[::-1]


async def main(running):
    loop = asyncio.get_running_loop()
    app = web.Application()
    app.router.add_get("/", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    ended = loop.create_future()
    async with ClientSession() as session:
        asking = [loop.create_task(ask(session, port), name="ask-%d" % i) for i in range(5)]
        while len(arrived) < len(asking):
            await asyncio.sleep(0.01)

        def wait():
            running.watch()
            loop.call_soon_threadsafe(ended.set_result, None)
        running.watcher = threading.Thread(target=wait, daemon=True)
        running.watcher.start()
        common.start(running)
        await ended
        common.finish({"tasks": [{"name": t.get_name(), "frames": frames_of(t.get_coro())}
                                 for t in asyncio.all_tasks() if t is not asyncio.current_task()]})
        for future in arrived:
            future.set_result(None)
        await asyncio.gather(*asking)
    await runner.cleanup()


asyncio.run(main(common.Running()))
sys.stdout.flush()
