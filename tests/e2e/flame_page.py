# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a person does and sees on a page with a flame graph (user/web/flame.html), in a browser."""
import harness

ROW = 20  # of user/web/flame.js


def quiet(browser):
    """Nothing was loaded, nothing was complained of."""
    assert browser.requests() == []
    assert browser.console() == []


def settle(browser):
    harness.poll(lambda: browser.js("return document.documentElement.dataset.state") == "ready",
                 "the page to be drawn")


def matches(browser, text):
    """A search that takes long waits until typing pauses."""
    harness.poll(lambda: browser.text("#matched") == text, repr(text))


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


def table(browser):
    """Its rows, a list of texts each."""
    if not browser.shown("#table"):
        browser.click("[data-view=table]")
    return browser.js("return [...document.querySelectorAll('#table tbody tr')]"
                      ".map(r => [...r.cells].map(c => c.innerText))")


def functions(browser):
    """{name: (self, total)} as the table shows them."""
    return {row[4]: (row[1], row[2]) for row in table(browser)}


def own_times(browser):
    """(name, own time) as the table shows them, in its order."""
    return [(row[4], row[0]) for row in table(browser)]


def is_share(text, share):
    """A text may differ in the last digit, where both round a number that is half way."""
    return 100 * share < 0.05 if text == "<0.1%" else abs(float(text.rstrip("%")) - 100 * share) < 0.0501
