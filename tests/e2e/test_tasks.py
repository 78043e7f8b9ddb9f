# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""dump --tasks: all asyncio tasks and who awaits whom, against what the process says of itself."""
import json
import os
import re
import subprocess

import pytest

import harness
import interpreters
from harness import Target
from test_dump import dump
from test_formats import validate

pytestmark = pytest.mark.beside

SCHEMA = harness.REPO / "docs" / "tasks.schema.json"
OTHERS = ["pyenv/3.7", "bookworm/3.11", "trixie/3.13", "sid/3.13", "sid/3.14", "sid/3.14+jit",
          "sid/3.14d", "sid/3.15", "sid/3.15+jit", "sid/3.15d"]


def dump_json(pid, *args):
    result = dump(pid, "--tasks", "--json", *args)
    assert result.returncode == 0 and not result.stderr, result
    return json.loads(result.stdout)


def frames_of(task):
    assert all(f["kind"] == "python" for f in task["frames"])
    return [[harness.short(f["function"]), f["file"], f["line"]] for f in task["frames"]]


def key(name, frames):
    return json.dumps([name, [[harness.short(f[0]), *f[1:]] for f in frames]])


def found_tasks(found):
    """[(name and frames, state, those of its awaiters)], without the main one, which tells the truth."""
    by_id = {t["id"]: t for t in found["tasks"]}
    assert len(by_id) == len(found["tasks"])
    keys = {i: key(t["name"], frames_of(t)) for i, t in by_id.items()}
    return sorted((keys[i], t["state"], sorted(keys[by] for by in t["awaited_by"]))
                  for i, t in by_id.items() if t["frames"][-1]["function"] != "main")


def true_tasks(truth):
    return sorted((key(t["name"], t["frames"]), t["state"],
                   sorted(key(*by) for by in t["awaited_by"])) for t in truth["tasks"])


def compare(found, truth):
    assert found["complete"] and all(t["consistent"] and t["complete"] for t in found["tasks"])
    main, = (t for t in found["tasks"] if t["frames"][-1]["function"] == "main")
    assert main["state"] == "waiting" and main["name"] in ("main", None)
    mine, true = found_tasks(found), true_tasks(truth)
    assert [t for t in mine if t not in true] == [] == [t for t in true if t not in mine]
    assert mine == true
    assert {t["state"] for t in found["tasks"]} == {"waiting", "ready", "new", "running"}
    running, = (t for t in found["tasks"] if t["state"] == "running")
    assert running["tid"] == truth["second"]


def check(python, *args):
    with Target(python, "tasks.py", *args) as target:
        found = dump_json(target.pid)
        compare(found, target.stop())
    return found


def check_loops(found, *tids):
    assert sorted(loop["tid"] or 0 for loop in found["loops"]) == sorted(tids)
    assert {t["loop"] for t in found["tasks"]} == {0, 1}


def test_tasks(python):
    with Target(python, "tasks.py") as target:
        found = dump_json(target.pid)
        truth = target.stop()
    compare(found, truth)
    check_loops(found, truth["main"], truth["second"])


@pytest.mark.parametrize("name", OTHERS)
def test_tasks_of_others(name):
    """Those that are stripped, say themselves where tasks are, or have these built in."""
    if name not in interpreters.find():
        pytest.skip("there is no " + name)
    check(interpreters.find()[name])


