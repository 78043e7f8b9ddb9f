# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --imports: each module that is imported, what imports it, and how long that takes."""
import ast
import collections
import json
import re
import subprocess

import pytest

import harness
from harness import PROGRAMS, Target
from tracing import FOLLOWS, Trace, work

pytestmark = pytest.mark.beside

PROGRAM = PROGRAMS / "importing.py"
LINES = {text.strip(): n for n, text in enumerate(PROGRAM.read_text().split("\n"), 1)}
SHOP = {
    "__init__": "from . import cart\n",
    "cart": "from .price import price\nimport fractions\n",
    "price": "import time\ntime.sleep(0.2)\nprice = 1\n",
    "lazy": "from shop import cart\nfrom .price import *\n",
    "broken": "import shop.unbroken\nraise ValueError\n",
    "unbroken": "",
    "child": "from . import caf\u00e9\n",
    "caf\u00e9": "",
    "last": "",
    "waiting": "import shop.unbroken, sys\nprint('ready')\nsys.stdout.flush()\nsys.stdin.readline()\n",
}


@pytest.fixture
def shop(directory):
    (directory / "shop").mkdir()
    for name, text in SHOP.items():
        (directory / "shop" / (name + ".py")).write_text(text)
    return directory


def trace(python, *args):
    return subprocess.run([harness.PYPERF, "trace", "--imports", "--json", "--top", "0", "--python", getattr(python, "elf", python), "--",
                           python, *args], capture_output=True, text=True, timeout=harness.PATIENCE, env=harness.clean_environment())


def events(lines):
    """Of what is JSON: the imports, and the last object."""
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    assert objects[-1]["final"]
    return objects[:-1], objects[-1]


def ended(imports):
    """(depth, module) in the order in which they ended: a tree is written when its root ends, callers first."""
    order, still = [], []
    for e in imports:
        while still and still[-1][0] >= e["depth"]:
            order.append(still.pop())
        still.append((e["depth"], e["module"]))
    return order + still[::-1]


def truth_of(messages):
    """The same, as -X importtime says it."""
    return [(len(m[1]) // 2, m[2]) for m in re.findall(r"(?m)^import time: *(\d+) \| *\d+ \| ( *)(\S+)$", messages)]


def version_of(python):
    return tuple(map(int, subprocess.check_output([python, "-c", "import sys; print('%d %d' % sys.version_info[:2])"]).split()))


def loaded(imports):
    return {e["module"] for e in imports}


@pytest.mark.skipif(not FOLLOWS, reason="children are traced from Linux 6.12 on")
def test_imports(python, shop):
    """The modules, their order and what caused them: as -X importtime has them (3.7 and later)."""
    result = trace(python, "-B", "-X", "importtime", PROGRAM, shop)
    version = version_of(python)
    if version < (3, 3):
        assert result.returncode == 1 and "imports cannot be traced: CPython imports in Python from 3.3 on" in result.stderr
        return
    assert result.returncode == 0, result.stderr
    imports, final = events(result.stdout.splitlines())
    there = set(ast.literal_eval(re.search(r"(?m)^\['.*$", result.stderr).group()))
    names = {"shop", "shop.cart", "shop.price", "shop.lazy", "shop.last", "json", "json.tool", "fractions"}
    assert names <= there & loaded(imports) and {"shop.child", "shop.caf\u00e9", "colorsys"} <= loaded(imports) - there
    assert {"shop.nosuch", "nosuch", "shop.broken", "shop.unbroken"} <= loaded(imports)
    if version >= (3, 7):
        assert ended(imports) == truth_of(result.stderr)
    assert final["imported"] == len(imports) and final["processes"] == 2 and final["lost_events"] == 0
    assert all(e["finished"] for e in imports)
    assert collections.Counter(e["module"] for e in imports) == {m["module"]: m["imports"] for m in final["modules"]}


def test_times(any_python, shop):
    """A total is one's own and those that one has caused; a module that sleeps is seen to."""
    imports, final = events(trace(any_python, "-B", PROGRAM, shop).stdout.splitlines())
    sums, still = collections.Counter(), []
    for e in imports:
        del still[e["depth"]:]
        if still:
            sums[id(still[-1])] += e["total_ns"]
        still.append(e)
    assert all(e["total_ns"] == e["own_ns"] + sums[id(e)] for e in imports)
    (price,) = [e for e in imports if e["module"] == "shop.price"]
    (shop_itself,) = [e for e in imports if e["module"] == "shop"]
    assert price["own_ns"] >= 0.2e9 and shop_itself["own_ns"] < 0.2e9 < price["total_ns"] < shop_itself["total_ns"]
    assert final["total_ns"] == sum(e["total_ns"] for e in imports if not e["depth"])
    assert [m["own_ns"] for m in final["modules"]] == sorted((m["own_ns"] for m in final["modules"]), reverse=True)
    assert final["modules"][0]["module"] == "shop.price"


def test_later(any_python, shop):
    """In a process that runs, by a statement and by name; what is there already is no import."""
    with Target(any_python, "importing.py", shop, "later") as target:
        trace_of = Trace(target.pid, "--imports", "--top", 0, "--force")
        work(target)
        work(target)
        imports, final = events(trace_of.lines())
    assert loaded(imports) >= {"json", "json.tool", "shop", "shop.lazy"} and final["processes"] == 1
    names = [e["module"] for e in imports if e["module"].startswith(("json", "shop"))]
    assert len(names) == len(set(names)) and len(imports) == final["imported"]
    by = {e["module"]: e["imported_by"] for e in imports}
    assert by["json.tool"] == {"function": "later", "file": str(PROGRAM), "line": LINES["import json.tool"]}
    assert (by["shop.lazy"]["function"], by["shop.lazy"]["line"]) == ("later", LINES['import_module("shop.lazy")'])
    assert by["shop.cart"] == {"function": "<module>", "file": str(shop / "shop/__init__.py"), "line": 1}


def test_imports_for_people(any_python, shop):
    """Trees, and what is still being imported at the end."""
    with Target(any_python, "importing.py", shop, "later") as target:
        with subprocess.Popen([harness.PYPERF, "trace", "--imports", "-p", str(target.pid), "--force"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
            assert "counting the imports of" in process.stderr.readline()
            work(target)
            process.send_signal(2)
            out = process.communicate(timeout=harness.PATIENCE)[0]
    assert re.search(r" ms  json.tool, imported by later \(%s:%d\)\n.* ms    json\n" % (PROGRAM, LINES["import json.tool"]), out), out
    assert re.search(r": \d+ modules imported in [\d.]+ ms in ", out) and re.search(r"\n +1 .* ms  shop.price\n", out)


def test_not_finished(any_python, shop):
    """The trace ends while a module is being imported."""
    with subprocess.Popen([harness.PYPERF, "trace", "--imports", "--", any_python, "-B", PROGRAM, shop, "waiting"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
        assert any(line == "ready\n" for line in process.stdout)
        process.send_signal(2)
        out = "".join(iter(process.stdout.readline, "\n"))
        process.communicate(input="\n", timeout=harness.PATIENCE)
    assert re.search(r" ms  shop.waiting, imported by waiting .* \[not finished\]\n.* ms    shop\n", out), out
    assert re.search(r" ms    shop.unbroken\n", out)


@pytest.mark.parametrize("args, message", [
    (["--imports", "--gc"], "one at a time"),
    (["--imports", "--hist"], "--hist does not go with --imports"),
    (["--imports", "-f", "x"], "-f does not go with --imports"),
])
def test_bad_lines(args, message):
    result = subprocess.run([harness.PYPERF, "trace", "-p", "1", *args], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1
