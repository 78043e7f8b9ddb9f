# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The pages in a browser: what a person clicks, types and reads. Profiles made by hand, so that every
number is known, in a page that the profiler wrote; and that page itself against its folded stacks.
"""
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

import bench_page
import harness
import pages
from flame_page import ROW, functions, is_share, matches, name_at, own_times, point, press, quiet, settle
from harness import HZ, PROGRAMS, Target, profile
from pages import Box, Frame, Kernel, Native, Plumbing
from test_diff import PRICES

pytestmark = pytest.mark.beside

# 100 samples: main 100 = f 60 (g 40: read 10; self 20) + h 30 + self 10
STACKS = [
    ([Plumbing("_start"), "main:1", Plumbing("call"), "f:11", "g:21"], 30),
    ([Plumbing("_start"), "main:1", Plumbing("call"), "f:11", "g:22", Native("read"),
      Kernel("vfs_read")], 10),
    ([Plumbing("_start"), "main:1", "f:12"], 20),
    ([Plumbing("_start"), "main:2", "Shop.h:31", Box("CPython"), Plumbing("call"), Plumbing("dict_get")], 30),
    ([Plumbing("_start"), "main:3"], 10),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, any_python):
    """A directory with one recording in each format."""
    directory = tmp_path_factory.mktemp("pages")
    directory.chmod(0o755)
    if os.geteuid():
        pytest.skip("not root")
    outputs = ["cpu.html", "cpu.svg", "cpu.lines.html", "cpu.folded"]
    options = [word for name in outputs for word in ("-o", directory / name)]
    with Target(any_python, "shares.py") as target:
        profile("-F", HZ, "-d", 2, "--threads", "-p", target.pid, *options, glue=False).ok()
    return directory


@pytest.fixture
def show(browser, recorded, tmp_path):
    """Opens a page with these stacks."""
    def show(*args, **kwargs):
        path = tmp_path / "page.html"
        path.write_text(pages.page((recorded / "cpu.html").read_text(), *args, **kwargs))
        browser.open(path)
        settle(browser)
        return browser
    yield show
    quiet(browser)


def test_zoom(show):
    browser = show(STACKS)
    assert name_at(browser, 0.3, 0) == "all"
    assert name_at(browser, 0.3, 1) == "main"
    assert [name_at(browser, share, 2) for share in (0.3, 0.7, 0.95)] == ["f", "Shop.h", None]
    point(browser, 0.3, 2)
    assert browser.text("#path").split() == ["all", "›", "main", "›", "f"]
    assert browser.js("return document.title").startswith("f 60.0% —")
    # the frame is in the first row now, over the whole width
    assert [name_at(browser, share, 0) for share in (0.1, 0.9)] == ["f", "f"]
    assert [name_at(browser, share, 1) for share in (0.3, 0.9)] == ["g", None]
    detail = browser.text("#detail")
    assert "/srv/shop/app.py" in detail and "60 samples, 0.60 s" in detail
    assert re.search(r"Self\s+20.0%", detail) and re.search(r"Of the caller\s+60.0%", detail)
    # the lines of the function, hottest first
    assert browser.text("#lines tbody").split() == ["app.py:12", "20.0%", "20.0%",
                                                    "app.py:11", "0.0%", "40.0%"]
    press(browser, "Escape")
    assert not browser.shown("#path")
    assert name_at(browser, 0.7, 2) == "Shop.h"


def test_address(show, recorded):
    """Reload, Back and a copied link show what was shown."""
    browser = show(STACKS)

    def state():
        return (browser.js("return location.hash"), browser.text("#path").split()[-1:],
                browser.js("return document.getElementById('search').value"),
                browser.js("return document.getElementById('invert').ariaPressed"),
                browser.js("return document.querySelector('[data-view][aria-pressed=true]').dataset.view"),
                browser.js("return document.querySelector('[data-kind=\"3\"]').ariaPressed"),
                functions(browser) if browser.shown("#table") else name_at(browser, 0.1, 1))
    seen = [state()]
    assert seen[0][0] == ""
    point(browser, 0.3, 2)  # f
    seen.append(state())
    point(browser, 0.3, 1)  # g
    seen.append(state())
    assert seen[2][1] == ["g"] and seen[2][0] != seen[1][0]
    press(browser, "k")
    seen.append(state())
    press(browser, "v")
    seen.append(state())
    browser.type("#search", "main")
    settle(browser)
    browser.click("[data-view=table]")
    settle(browser)
    seen.append(state())
    assert list(seen[-1][-1]) == ["main"]
    # another page, and this one by its address alone
    link = browser.js("return location.href")
    browser.go("about:blank")
    browser.go(link)
    settle(browser)
    assert state() == seen[-1]
    browser.post("/refresh")
    settle(browser)
    assert state() == seen[-1]
    browser.post("/back")  # about:blank
    browser.post("/back")
    settle(browser)
    assert state() == seen[-1]
    browser.post("/back")  # from the table: what was typed is no step of its own
    browser.post("/back")
    settle(browser)
    assert state() == seen[3]
    for want in reversed(seen[:3]):
        browser.post("/back")
        settle(browser)
        assert state() == want
    browser.post("/forward")
    settle(browser)
    assert state() == seen[1]
    # of a link that fits only in part, or not at all, the part; nothing of it becomes markup
    for bad in ("zoom=x.y&of=z&task=nobody.1&view=toString&hide=%3Cimg%3E&search=%3Cimg src=x%3E&sort=constructor",
                "%", "zoom=" + "." * 10000, "theme=__proto__&width=base"):
        browser.go("about:blank")
        browser.go(link.split("#")[0] + "#" + bad)
        settle(browser)
        assert name_at(browser, 0.3, 0) == "all"
        assert browser.js("return document.images.length") == 0


def test_address_of_a_task(show):
    two = [(["a"], 50, ("web", 42, 43, "io")), (["c"], 30, ("job.x&y=1", 7, 7, "job"))]
    browser = show(two)
    browser.js("const t = document.getElementById('task'); t.selectedIndex = 3; t.dispatchEvent(new Event('change'))")
    settle(browser)
    name = browser.js("return document.getElementById('task').selectedOptions[0].text")
    assert name.startswith("job.x&y=1 7") and functions(browser) == {"c": ("100.0%", "100.0%")}
    browser.post("/refresh")
    settle(browser)
    assert browser.js("return document.getElementById('task').selectedOptions[0].text") == name
    assert functions(browser) == {"c": ("100.0%", "100.0%")}


def paste(browser):
    """What the clipboard has, as an input field of another page gets it."""
    browser.go("about:blank")
    browser.js("document.body.append(document.createElement('textarea')); document.querySelector('textarea').focus()")
    actions = [{"type": kind, "value": key} for kind, key in (
        ("keyDown", "\ue009"), ("keyDown", "v"), ("keyUp", "v"), ("keyUp", "\ue009"))]
    browser.post("/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])
    return browser.js("return document.querySelector('textarea').value")


def test_sandwich(show):
    """Of just this function: another one whose name has it in is not there, and a recursion counts once."""
    stacks = [(["main", "get", "load", "load", "read"], 40), (["cron", "load", "parse"], 20),
              (["main", "get", "load_all", "x"], 30), (["cron"], 10)]
    browser = show(stacks)
    functions(browser)
    browser.click("#table tbody tr:nth-child(1)")  # read, which has the most of its own
    settle(browser)
    assert [name_at(browser, 0.5, row) for row in range(6)] == ["main", "get", "load", "load", "read", None]
    browser.click("[data-view=table]")
    browser.js("[...document.querySelectorAll('#table .name')].find((e) => e.innerText === 'load').click()")
    settle(browser)
    # callers 40 of main > get and 20 of cron above, callees below: load > read 40, parse 20
    assert [name_at(browser, 0.3, row) for row in range(6)] == ["main", "get", "load", "load", "read", None]
    assert [name_at(browser, 0.9, row) for row in range(5)] == [None, "cron", "load", "parse", None]
    assert "load" in browser.text("#path") and browser.js("return document.title").startswith("load 60.0%")
    assert re.search(r"Total\s+60.0%", browser.text("#detail"))
    browser.post("/refresh")
    settle(browser)
    assert [name_at(browser, 0.9, row) for row in range(5)] == [None, "cron", "load", "parse", None]
    # by keyboard, up to a caller and back
    browser.js("document.getElementById('canvas').focus()")
    press(browser, "ArrowUp")
    assert browser.text("#detail h2") == "get" and re.search(r"Of all\s+40.0%", browser.text("#detail"))
    press(browser, "ArrowUp", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown")
    assert browser.text("#detail h2") == "load"
    point(browser, 0.9, 3)  # to parse
    assert [name_at(browser, 0.5, row) for row in range(4)] == ["cron", "load", "parse", None]
    browser.post("/back")
    settle(browser)
    assert name_at(browser, 0.9, 3) == "parse" and name_at(browser, 0.3, 4) == "read"
    press(browser, "Escape")
    assert [name_at(browser, 0.3, row) for row in range(3)] == ["all", "main", "get"]
    # from a box
    point(browser, 0.3, 2)
    browser.click("#sandwich")
    settle(browser)
    assert [name_at(browser, 0.3, row) for row in range(3)] == ["main", "get", "load"]
    # what is hidden is in no middle
    press(browser, "p")
    assert not browser.shown("#path")


def test_source_in_panel(show):
    """The hottest lines of a function with their text, as text."""
    browser = show([(["main", Frame("f", line=12, source="total += price * 2")], 70),
                    (["main", Frame("f", line=11, source="if a < b: # <img src=x>"), "g"], 20), (["main", "f:13"], 10)])
    point(browser, 0.2, 2)
    rows = browser.js("return [...document.querySelectorAll('#lines tbody tr')].map(r => [...r.cells].slice(0, 4).map(c => c.innerText))")
    assert rows == [["app.py:12", "total += price * 2", "70.0%", "70.0%"], ["app.py:13", "", "10.0%", "10.0%"],
                    ["app.py:11", "if a < b: # <img src=x>", "0.0%", "20.0%"]]
    assert browser.js("return document.images.length") == 0


def test_neighbours(show):
    """The panel leads to the heaviest callers and callees, of every place where the function is called."""
    browser = show([(["main", "a", "load", "read"], 50), (["main", "b", "load", "parse"], 30), (["main", "b", "load", "load"], 20)])

    def near():
        return browser.js("return [...document.querySelectorAll('.near')].map(p => p.innerText.replace(/\\s+/g, ' '))")
    point(browser, 0.1, 3)
    assert near() == ["Called by a 50.0% b 50.0%", "Calls read 50.0% parse 30.0%"]
    browser.click(".near + .near button:last-child")
    settle(browser)
    assert browser.text("#detail h2") == "parse" and near() == ["Called by load 30.0%"]
    browser.js("history.back()")
    harness.poll(lambda: browser.js("return !location.hash.includes('of=')"), "the address of before")
    settle(browser)


def test_copy(show):
    browser = show(STACKS)
    link = browser.js("return location.href")
    point(browser, 0.1, 3)
    assert browser.text("#detail h2") == "g"
    browser.click("#copyname")
    assert browser.text("#live") == "Name copied"
    assert paste(browser) == "g"
    for inverted in "", "#by=callers":
        browser.go(link + inverted)
        settle(browser)
        if inverted:
            browser.js("document.getElementById('search').value = ''")
            browser.type("#search", "main")
            browser.press("Enter")
            settle(browser)
        else:
            point(browser, 0.1, 3)
        browser.click("#copystack")
        lines = paste(browser).split("\n")
        assert lines[0].startswith("main (/srv/shop/app.py") and len(lines) > 1, lines
        if not inverted:
            assert [line.split()[0] for line in lines] == ["main", "f", "g"]


def test_matches_one_by_one(show):
    browser = show(STACKS)
    browser.type("#search", "^(f|g|read)$")
    browser.click("#regex")
    settle(browser)
    assert browser.text("#hits") == "3"
    seen = []
    for button in "#next", "#next", "#next", "#next", "#before":
        browser.click(button)
        settle(browser)
        seen.append((browser.text("#detail h2"), browser.text("#hits")))
    assert seen == [("f", "1 of 3"), ("g", "2 of 3"), ("read", "3 of 3"), ("f", "1 of 3"), ("read", "3 of 3")]
    browser.js("document.getElementById('search').value = ''")
    browser.type("#search", "nowhere")
    settle(browser)
    assert not browser.shown("#hits") and not browser.shown("#next")


# Of a box's left edge: the channels of the canvas at a share of the width, in a row.
EDGE = """
const c = document.getElementById('canvas'), k = c.width / c.getBoundingClientRect().width;
const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });
copy.drawImage(c, 0, 0);
const at = (x, y) => [...copy.getImageData(Math.round(x * k), Math.round(y * k), 1, 1).data].slice(0, 3).join();
const [share, row, x, y] = arguments;
return at(share * c.getBoundingClientRect().width + x, row * 20 + y)"""


def test_hover_lights_all(show):
    """All boxes of a function have an edge while the pointer is at one; those of others have none."""
    browser = show([(["main", "a", "load"], 50), (["main", "b", "load"], 30), (["main", "c", "other"], 20)])

    def edges():
        return [browser.js(EDGE, share, 3, 3, 0) for share in (0.0, 0.5, 0.8)]
    browser.mouse(2, 2, click=False)
    settle(browser)
    plain = edges()
    assert name_at(browser, 0.3, 3) == "load"
    lit = edges()
    assert lit[0] == lit[1] and lit[0] != plain[0] and lit[1] != plain[1] and lit[2] == plain[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_own_code(show, theme):
    """Own code has a colour that no package comes near, and its name is in bold in the legend."""
    packages = ["/usr/lib/python3/site-packages/%s/core.py" % name for name in "abcdefghijklm"]
    stacks = [([Frame("run%d" % n, file=file)], 7) for n, file in enumerate(packages)]
    browser = show([*stacks, (["main"], 9)])
    if browser.js("return document.documentElement.dataset.theme") != theme:
        press(browser, "t")
    at = {name_at(browser, x / 100, 1): browser.js(EDGE, x / 100, 1, 0, 2) for x in (4.5, *(12.5 + 7 * n for n in range(13)))}
    assert len(at) == 14
    own = [int(part) for part in at.pop("main").split(",")[:3]]
    for name, colour in at.items():
        assert sum(abs(a - int(b)) for a, b in zip(own, colour.split(","))) > 40, name
    assert browser.js("return [...document.querySelectorAll('#groups b')].map(b => b.textContent)") == ["shop"]


def test_kinds_without_colour(show):
    """Native boxes have a line below, the kernel's two, Python's none."""
    browser = show([(["main", Native("read"), Kernel("vfs_read")], 100)])
    for row, want in (1, [0, 0]), (2, [1, 0]), (3, [1, 1]):
        middle = browser.js(EDGE, 0.9, row, 0, 6)
        assert [browser.js(EDGE, 0.9, row, 0, y) != middle for y in (18, 16)] == want


def test_print(show):
    """On paper there is the picture, without what cannot be clicked there, also of a dark page."""
    browser = show(STACKS)
    browser.post("/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"media": "print"})
    try:
        assert not browser.shown(".bar") and not browser.shown(".actions")
        assert browser.shown("#canvas") and browser.shown("#kinds")
    finally:
        browser.post("/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"media": ""})
    if browser.js("return document.documentElement.dataset.theme") != "dark":
        press(browser, "t")
    dark = browser.js(EDGE, 0.99, 1, 0, 10)
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    light = browser.js(EDGE, 0.99, 1, 0, 10)
    assert sum(map(int, light.split(","))) > sum(map(int, dark.split(",")))
    assert browser.js("return document.documentElement.dataset.theme") == "light"
    browser.js("window.dispatchEvent(new Event('afterprint'))")
    settle(browser)
    assert browser.js("return document.documentElement.dataset.theme") == "dark"
    assert browser.js(EDGE, 0.99, 1, 0, 10) == dark


def test_narrow(show):
    """A telephone's width: nothing reaches out of it, also while there are matches."""
    browser = show(STACKS)
    browser.post("/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride",
                 params={"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False})
    try:
        browser.type("#search", "main")
        browser.press("Enter")
        settle(browser)
        assert browser.text("#hits") == "1 of 1"
        assert browser.js("return [...document.querySelectorAll('.bar *, .top *')].filter((e) => e.checkVisibility() &&"
                          "e.getBoundingClientRect().right > 390).map((e) => e.outerHTML)") == []
    finally:
        browser.post("/goog/cdp/execute", cmd="Emulation.clearDeviceMetricsOverride", params={})


BOOT = [Frame("boot%d" % n, file="/usr/lib/python3.11/runpy.py") for n in range(6)]
MIDDLEWARE = [Frame("middle%d" % n, file="/x/site-packages/django/m.py") for n in range(5)]


def test_chains(show):
    """Frames of others that only call the next one are one box, until they are asked for."""
    browser = show([([*BOOT, "view", *MIDDLEWARE, "save"], 70), ([*BOOT, "view", "other"], 30)])
    # own code is shown, and which way it goes behind a fork
    assert [name_at(browser, 0.2, row) for row in range(7)] == \
        ["all", "6 frames", "view", "middle0", "4 frames", "save", None]
    browser.mouse(2, 2, click=False)
    point(browser, 0.2, 4, click=False)
    assert browser.text("#tip").split()[-4:] == ["middle%d" % n for n in range(1, 5)]
    point(browser, 0.2, 4)
    assert [name_at(browser, 0.2, row) for row in range(2, 10)] == \
        ["view", *("middle%d" % n for n in range(5)), "save", None]
    assert browser.text("#detail h2") == "middle1"
    press(browser, "c")
    assert [name_at(browser, 0.2, row) for row in (1, 6, 7)] == ["boot0", "boot5", "view"]
    browser.post("/refresh")
    settle(browser)
    assert name_at(browser, 0.2, 6) == "boot5"
    press(browser, "c")
    assert name_at(browser, 0.2, 2) == "view"
    # what is searched for is never inside
    browser.type("#search", "boot4")
    settle(browser)
    assert [name_at(browser, 0.2, row) for row in range(1, 5)] == ["4 frames", "boot4", "boot5", "view"]
    # by keyboard
    browser.press("Escape", "Escape")
    browser.js("document.getElementById('canvas').focus()")
    press(browser, "ArrowDown", "ArrowDown")
    assert browser.text("#live").startswith("6 frames, 100.0%")
    assert not browser.shown("#detail")
    press(browser, "Enter")
    assert browser.text("#detail h2") == "boot0"


def test_flame_and_icicle(show):
    browser = show(STACKS)
    browser.click("[data-view=flame]")
    settle(browser)
    rows = browser.js("return Math.floor(document.getElementById('stage').clientHeight / 20)")
    assert name_at(browser, 0.3, rows - 1) == "all"
    assert name_at(browser, 0.3, rows - 3) == "f"
    browser.click("[data-view=icicle]")
    settle(browser)
    assert name_at(browser, 0.3, 2) == "f"


def test_search(show):
    browser = show(STACKS)
    press(browser, "/")
    browser.type("#search", "SHOP.h")
    matches(browser, "30.0% matched")
    browser.click("#regex")
    browser.type("#search", "$|^g")
    matches(browser, "70.0% matched")
    browser.type("#search", "(")
    matches(browser, "not an expression")
    browser.press("Escape")
    matches(browser, "")
    browser.type("#search", "^(f|g)$")
    browser.press("Enter")
    settle(browser)
    assert browser.text("#detail h2") == "f"
    browser.press("Enter")
    settle(browser)
    assert browser.text("#detail h2") == "g"
    browser.click("[data-view=table]")
    assert sorted(functions(browser)) == ["f", "g"]
    # what is hidden does not match
    browser.press("Escape")
    browser.js("document.getElementById('search').value = ''")
    browser.type("#search", "read")
    matches(browser, "10.0% matched")
    browser.click("[data-kind='2']")
    browser.click("[data-kind='3']")
    matches(browser, "0.0% matched")


def test_hide(show):
    browser = show(STACKS)
    # plumbing is hidden from the start; one box stands for what the interpreter does itself
    assert functions(browser) == {
        "main": ("10.0%", "100.0%"), "f": ("20.0%", "60.0%"), "g": ("30.0%", "40.0%"),
        "Shop.h": ("0.0%", "30.0%"), "CPython": ("30.0%", "30.0%"),
        "read": ("0.0%", "10.0%"), "vfs_read": ("10.0%", "10.0%")}
    # The report's order: what a function calls that is not Python is its own time.
    assert own_times(browser)[:4] == [("g", "40.0%"), ("Shop.h", "30.0%"), ("f", "20.0%"), ("main", "10.0%")]
    assert set(own_times(browser)[4:]) == {(name, "0.0%") for name in ("CPython", "read", "vfs_read")}
    browser.click("[data-kind=plumbing]")
    shown = functions(browser)
    assert shown["call"] == ("0.0%", "70.0%") and shown["dict_get"] == ("30.0%", "30.0%")
    assert "CPython" not in shown
    browser.click("[data-kind=plumbing]")
    browser.click("[data-kind='3']")
    assert functions(browser)["read"] == ("10.0%", "10.0%")
    browser.click("[data-kind='2']")
    shown = functions(browser)
    assert shown["g"] == ("40.0%", "40.0%") and shown["Shop.h"] == ("30.0%", "30.0%")
    assert not {"read", "CPython", "dict_get", "vfs_read"} & set(shown)
    assert browser.js("return document.querySelector('[data-kind=\"2\"]').ariaPressed") == "false"
    press(browser, "n", "k", "f")
    assert [name_at(browser, 0.01, row) for row in (3, 4, 5)] == ["g", "read", "vfs_read"]


def test_invert(show):
    browser = show(STACKS)
    browser.click("#invert")
    settle(browser)
    # what ran, heaviest first: g 30, CPython 30, f 20, vfs_read 10, main 10
    names = [name_at(browser, share, 1) for share in (0.15, 0.45, 0.7, 0.85, 0.95)]
    assert set(names[:2]) == {"g", "CPython"} and names[2] == "f"
    assert set(names[3:]) == {"vfs_read", "main"}
    g = 0.15 if names[0] == "g" else 0.45
    assert [name_at(browser, g, row) for row in (2, 3, 4)] == ["f", "main", None]
    assert name_at(browser, 0.6 - g, 2) == "Shop.h"
    press(browser, "v")
    assert name_at(browser, 0.3, 2) == "f"


def test_by_line(show):
    browser = show(STACKS)
    browser.click("#bylines")
    settle(browser)
    assert [name_at(browser, share, 1) for share in (0.3, 0.75, 0.95)] == \
        ["main:1", "main:2", "main:3"]
    assert [name_at(browser, share, 2) for share in (0.2, 0.5)] == ["f:11", "f:12"]


def test_keyboard(show):
    browser = show(STACKS)
    browser.js("document.getElementById('canvas').focus()")
    press(browser, "ArrowDown")
    assert browser.text("#live").startswith("all, 100.0%")
    press(browser, "ArrowDown", "ArrowDown")
    assert browser.text("#live").startswith("f, 60.0%, 60 samples, 0.60 s, shop · Python")
    press(browser, "ArrowRight")
    assert browser.text("#live").startswith("Shop.h, 30.0%")
    press(browser, "ArrowLeft", "Enter")
    assert browser.text("#path").split()[-1] == "f"
    press(browser, "ArrowDown", "Enter")
    assert browser.text("#path").split()[-1] == "g"
    press(browser, "ArrowUp")
    assert browser.text("#detail h2") == "f"
    press(browser, "Escape", "Escape")
    assert not browser.shown("#path")
    press(browser, "Escape")
    assert not browser.shown("#detail")
    press(browser, "?")
    assert browser.shown("#keys")
    press(browser, "Escape")
    assert not browser.shown("#keys")
    theme = browser.js("return document.documentElement.dataset.theme")
    press(browser, "t")
    assert browser.js("return document.documentElement.dataset.theme") != theme
    # letters typed into the search are no commands
    press(browser, "/", "v", "t")
    assert browser.js("return document.getElementById('search').value") == "vt"
    assert browser.js("return document.getElementById('invert').ariaPressed") == "false"


def test_processes_and_threads(show):
    one, two = ("web", 42, 43, "io;pool"), ("web", 42, 44, ""),
    browser = show([(["a"], 50, one), (["b"], 20, two), (["c"], 30, ("job", 7, 7, "job"))])
    options = browser.js("return [...document.getElementById('task').options].map(o => o.text)")
    assert [option.strip() for option in options] == [
        "All 2 processes", "web 42 — 70.0%", "thread io;pool 43 — 50.0%",
        "thread 44 — 20.0%", "job 7 — 30.0%", "thread job 7 — 30.0%"]

    def choose(index):
        browser.js("const t = document.getElementById('task'); t.selectedIndex = arguments[0];"
                   "t.dispatchEvent(new Event('change'))", index)
        settle(browser)
        return functions(browser)
    assert choose(1) == {"a": ("71.4%", "71.4%"), "b": ("28.6%", "28.6%")}
    assert choose(2) == {"a": ("100.0%", "100.0%")}
    assert choose(4) == {"c": ("100.0%", "100.0%")}
    assert len(choose(0)) == 3


def test_by_thread(show):
    """One box for each thread below the root; the lines of a function are those in that thread."""
    main, io = ("web", 42, 42, "MainThread"), ("web", 42, 43, "io")
    browser = show([(["run:1", "load:5"], 60, main), (["run:1", "load:7"], 30, io), (["run:1"], 10, io)])
    assert browser.text("#bytask") == "By thread"
    press(browser, "d")
    assert [name_at(browser, x, 1) for x in (0.3, 0.8)] == ["web 42, MainThread 42", "web 42, io 43"]
    assert [name_at(browser, x, 3) for x in (0.3, 0.8, 0.95)] == ["load", "load", None]
    assert "threads=1" in browser.js("return location.hash")
    point(browser, 0.8, 3)
    assert browser.text("#lines tbody").split() == ["app.py:7", "30.0%", "30.0%"]
    press(browser, "Escape")
    point(browser, 0.8, 1)
    browser.js("location.reload()")
    settle(browser)
    assert name_at(browser, 0.2, 0) == "web 42, io 43"
    press(browser, "Escape", "v")
    assert name_at(browser, 0.8, 1) == "web 42, io 43"
    assert name_at(browser, 0.8, 2) in ("load", "run")
    press(browser, "v", "d")
    assert name_at(browser, 0.8, 1) == "run"
    browser = show([(["run"], 1)])
    assert not browser.shown("#bytask")


def test_recursion(show):
    """A function that calls itself counts once."""
    browser = show([(["fib"] * 40, 60), (["fib"] * 3 + ["add"], 40)])
    assert functions(browser) == {"fib": ("60.0%", "100.0%"), "add": ("40.0%", "40.0%")}


def test_compared(show):
    before = [(["main", "old"], 400), (["main", "same"], 600)]
    after = [(["main", "new"], 400), (["main", "same"], 600)]
    browser = show(after, before)
    assert browser.shown("#width")
    names = [name_at(browser, share, 2) for share in (0.3, 0.7, 0.9)]
    assert names[0] == "same" and set(names[1:]) == {"old", "new"}
    point(browser, 0.7 if names[1] == "new" else 0.9, 2)
    assert "+40.0 points" in browser.text("#detail")
    assert browser.js("return document.querySelector('#detail .up') !== null")
    press(browser, "Escape")
    browser.js("const w = document.getElementById('width'); w.value = 'base';"
               "w.dispatchEvent(new Event('change'))")
    settle(browser)
    assert [name_at(browser, share, 2) for share in (0.3, 0.9)] == ["same", "old"]
    point(browser, 0.9, 2)
    assert "−40.0 points" in browser.text("#detail")


HOSTILE = ["</script><script>window.hit = 1</script>", "<img src=x onerror='window.hit = 1'>",
           "\" autofocus onfocus=\"window.hit = 1", "'><svg onload=window.hit=1>", "&lt;b&gt;",
           "a;b", "\u05d0\u05d1\u200f\u061c", "\U0001f600", "x" * 10000, "__proto__",
           "constructor", "javascript:window.hit=1", "{{7*7}}", "<!--@data-->"]


def test_hostile(show):
    stacks = [(["main", Frame(name, file=name, line=3), Native(name)], 10,
               (name, n + 1, n + 1, name)) for n, name in enumerate(HOSTILE)]
    browser = show(stacks)
    shown = functions(browser)
    assert len(shown) == 1 + len(HOSTILE)  # a function and a native one, of the same name
    for name in ("&lt;b&gt;", "__proto__", HOSTILE[0], HOSTILE[1]):
        assert name in shown, name
    browser.click("[data-view=icicle]")
    settle(browser)
    for n in range(len(HOSTILE)):
        point(browser, (n + 0.5) / len(HOSTILE), 2)
        press(browser, "Escape")
    assert browser.js("return window.hit") is None
    assert browser.js("return document.scripts.length") == 2
    assert browser.js("return document.querySelectorAll('img, iframe, object').length") == 0


def test_nothing(show):
    browser = show([])
    assert browser.shown("#nothing")


def test_accessible(show):
    """Whatever can be reached has a name; text can be read on what is behind it."""
    browser = show(STACKS)
    nameless = browser.js(
        "return [...document.querySelectorAll('button, input, select, canvas, dialog, nav')]"
        ".filter(e => !(e.innerText || e.ariaLabel || e.getAttribute('aria-labelledby')"
        " || e.title).trim()).map(e => e.outerHTML)")
    assert nameless == []
    for _ in range(2):
        low = browser.js(CONTRAST)
        assert low == [], low
        press(browser, "t")


# Text of the document with a contrast below 4.5 (WCAG 2.1, 1.4.3).
CONTRAST = """
const rgb = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
const light = (c) => rgb(c).slice(0, 3).map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const back = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (rgb(c)[3] !== 0)
      return c;
  }
  return "rgb(255,255,255)";
};
const low = [];
for (const e of document.querySelectorAll("button, select, input, p, h1, small, span, output")) {
  if (!e.checkVisibility() || !(e.innerText || e.value))
    continue;
  const a = light(getComputedStyle(e).color) + 0.05, b = light(back(e)) + 0.05;
  if (Math.max(a, b) / Math.min(a, b) < 4.5)
    low.push([e.outerHTML.slice(0, 80), Math.max(a, b) / Math.min(a, b)]);
}
return low;
"""


# Of two functions: one grows, the other is gone at the end.
OVER_TIME = {"when": [0, 1000, 2000, 4000], "rss": [10 << 20, 50 << 20, 90 << 20, 40 << 20], "peak": 2000,
             "values": [[0, 10 << 20, 20 << 20, 30 << 20], [0, 30 << 20, 60 << 20, 0]]}
TWO = [(["main:1", "keep:11"], 30 << 20), (["main:2", "spike:21"], 0)]


def width_of(browser, name):
    """Whether the pointer finds it in the third row, from the left."""
    return sum(name_at(browser, i / 20 + 0.025, 2) == name for i in range(20))


def test_over_time(show):
    """The slider, by mouse and by keys, says whose memory the picture shows; a link and Back keep it."""
    browser = show(TWO, over_time=OVER_TIME)
    assert browser.text("#when") == "4.0 s: 30.0 MiB in use, 40.0 MiB resident"
    assert name_at(browser, 0.1, 2) == "keep" and name_at(browser, 0.9, 2) == "keep"
    browser.click("#atpeak")
    settle(browser)
    assert browser.text("#when") == "2.0 s: 80.0 MiB in use, 90.0 MiB resident"
    assert 13 <= width_of(browser, "spike") <= 16 and 4 <= width_of(browser, "keep") <= 6
    assert browser.js("return location.hash").endswith("time=2000")
    browser.js("document.getElementById('moment').focus()")
    press(browser, "ArrowLeft")
    assert browser.text("#when") == "1.0 s: 40.0 MiB in use, 50.0 MiB resident"
    assert browser.js("return document.getElementById('moment').getAttribute('aria-valuetext')") == browser.text("#when")
    left, top, width = browser.js("const r = document.getElementById('curves').getBoundingClientRect(); return [r.left, r.top, r.width]")
    browser.mouse(left + 0.49 * width, top + 40)
    settle(browser)
    assert browser.text("#when").startswith("2.0 s: ")
    chips = browser.js("return [...document.querySelectorAll('#areas .chip')].map(e => e.innerText.replace(/\\s+/g, ' '))")
    assert chips == ["spike 60.0 MiB", "keep 20.0 MiB"]
    browser.js("location.reload()")
    harness.poll(lambda: browser.text("#when").startswith("2.0 s: "), "the same moment")
    settle(browser)
    label = browser.js("return document.getElementById('curves').getAttribute('aria-label')")
    assert label == "Memory in use over 4.0 s: at most 80.0 MiB, spike 60.0 MiB, keep 30.0 MiB"
    for _ in range(2):
        low = browser.js(CONTRAST)
        assert low == [], low
        press(browser, "t")


def test_over_time_zoomed(show):
    """The zoom stays where its frames are still there; a page without curves has no slider."""
    browser = show(TWO, over_time=OVER_TIME)
    browser.click("#atpeak")
    settle(browser)
    point(browser, 0.2, 2)
    assert browser.js("return document.title").startswith("spike 75.0%")
    browser.js("document.getElementById('moment').focus()")
    press(browser, "ArrowLeft")
    assert browser.js("return document.title").startswith("spike 75.0%")
    browser.click("#atend")
    settle(browser)
    assert browser.text("#when").startswith("4.0 s")
    browser = show(STACKS)
    assert not browser.shown("#time")


def test_dark(browser, recorded):
    browser.open(recorded / "cpu.html")
    for theme in ("dark", "light"):
        browser.dark(theme == "dark")
        harness.poll(lambda: browser.js("return document.documentElement.dataset.theme") == theme,
                     theme)
    quiet(browser)


def test_recorded(browser, recorded):
    """What the page shows of a real recording is what its folded stacks say."""
    stacks = harness.parse_folded((recorded / "cpu.folded").read_text(), threads=True)
    data = pages.data_of((recorded / "cpu.html").read_text())
    assert data["total"] == harness.total(stacks)
    assert sum(pages.undigits(data["stacks"]["value"])) == data["total"]
    browser.open(recorded / "cpu.html")
    settle(browser)
    shown, own = functions(browser), dict(own_times(browser))
    files = {}
    for frame in {f for s in stacks for f in s.python()}:
        files.setdefault(frame.name, set()).add(frame.file)
    assert files
    for name in (name for name in files if len(files[name]) == 1):
        share = harness.share(stacks, lambda s: name in {f.name for f in s.python()})
        assert is_share(shown[name][1], share), (name, shown[name], share)
        share = harness.share(stacks, lambda s: [f.name for f in s.python()][-1:] == [name])
        assert is_share(own[name], share), (name, own[name], share)
    quiet(browser)


def test_lines(browser, recorded):
    browser.open(recorded / "cpu.lines.html")
    program = (PROGRAMS / "shares.py").read_text().split("\n")
    codes = browser.js("return [...document.querySelectorAll('details[open] tr')]"
                       ".filter(r => r.querySelector('.no')).map(r => [r.parentNode.closest("
                       "'details').querySelector('b').innerText, +r.querySelector('.no').innerText,"
                       " r.querySelector('.code').textContent, r.cells[1].innerText])")
    ours = [row for row in codes if row[0].endswith("/shares.py")]
    assert any(row[3] for row in ours)
    for _, number, code, _ in ours:
        assert code == program[number - 1]
    assert browser.js("return document.scripts.length") == 0
    quiet(browser)


@pytest.mark.parametrize("page", ["cpu.lines.html", "cpu.html"])
def test_source_of_a_liar(any_python, directory, page):
    """A process that names files as its source: what its user may not read is not shown."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    secrets = {"open.py": 0o644, "private.py": 0o600, "shadow": 0o644, "link.py": None}
    for name, mode in secrets.items():
        path = directory / name
        if mode is None:
            path.symlink_to("private.py")
            continue
        path.write_text("text of %s\n" % name * 9)
        path.chmod(mode)
    # Nobody may be shut out of the checkout.
    for program in ("liar.py", "common.py"):
        shutil.copy(PROGRAMS / program, directory)
    out = directory / page
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with Target(any_python, directory / "liar.py", *(directory / name for name in secrets),
                prefix=nobody) as target:
        profile("-F", HZ, "-d", 2, "-p", target.pid, "-o", out).ok()
    text = out.read_text()
    if page == "cpu.html":
        strings = pages.data_of(text)["strings"]
        assert all("%s/%s" % (directory, name) in strings for name in secrets)
        found = [s for s in strings if "text of" in s]
        assert found and set(re.findall(r"text of ([a-z.]+)", " ".join(found))) == {"open.py"}
        return
    assert all("%s/%s<" % (directory, name) in text for name in secrets)
    assert re.findall(r"text of ([a-z.]+)", text) and \
        set(re.findall(r"text of ([a-z.]+)", text)) == {"open.py"}
    assert text.count("its process may not read it") == 2
    assert text.count("its name is not that of a Python source file") == 1


def test_svg(browser, recorded):
    root = xml.parse(recorded / "cpu.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    titles = [t.text for t in root.iter(svg + "title")]
    assert any("shares.py" in title for title in titles)
    width = float(root.get("width"))
    for box in root.iter(svg + "g"):
        rect, text = box.find(svg + "rect"), box.find(svg + "text")
        assert 0 <= float(rect.get("x")) <= float(rect.get("x")) + float(rect.get("width")) <= width
        # no font that is named is wider than this
        if text is not None:
            assert len(text.text) * 0.602 * 12 <= float(rect.get("width"))
    browser.open(recorded / "cpu.svg")
    overflow = browser.js(
        "return [...document.querySelectorAll('g')].filter(g => g.querySelector('text') &&"
        "g.querySelector('text').getBBox().width > g.querySelector('rect').getBBox().width)"
        ".map(g => g.textContent)")
    assert overflow == []
    quiet(browser)
    if shutil.which("xmllint"):
        subprocess.run(["xmllint", "--nonet", "--noout", recorded / "cpu.svg"], check=True)


def test_large(browser, tmp_path):
    """100,000 stacks: docs/performance.md has the figures; here, that nothing takes forever."""
    subprocess.run(["make", "-s", "-C", harness.REPO, ".output/bench/bench_export"], check=True,
                   stdin=subprocess.DEVNULL)
    subprocess.run([harness.REPO / ".output/bench/bench_export", "100000", tmp_path / "big.html"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([harness.REPO / ".output/bench/bench_export", "5000", tmp_path / "mid.html"],
                   check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "mid.html").stat().st_size < 1 << 20
    browser.open(tmp_path / "big.html")
    settle(browser)
    loaded = browser.js("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert loaded < 15000
    for keys in (("/", "h", "Enter"), ("Escape", "Escape", "v"), ("v",), ("n",), ("k",)):
        before = browser.js("return performance.now()")
        press(browser, *keys)
        assert browser.js("return performance.now()") - before < 10000, keys
    quiet(browser)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Of 200,000 functions: (the page, [(names and files of a stack, samples)])."""
    path = tmp_path_factory.mktemp("many") / "many.html"
    bench_page.make("functions", path)
    return path, list(bench_page.functions(bench_page.FRAMES))


def test_many_frames(browser, many):
    """200,000 functions: tests/bench/bench_page.py has the times; here, size, what is found and what the document holds."""
    path, stacks = many
    size = sum(len(stack) for stack, _ in stacks)
    assert path.stat().st_size < size / 5
    assert sum("handle_any" in s for s in pages.data_of(path.read_text())["strings"]) == bench_page.FRAMES
    browser.open(path)
    settle(browser)
    nodes = "return document.getElementsByTagName('*').length"
    assert browser.js(nodes) < 1000
    assert not browser.shown("#nothing")
    total = sum(count for _, count in stacks)
    press(browser, "f")
    for text, hit in (("PACKAGE13/", "package13/"), ("orderservice.handle_any_request_777", "OrderService.handle_any_request_777"),
                      ("request_123456 ", "no such"), ("", "")):
        browser.click("#search")
        browser.js("document.getElementById('search').select()")
        browser.press("Backspace", *text)
        settle(browser)
        found = sum(count for stack, count in stacks if hit in stack)
        assert browser.text("#matched") == ("%.1f%% matched" % (100 * found / total) if text else "")
        rows = len(functions(browser))
        assert rows <= 400
        more = re.search(r"and ([\d,]+) more", browser.text("#table"))
        assert rows + (int(more[1].replace(",", "")) if more else 0) == \
            sum(hit in frame for stack, _ in stacks for frame in stack.split(";"))
    assert browser.js(nodes) < 5000
    quiet(browser)


@pytest.fixture
def before_scripts(browser):
    """Scripts that run in every page before its own."""
    added = []

    def add(source):
        answer = browser.post("/goog/cdp/execute", cmd="Page.addScriptToEvaluateOnNewDocument", params={"source": source})
        added.append(answer["identifier"])
    yield add
    for identifier in added:
        browser.post("/goog/cdp/execute", cmd="Page.removeScriptToEvaluateOnNewDocument",
                     params={"identifier": identifier})


def test_cannot_unpack(browser, many, tmp_path, before_scripts):
    """A sentence in place of the picture: of an old browser, of a damaged file, without scripts."""
    path, _ = many
    short = tmp_path / "short.html"
    short.write_text(pages.damaged(path.read_text()))
    browser.open(short)
    browser.wait("return document.getElementById('nothing').innerText.startsWith('The profile in this page is damaged')")
    assert browser.shown("#nothing")
    before_scripts("delete window.DecompressionStream")
    browser.open(path)
    browser.wait("return document.getElementById('nothing').innerText.startsWith('This browser cannot unpack')")
    assert browser.shown("#nothing")
    quiet(browser)


def test_without_script(browser, many):
    browser.post("/goog/cdp/execute", cmd="Emulation.setScriptExecutionDisabled", params={"value": True})
    try:
        browser.open(many[0])
        assert "draws its picture with JavaScript" in browser.text("noscript")
        assert browser.shown("noscript p") and not browser.shown("#nothing")
    finally:
        browser.post("/goog/cdp/execute", cmd="Emulation.setScriptExecutionDisabled", params={"value": False})


def test_moved_directories(browser, any_python, directory):
    """Of a deploy, the page of the differences says what was taken for the same; names stay text."""
    for release, times in ("r1", 1), ("r<img src=x>2", 3):
        (directory / release / "shop").mkdir(parents=True)
        (directory / release / "shop" / "cart.py").write_text(PRICES)
        profile("-F", 999, "-o", directory / ("%d.pb.gz" % times), "--", any_python, "-B",
                directory / release / "shop" / "cart.py", times).ok()
    pair = directory / "1.pb.gz", directory / "3.pb.gz"
    words = "Matched across directories: %s/r1 -> %s/r<img src=x>2" % (directory, directory)
    text = subprocess.run([harness.PYPERF, "diff", *pair], check=True, capture_output=True, text=True).stdout
    assert words + "\n" in text
    for before, after, shown in (*pair, True), (pair[0], pair[0], False):
        subprocess.run([harness.PYPERF, "diff", before, after, "-o", directory / "d.html"], check=True, timeout=60)
        browser.open(directory / "d.html")
        settle(browser)
        assert browser.js("return document.images.length") == 0
        assert browser.js("return document.querySelectorAll('#moved').length") == shown
        if shown:
            assert browser.text("#moved") == words and browser.shown("#moved")
            assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
        quiet(browser)