# The loop of a thread that has ended, and an eager task where there are such.
ENDED = """
import asyncio, json, os, sys, threading
kept = []
async def waits(): await asyncio.Event().wait()
async def awaits(other): await other
async def makes():
    kept.append(asyncio.get_running_loop())
    kept.append(asyncio.ensure_future(waits()))
    kept.append(asyncio.ensure_future(awaits(kept[1])))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
def lives_shortly(): asyncio.new_event_loop().run_until_complete(makes())
async def main():
    if sys.version_info >= (3, 12):
        kept.append(asyncio.Task(waits(), loop=asyncio.get_running_loop(), eager_start=True))
    told = [[t.get_coro().__name__ for t in asyncio.all_tasks(loop)] for loop in (kept[0], asyncio.get_running_loop())]
    asyncio.get_running_loop().add_reader(0, os._exit, 0)
    os.write(1, json.dumps(told).encode() + b"\\n")
    await waits()
thread = threading.Thread(target=lives_shortly)
thread.start()
thread.join()
os.write(1, b"ready\\n")
asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["any", "sid/3.14", "sid/3.15"])
def test_thread_has_ended(any_python, name):
    """From 3.14 on its tasks are in another list then."""
    if name != "any" and name not in interpreters.find():
        pytest.skip("there is no " + name)
    python = any_python if name == "any" else interpreters.find()[name]
    with harness.Process([python, "-c", ENDED], env=harness.clean_environment()) as process:
        told = [sorted(names) for names in json.loads(process.read_line())]
        found = dump_json(process.pid)
    outermost = {t["id"]: t["frames"][-1]["function"] for t in found["tasks"]}
    loops = {tid: sorted(outermost[t["id"]] for t in found["tasks"] if t["loop"] == number)
             for number, tid in enumerate(loop["tid"] for loop in found["loops"])}
    assert loops == {None: told[0], process.pid: told[1]} and told[0] == ["awaits", "waits"], (loops, told)
    chain, = ([outermost[by] for by in t["awaited_by"]] for t in found["tasks"] if t["awaited_by"])
    assert chain == ["awaits"]


def has(module, python="/usr/bin/python3"):
    """The distribution's Python, if it has such a module."""
    if subprocess.run([python, "-c", "import " + module], capture_output=True).returncode:
        pytest.skip("%s is not installed: scripts/deps test" % module)
    return python


def test_uvloop():
    """Its loops are C objects that do not say which thread runs them."""
    check(has("uvloop"), "--uvloop")


def test_aiohttp():
    """A server and its clients: the same tasks at the same lines, whoever awaits them."""
    with Target(has("aiohttp"), "tasks_aiohttp.py") as target:
        found = dump_json(target.pid)
        truth = target.stop()
    mine = sorted(key(t["name"], frames_of(t)) for t in found["tasks"]
                  if t["frames"][-1]["function"] != "main")
    assert mine == sorted(key(t["name"], t["frames"]) for t in truth["tasks"])
    assert sum('["_request", ' in t for t in mine) == 5
    assert sum("/tasks_aiohttp.py" in t and "handler" in t for t in mine) == 5


def test_schema(any_python, tmp_path):
    with Target(any_python, "tasks.py") as target:
        result = dump(target.pid, "--tasks", "--json")
    (tmp_path / "tasks.json").write_bytes(result.stdout)
    validate(SCHEMA, tmp_path / "tasks.json")


def test_text(any_python):
    """Groups add up, names that would move the cursor do not, and --all names each task."""
    with Target(any_python, "tasks.py") as target:
        found = dump_json(target.pid)
        result, each = dump(target.pid, "--tasks"), dump(target.pid, "--tasks", "--all")
    assert result.returncode == each.returncode == 0 and not result.stderr + each.stderr
    text, each = result.stdout.decode(), each.stdout.decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text + each)
    cnt = len(found["tasks"])
    first = text.split("\n")[0]
    assert first.startswith("%d tasks in 2 event loops; " % cnt)
    assert re.search(r"; \d+ wait in forever \(tasks\.py:\d+\); 2 await each other, for ever$", first)
    groups = [int(n) for n in re.findall(r"^(?: +awaits )?(\d+) tasks, \w", text, re.M)]
    alone = re.findall(r'^(?: +awaits t|T)ask "[^"]+(?:"x)?"+: ', text, re.M)
    assert max(groups) >= 100 and sum(groups) + len(alone) == cnt, (groups, alone)
    assert len(re.findall(r'^(?: +awaits t|T)ask "[^"]+(?:"x)?"+: ', each, re.M)) == cnt
    assert re.search(r'^ +awaits task "ring-[ab]": waiting, awaits itself through others$', text, re.M)
    assert re.search(r'awaits task "ring-[ab]", which is shown elsewhere$', text, re.M)
    assert re.search(r'^Task "gather": waiting\n    gathering \(/.*/tasks\.py:\d+\)\n    awaits 3 tasks, '
                     r'waiting: "gather-0", "gather-1", "gather-2"\n        forever \(', text, re.M)


