# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""heap --referrers: who holds an object, near or far, against what the process itself knows."""
import re

import pytest

from harness import Target
from test_heap import await_rest, heap

pytestmark = pytest.mark.beside


def words(pid, *args):
    """The text, in one line."""
    result = heap("-p", pid, *args)
    assert result.returncode == 0, result
    return " ".join(result.stdout.decode().split())


def referrers(pid, name):
    """What people read of the holders, without the tables that every heap has."""
    return re.search(r"Referrers .*? objects bytes share type", words(pid, "--referrers", name))[0]


def check_words(python):
    """No count of nothing, no table without rows, and one way to write a number."""
    with Target(python, "heap_chains.py", "2000") as target:
        target.read_line()
        await_rest(target.pid)
        for name, count in {"Leaked": "3 objects", "InRing": "1 object", "Node": "2,000 objects",
                            "Thing": "100 objects"}.items():
            text = referrers(target.pid, name)
            assert "%s: %s" % (name, count) in text, text
            assert not re.search(r"\b0 of them|\b\d{4,}\b|\b1 \w+s\b", re.sub("0x[0-9a-f]+", "", text)), text
            assert ("held by" in text) == (name != "Leaked"), text
        assert "no other object holds them: C code holds them" in referrers(target.pid, "Leaked")
        assert not re.search(r"\b\d{4,}\b", words(target.pid).partition("Pools")[2])


def test_words(any_python):
    check_words(any_python)
