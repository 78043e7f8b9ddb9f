# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cases of nesting.py that Python 2.7 cannot parse."""
import asyncio

from __main__ import Plain, Special, case, generator_catching, generator_inner, spin


# ---- classes -------------------------------------------------------------------------------------

class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Made(metaclass=Meta):
    def __new__(cls, value):
        self = super().__new__(cls)
        self.value = spin()
        return self

    def __init__(self, value):
        self.value = spin()


class Derived(Plain):
    def __init__(self):
        super().__init__()


@case()
def class_init_super():
    Derived()


@case()
def class_meta():
    Made(1)


@case()
def format_string():
    f"{Special():x}"


# ---- generators that delegate --------------------------------------------------------------------

def generator_middle():
    yield from generator_inner()


def generator_outer():
    yield from generator_middle()


@case()
def generator_from():
    for _ in generator_outer():
        pass


def generator_delegating():
    yield from generator_catching()


@case()
def generator_throw_inner():
    generator = generator_delegating()
    next(generator)
    generator.throw(KeyError)


# ---- coroutines ----------------------------------------------------------------------------------

async def coroutine_inner():
    return spin()


async def coroutine_outer():
    return await coroutine_inner()


@case(["coroutine_send", "coroutine_outer", ["python"]])
def coroutine_send():
    try:
        coroutine_outer().send(None)
    except StopIteration:
        pass


async def coroutine_catching():
    try:
        await Paused()
    except KeyError:
        return spin()


class Paused:
    def __await__(self):
        yield


async def coroutine_delegating():
    await coroutine_catching()


@case()
def coroutine_throw():
    for coroutine in (coroutine_catching(), coroutine_delegating()):
        coroutine.send(None)
        try:
            coroutine.throw(KeyError)
        except StopIteration:
            pass


async def async_generator():
    yield spin()


async def async_consumer():
    async for _ in async_generator():
        spin()
    return [value async for value in async_generator()]


class AsyncContext:
    async def __aenter__(self):
        spin()

    async def __aexit__(self, *exc):
        spin()


async def async_with():
    async with AsyncContext():
        spin()


loop = asyncio.new_event_loop()


@case()
def asyncio_task():
    loop.run_until_complete(loop.create_task(coroutine_outer()))


@case()
def asyncio_generator():
    loop.run_until_complete(async_consumer())


@case()
def asyncio_gather():
    async def gather():
        await asyncio.gather(coroutine_outer(), async_with())
    loop.run_until_complete(gather())