FORGED = [("strangers", ["any"]), ("set", ["any"]), ("coroutine", ["any"]),
          ("chain", ["sid/3.14", "sid/3.15"])]


@pytest.mark.parametrize("how, name", [(how, name) for how, names in FORGED for name in names])
def test_forged(any_python, how, name):
    """Lists and stacks that never end, and what is no task: an end, and a word about it."""
    if name != "any" and name not in interpreters.find():
        pytest.skip("there is no " + name)
    python = any_python if name == "any" else interpreters.find()[name]
    with Target(python, "tasks.py", how) as target:
        found, text = dump_json(target.pid), dump(target.pid, "--tasks").stdout.decode()
        truth = target.stop()
    true = {key(t["name"], t["frames"]) for t in truth["tasks"]}
    mine = [t for t in found["tasks"] if t["frames"][-1]["function"] != "main"]
    assert found["complete"] == (how in ("strangers", "coroutine"))
    if how == "set":
        assert not found["tasks"] and "could not be read" in text
    elif how == "coroutine":
        forged, = (t for t in mine if not t["complete"])
        assert len(forged["frames"]) <= 512 and "(frames are missing)" in text
        assert {key(t["name"], frames_of(t)) for t in mine if t is not forged} < true
    elif how == "chain":
        assert mine and "leads back into itself" in text
        assert {key(t["name"], frames_of(t)) for t in mine} < true
    else:
        compare(found, truth)


# A task in as many functions as a stack may have, each with a code object of its own and the longest line table that is read.
LONG_TABLES = """
import asyncio, os, types
key, table = ("co_linetable" if hasattr((lambda: 0).__code__, "co_linetable") else "co_lnotab"), bytes(1 << 20)
async def forever(): await asyncio.get_running_loop().create_future()
async def awaits(inner): await inner
async def main():
    coro = forever()
    for _ in range(200):
        coro = types.FunctionType(awaits.__code__.replace(**{key: table}), globals())(coro)
    kept = asyncio.ensure_future(coro)
    await asyncio.sleep(0)
    asyncio.get_running_loop().add_reader(0, os._exit, 0)
    os.write(1, b"ready\\n")
    await forever()
asyncio.run(main())
"""


def test_memory_is_bounded(any_python):
    """Many code objects with one long table are as many to whom reads them."""
    with harness.Process([any_python, "-c", LONG_TABLES]) as process:
        with subprocess.Popen([harness.PYPERF, "dump", str(process.pid), "--tasks", "--json"], stdout=subprocess.PIPE) as dumper:
            found = json.loads(dumper.stdout.read())
            _, dumper.returncode, usage = os.wait4(dumper.pid, 0)
    longest = max((t["frames"] for t in found["tasks"]), key=len)
    names = [f["function"] for f in longest]
    assert len(names) == 201 and names.count("awaits") > 20 and set(names) <= {"forever", "awaits", "<unknown>"}, names
    assert usage.ru_maxrss < 120 << 10, usage.ru_maxrss


def test_no_tasks(any_python):
    with Target(any_python, "states.py", "sleeping") as target:
        result, found = dump(target.pid, "--tasks"), dump_json(target.pid)
    assert b"\nTasks of asyncio are read, not those of trio or gevent\n" in result.stdout
    assert result.stdout.startswith(b"0 tasks\n") and found["tasks"] == found["loops"] == []


def test_refused(any_python):
    """A sentence each."""
    old = sorted(interpreters.PYENV.glob("3.6.*/bin/python3.6")) or pytest.skip("no Python 3.6")
    with Target(str(old[0]), "threads.py") as target:
        result = dump(target.pid, "--tasks")
    assert result.returncode == 1 and b"the tasks of CPython 3.6" in result.stderr
    for args in (["--tasks", "--native"], ["--all"], ["--tasks", "--all", "--json"]):
        result = dump(1, *args)
        assert result.returncode == 2 and result.stderr.count(b"\n") == 1 and not result.stdout
