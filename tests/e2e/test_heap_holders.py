# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""heap --referrers: who holds an object, near or far, against what the process itself knows."""
import json
import re

import pytest

import interpreters
from harness import Target
from test_heap import await_rest, heap, heap_json

pytestmark = pytest.mark.beside


def words(pid, *args):
    """The text, in one line."""
    result = heap("-p", pid, *args)
    assert result.returncode == 0, result
    return " ".join(result.stdout.decode().split())


def referrers(pid, name):
    """What people read of the holders, without the tables that every heap has."""
    return re.search(r"Referrers .*? objects bytes share type", words(pid, "--referrers", name))[0]


def test_words(any_python):
    """No count of nothing, no table without rows, and one way to write a number."""
    with Target(any_python, "heap_chains.py", "2000") as target:
        target.read_line()
        await_rest(target.pid)
        for name, count in {"Leaked": "3 objects", "InRing": "1 object", "Node": "2,000 objects",
                            "Thing": "100 objects"}.items():
            text = referrers(target.pid, name)
            assert "%s: %s" % (name, count) in text, text
            amounts = re.sub("0x[0-9a-f]+", "", text)
            assert not re.search(r"\b0 of them|\b\d{4,}\b|\b1 \w+s\b", amounts), text
            assert ("held by" in text) == (name != "Leaked"), text
        assert "no other object holds them: C code holds them" in referrers(target.pid, "Leaked")
        assert not re.search(r"\b\d{4,}\b", words(target.pid).partition("Pools")[2])




# The holder that repeats, how often, and the variable at the end of the path.
FAR = {"Chained": (r"Node\.next", 5000, "HEAD"), "Linked": (r"Both\.after", 101, "MIDDLE"),
       "Grown": (r"list\[\.\.\.\]", 40, "TREE")}


def check_far(python):
    """A path ends at the module's variable, however far; what repeats on it is written once."""
    with Target(python, "heap_chains.py", "5000") as target:
        truth = json.loads(target.read_line())
        await_rest(target.pid)
        for name, (step, times, variable) in FAR.items():
            found = heap_json(target.pid, "--referrers", name)["referrers"]
            path = found["paths"][0]
            assert re.fullmatch(step, path[0]["held_by"]) and path[0]["times"] == times, path
            assert [s["times"] for s in path[path[0]["together"]:]] == [1, 1], path
            assert path[-2]["held_by"] == "dict['%s']" % variable, path
            # Modules of 2.7 do not know their name.
            assert re.fullmatch(r"module\.__dict__( of __main__)?", path[-1]["held_by"]), path
            assert found["path_ends"] == ["root"]
        chain = "Path Chained <- Node.next x 5,000 <- dict['HEAD'] <- module"
        assert chain in referrers(target.pid, "Chained")
        assert re.search(r"Branch\.(children|__dict__)\) x 40", referrers(target.pid, "Grown"))
        check_near(target.pid, truth)


def check_near(pid, truth):
    """Locals, garbage, and weak references, which hold nothing."""
    kinds = lambda name: heap_json(pid, "--referrers", name)["referrers"]
    assert [h["held_by"] for h in kinds("Local")["holders"]] == ["frame of rest: kept"]
    assert kinds("Local")["path_ends"] == ["root"]
    assert kinds("InRing")["path_ends"] == ["ring"] and "garbage" in referrers(pid, "InRing")
    assert kinds("Leaked")["unheld"] == 3 and kinds("Leaked")["paths"] == []
    things = kinds("Thing")
    assert sorted(h["type"] for h in things["holders"]) == truth["Thing"], things
    assert things["references"] == 100


def test_names_of_the_largest(any_python):
    """A class by its name, a container by what holds it: as sys.getsizeof() and the module say."""
    with Target(any_python, "heap_chains.py", "10") as target:
        truth = json.loads(target.read_line())
        await_rest(target.pid)
        largest = heap_json(target.pid)["largest"]
        text = words(target.pid).partition(" Largest ")[2]
    assert [one["bytes"] for one in largest[:2]] == truth["sizes"]
    assert largest[0]["held_by"] == "dict['BIG'] <- module.__dict__ of __main__"
    kept = r"Keeper\.rows|dict\['rows'\] <- Keeper\.__dict__"
    assert re.fullmatch(kept, largest[1]["held_by"]), largest
    named = [one for one in largest if one["type"] == "type"]
    assert named and not [one for one in named if one["held_by"]]
    assert {one["name"].rpartition(".")[2] for one in named} <= set(truth["classes"]), largest
    assert "tuple 781.3 KiB (dict['BIG'] <- module.__dict__ of __main__)" in text
    assert "type %s " % named[0]["name"] in text and "type 1." not in text


def test_far(any_python):
    check_far(any_python)


@pytest.mark.parametrize("name", ["pyenv/2.7", "pyenv/3.6", "pyenv/3.10", "pyenv/3.12",
                                  "pyenv/3.13", "sid/3.14", "sid/3.15"])
def test_far_of_other_versions(name):
    python = interpreters.find().get(name)
    if not python:
        pytest.skip("there is no %s" % name)
    check_far(python)
