# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""scripts/pictures, and what it has made: docs/pictures."""
import importlib.machinery
import importlib.util
import re
import xml.etree.ElementTree as xml

import pytest

import webdriver
from harness import REPO

pytestmark = pytest.mark.host

MADE = REPO / "docs" / "pictures" / "terminal.svg"
SVG = "{http://www.w3.org/2000/svg}"
AT = """
for (const a of document.getAnimations()) { a.pause(); a.currentTime = arguments[0] * 1000; }
return [...document.querySelectorAll('text')].filter(t => getComputedStyle(t).opacity > 0.5)
    .map(t => [t.getBoundingClientRect().top, [...t.children].map(s => s.textContent)])"""
LENGTH = "return Math.max(...document.getAnimations().map(a => a.effect.getTiming().duration)) / 1000"


@pytest.fixture(scope="module")
def pictures():
    loader = importlib.machinery.SourceFileLoader("pictures", str(REPO / "scripts" / "pictures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser():
    if isinstance(webdriver.find(), str):
        pytest.skip(webdriver.find())
    with webdriver.Browser() as browser:
        browser.post("/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": [
            {"name": "prefers-reduced-motion", "value": "no-preference"}]})
        yield browser


def words(lines):
    """Of each line that is not empty: what stands together."""
    return [re.split(r" {2,}", line.strip()) for line in lines if line.strip()]


def shown(browser, seconds):
    rows = sorted(browser.js(AT, seconds))
    return words(["  ".join(spans) for _, spans in rows])


@pytest.fixture
def terminal(pictures, tmp_path):
    """A shell that has said two things, after a line that was written over."""
    env = {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "PS1": "# ", "ENV": "", "LANG": "C.UTF-8", "HOME": str(tmp_path)}
    terminal = pictures.Terminal(80, 24, env)
    terminal.until("# ")
    terminal.type(r"printf '1 of 2\r'; sleep .3; printf '2 of 2\r\033[K\033[1m<b>\033[0m  caf\303\251\n'", pause=0.001)
    terminal.until("\n# ")
    yield terminal
    terminal.close()


def test_screen(terminal):
    """Text, colours, erased lines and characters of several bytes, as a terminal has them."""
    assert terminal.lines()[1:] == ["<b>  caf\u00e9", "#"]
    assert terminal.screen[1][0] == ("<", "1") and terminal.screen[1][5] == ("c", "")
    assert any("".join(c for c, _ in screen[1].values()) == "1 of 2" for _, screen in terminal.states if len(screen) > 1)


def test_animation(pictures, terminal, browser, tmp_path):
    """Each state is shown at its time, and the last one at the end; nothing in it runs or loads."""
    path = tmp_path / "terminal.svg"
    path.write_text(pictures.animation(terminal.states, 80))
    xml.parse(path)
    browser.open(path)
    end = browser.js(LENGTH)
    assert shown(browser, end - 0.5) == words(terminal.lines())
    states = pictures.without_pause(terminal.states)
    compared = []
    for (seconds, screen), (until, _) in zip(states, states[1:]):
        if until - seconds > 0.2:
            compared.append(screen)
            lines = ["".join(line.get(c, " ")[0] for c in range(max(line, default=-1) + 1)) for line in screen]
            assert shown(browser, (seconds + until) / 2) == words(lines)
    assert compared and browser.console() == []


def test_committed(browser):
    """Small, without a script or a request, and what README.md shows."""
    assert MADE.stat().st_size < 100 << 10
    tree = xml.parse(MADE)
    for element in tree.iter():
        assert element.tag.startswith(SVG) and element.tag not in (SVG + "script", SVG + "image", SVG + "use", SVG + "a")
        assert not any("href" in name or name.startswith("on") for name in element.keys())
    assert "url(" not in re.sub(r'clip-path="url\(#screen\)"', "", MADE.read_text())
    lines = ["  ".join(span.text for span in text) for text in tree.iter(SVG + "text")]
    readme = (REPO / "README.md").read_text()
    block = readme.partition("<!-- scripts/pictures: begin -->\n")[2].partition("<!-- scripts/pictures: end -->")[0]
    for line in words(block.splitlines()):
        assert line in words(lines) or line == ["[...]"]
    for name in "page.png", "page-dark.png", "lines.png":
        assert (REPO / "docs" / "pictures" / name).stat().st_size < 150 << 10
    browser.open(MADE)
    colours = []
    for dark in False, True:
        browser.dark(dark)
        colours.append(browser.js("const of = (s) => getComputedStyle(document.querySelector(s)).fill;"
                                  "return [of('text'), of('.back')]"))
    assert colours[0][0] != colours[1][0] and colours[0][1] != colours[1][1]
