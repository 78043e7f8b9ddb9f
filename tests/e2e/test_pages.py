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

import harness
import pages
from harness import HZ, PROGRAMS, Target, profile
from pages import Frame, Kernel, Native, Plumbing

pytestmark = pytest.mark.beside

ROW = 20  # of user/web/flame.js

# 100 samples: main 100 = f 60 (g 40: read 10; self 20) + h 30 + self 10
STACKS = [
    ([Plumbing("_start"), "main:1", Plumbing("call"), "f:11", "g:21"], 30),
    ([Plumbing("_start"), "main:1", Plumbing("call"), "f:11", "g:22", Native("read"),
      Kernel("vfs_read")], 10),
    ([Plumbing("_start"), "main:1", "f:12"], 20),
    ([Plumbing("_start"), "main:2", "Shop.h:31", Plumbing("dict_get")], 30),
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
        profile("-F", HZ, "-d", 2, "--threads", "-p", target.pid, *options).ok()
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


def quiet(browser):
    """Nothing was loaded, nothing was complained of."""
    assert browser.requests() == []
    assert browser.console() == []


def settle(browser):
    harness.poll(lambda: browser.js("return document.documentElement.dataset.state") == "ready",
                 "the page to be drawn")


def press(browser, *keys):
    browser.press(*keys)
    settle(browser)


def point(browser, share, row, click=True):
    """The pointer at a share of the width, in a row from the top."""
    left, top, width = browser.js(
        "const r = document.getElementById('canvas').getBoundingClientRect();"
        "return [r.left, r.top, r.width]")
    browser.mouse(left + share * width, top + (row + 0.5) * ROW, click)
    settle(browser)


def name_at(browser, share, row):
    browser.mouse(2, 2, click=False)  # elsewhere: the tip goes
    point(browser, share, row, click=False)
    return browser.text("#tip b") if browser.shown("#tip") else None


def functions(browser):
    """{name: (self, total)} as the table shows them."""
    if not browser.shown("#table"):
        browser.click("[data-view=table]")
    rows = browser.js("return [...document.querySelectorAll('#table tbody tr')]"
                      ".map(r => [...r.cells].map(c => c.innerText))")
    return {row[3]: (row[0], row[1]) for row in rows}


def test_zoom(show):
    browser = show(STACKS)
    assert name_at(browser, 0.3, 0) == "all"
    assert name_at(browser, 0.3, 1) == "main"
    assert [name_at(browser, share, 2) for share in (0.3, 0.7, 0.95)] == ["f", "Shop.h", None]
    point(browser, 0.3, 2)
    assert browser.text("#path").split() == ["all", "›", "main", "›", "f"]
    assert browser.js("return document.title").startswith("f 60.0% —")
    assert [name_at(browser, share, 3) for share in (0.3, 0.9)] == ["g", None]
    detail = browser.text("#detail")
    assert "/srv/shop/app.py" in detail and "60 samples, 0.60 s" in detail
    assert re.search(r"Self\s+20.0%", detail) and re.search(r"Of the caller\s+60.0%", detail)
    # the lines of the function, hottest first
    assert browser.text("#lines tbody").split() == ["app.py:12", "20.0%", "20.0%",
                                                    "app.py:11", "0.0%", "40.0%"]
    press(browser, "Escape")
    assert not browser.shown("#path")
    assert name_at(browser, 0.7, 2) == "Shop.h"


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
    assert browser.text("#matched") == "30.0% matched"
    browser.click("#regex")
    browser.type("#search", "$|^g")
    assert browser.text("#matched") == "70.0% matched"
    browser.type("#search", "(")
    assert browser.text("#matched") == "not an expression"
    browser.press("Escape")
    assert browser.text("#matched") == ""
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
    assert browser.text("#matched") == "10.0% matched"
    browser.click("[data-kind='2']")
    browser.click("[data-kind='3']")
    assert browser.text("#matched") == "0.0% matched"


def test_hide(show):
    browser = show(STACKS)
    # plumbing is hidden from the start, but not what the interpreter does itself
    assert functions(browser) == {
        "main": ("10.0%", "100.0%"), "f": ("20.0%", "60.0%"), "g": ("30.0%", "40.0%"),
        "Shop.h": ("0.0%", "30.0%"), "dict_get": ("30.0%", "30.0%"),
        "read": ("0.0%", "10.0%"), "vfs_read": ("10.0%", "10.0%")}
    browser.click("[data-kind=plumbing]")
    assert functions(browser)["call"] == ("0.0%", "40.0%")
    browser.click("[data-kind=plumbing]")
    browser.click("[data-kind='3']")
    assert functions(browser)["read"] == ("10.0%", "10.0%")
    browser.click("[data-kind='2']")
    shown = functions(browser)
    assert shown["g"] == ("40.0%", "40.0%") and shown["Shop.h"] == ("30.0%", "30.0%")
    assert not {"read", "dict_get", "vfs_read"} & set(shown)
    assert browser.js("return document.querySelector('[data-kind=\"2\"]').ariaPressed") == "false"
    press(browser, "n", "k", "f")
    assert [name_at(browser, 0.01, row) for row in (3, 4, 5)] == ["g", "read", "vfs_read"]


def test_invert(show):
    browser = show(STACKS)
    browser.click("#invert")
    settle(browser)
    # what ran, heaviest first: g 30, dict_get 30, f 20, vfs_read 10, main 10
    names = [name_at(browser, share, 1) for share in (0.15, 0.45, 0.7, 0.85, 0.95)]
    assert set(names[:2]) == {"g", "dict_get"} and names[2] == "f"
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
    shown = functions(browser)
    names = {f.name for s in stacks for f in s.python()}
    assert names
    for name in names:
        share = harness.share(stacks, lambda s: name in {f.name for f in s.python()})
        if len({f.file for s in stacks for f in s.python() if f.name == name}) == 1:
            # As text it may differ in the last digit, where both round a number that is half way.
            text = shown[name][1]
            assert (100 * share < 0.05 if text == "<0.1%" else
                    abs(float(text.rstrip("%")) - 100 * share) < 0.0501), (name, text, share)
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


def test_source_of_a_liar(any_python, directory):
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
    for name in ("liar.py", "common.py"):
        shutil.copy(PROGRAMS / name, directory)
    out = directory / "cpu.lines.html"
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with Target(any_python, directory / "liar.py", *(directory / name for name in secrets),
                prefix=nobody) as target:
        profile("-F", HZ, "-d", 2, "-p", target.pid, "-o", out).ok()
    text = out.read_text()
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
