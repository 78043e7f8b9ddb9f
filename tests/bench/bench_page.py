#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Measure how fast the flame graph page is in a browser (headless Chromium, driven by chromedriver).

    tests/bench/bench_page.py                   pages made of 200,000 frames in two shapes
    tests/bench/bench_page.py A.html B.html     these pages, in turn; of an older program, too

Shapes: "functions", 200,000 functions that are called once each; "tree", 200,000 places in the call tree of 4,000
functions. A page is made by `report` from folded stacks that are the same each time.

Prints the size of the file, the time from opening it to the first picture, and from a key to the picture that follows:
each key of a search, a search that is made shorter, a zoom, and views that are computed anew. Medians of --rounds, in
milliseconds. Another page is opened in between, so that nothing of a page is left.
"""
import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
sys.dont_write_bytecode = True

import harness  # noqa: E402
import webdriver  # noqa: E402

FRAMES = 200000
SITE = "/srv/app/venv/lib/python3.11/site-packages"

# Runs before the page's script: notes when the picture is drawn, and when a key was pressed.
CLOCK = """
    window.drawn = [];
    window.keyed = 0;
    new MutationObserver(() => {
      if (document.documentElement.dataset.state === "ready")
        window.drawn.push(performance.now());
    }).observe(document, { attributes: true, attributeFilter: ["data-state"], subtree: true });
    window.addEventListener("keydown", () => { window.drawn = []; window.keyed = performance.now(); }, true);
"""


def frame(number):
    return "OrderService.handle_any_request_%d (%s/package%d/handlers/module_%d.py:%d)" % (
        number, SITE, number % 97, number % 499, 1 + number * 7 % 900)


def functions(count):
    """Each function once, twenty to a stack."""
    for first in range(0, count, 20):
        yield ";".join(frame(n) for n in range(first, min(first + 20, count))), 1 + first * 31 % 19


def tree(count):
    """Walks through a call graph of 4,000 functions until their tree has so many places."""
    chance, seen = random.Random(7), set()
    names = [frame(n) for n in range(4000)]
    while len(seen) < count:
        at, path = chance.randrange(3), ()
        for _ in range(5 + chance.randrange(40)):
            path += at,
            seen.add(path)
            at = (at * 31 + (0 if chance.randrange(3) else chance.randrange(4)) + 17) % len(names)
        yield ";".join(names[n] for n in path), 1 + chance.randrange(20)


SHAPES = {"functions": functions, "tree": tree}


def make(shape, path, count=FRAMES, program=harness.PYPERF):
    """Writes the page of a shape; the bytes of the folded stacks that it is made of."""
    folded = path.with_suffix(".folded")
    folded.write_text("".join("%s %d\n" % line for line in SHAPES[shape](count)))
    size = folded.stat().st_size
    subprocess.run([program, "report", folded, "-o", path], check=True, stdout=subprocess.DEVNULL)
    folded.unlink()
    return size


def clock(browser):
    """Every page that is opened from now on has the clock."""
    browser.post("/goog/cdp/execute", cmd="Page.addScriptToEvaluateOnNewDocument", params={"source": CLOCK})


def first_picture(browser, path):
    browser.go("about:blank")
    browser.open(path)
    return browser.wait("return window.drawn[0]")


def keys(browser, *pressed):
    """Milliseconds from the last of these keys to the picture that stays."""
    browser.press(*pressed)
    return browser.wait(
        "return document.documentElement.dataset.state === 'ready' && window.drawn.length"
        " && window.drawn[window.drawn.length - 1] - window.keyed")


STEPS = [("search h", "h"), ("search ha", "a"), ("search han", "n"), ("search hand", "d"), ("search ha again", "Backspace", "Backspace"),
         ("no search", "Backspace", "Backspace"), ("callers", "Escape", "v"), ("callees", "v"), ("table", "f"), ("picture", "f")]


def measure(browser, path):
    """{step: milliseconds}"""
    times = {"first picture": first_picture(browser, path)}
    browser.press("/")
    for name, *pressed in STEPS:
        times[name] = keys(browser, *pressed)
    return times


def show(paths, rounds):
    widths = [max(len(p.name), 12) for p in paths]
    print("%-22s" % "" + "".join("  %*s" % (w, p.name) for w, p in zip(widths, paths)))
    print("%-22s" % "file, KiB" + "".join("  %*d" % (w, p.stat().st_size / 1024) for w, p in zip(widths, paths)))
    for step in rounds[0][0]:
        medians = [statistics.median(r[i][step] for r in rounds) for i in range(len(paths))]
        print("%-22s" % step + "".join("  %*.0f" % (w, m) for w, m in zip(widths, medians)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE.html")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if isinstance(webdriver.find(), str):
        sys.exit("tests/bench/bench_page.py: " + webdriver.find())
    with tempfile.TemporaryDirectory(prefix="pyperf-bench-") as directory:
        paths = options.pages or [Path(directory) / (shape + ".html") for shape in SHAPES]
        for path in [] if options.pages else paths:
            print("%s: %d KiB of folded stacks" % (path.name, make(path.stem, path) / 1024))
        with webdriver.Browser() as browser:
            clock(browser)
            show(paths, [[measure(browser, p) for p in paths] for _ in range(options.rounds)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
