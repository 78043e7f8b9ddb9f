# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The pages: their links lead somewhere, and so does each page and section that a source names."""
import fnmatch
import re
import subprocess

import pytest

from harness import PYPERF, REPO

pytestmark = pytest.mark.host

PAGES = sorted([*REPO.glob("*.md"), *REPO.glob("docs/**/*.md")])
SOURCES = sorted(path for top in ("bpf", "user", "scripts", "tests", "packaging", "completions")
                 for path in (REPO / top).rglob("*")
                 if path.is_file() and "__pycache__" not in path.parts
                 and not {"corpus", "golden"} & set(path.parts)) + [REPO / "Makefile"]

FENCE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
# A page of ours in a comment, and the section in quotation marks that may follow it.
NAMED = re.compile(r"(?<![\w/.])(docs/[\w./-]+\.(?:md|conf|json|svg|[18]))\b(?:, \"([^\"]+)\")?")


def is_in_tree(path):
    return path.exists() and (REPO == path or REPO in path.parents)


def headings(page):
    """The headings of a page, as they are written."""
    return re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text()), re.M)


def anchor(heading):
    """What GitHub and others make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def wrong_link(page, link):
    if re.match(r"[a-z]+:", link):
        return None
    name, _, section = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not is_in_tree(target):
        return "no such file"
    if section and section not in map(anchor, headings(target)):
        return "no such section"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPO)))
def test_links_resolve(page):
    links = LINK.findall(FENCE.sub("", page.read_text()))
    wrong = {link: wrong_link(page, link) for link in links}
    assert {link: why for link, why in wrong.items() if why} == {}


def test_every_page_is_linked():
    """From the README or docs/README.md, by one link or several."""
    seen, waiting = set(), [REPO / "README.md", REPO / "docs/README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for link in LINK.findall(page.read_text()):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.is_file():
                waiting.append(target)
    assert [str(p.relative_to(REPO)) for p in PAGES if p not in seen] == []


def test_what_sources_name():
    """A comment that names a page, and perhaps a section of it, names what is there."""
    wrong, named = [], 0
    for path in SOURCES:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        text = re.sub(r"\n[ \t]*(?:\*|//|#)[ \t]*", " ", text)  # a reference may cross lines
        for name, section in NAMED.findall(text):
            named += 1
            page = REPO / name
            if not page.is_file():
                wrong.append("%s: %s" % (path.relative_to(REPO), name))
            elif section and section not in [h.replace("`", "") for h in headings(page)]:
                wrong.append('%s: %s has no section "%s"' % (path.relative_to(REPO), name, section))
    assert wrong == []
    assert named > 10  # the pattern finds what it looks for


TREES = "bpf|user|scripts|tests|packaging"


def sources_of(page):
    """The paths of sources that a page names: `user/base/str.[ch]` is two of them."""
    for name in re.findall(r"`((?:%s)/[^`\s]*)`" % TREES, page.read_text()):
        if not re.search(r"NAME|COMMIT|[<>{}]", name):
            yield from [name.replace("[ch]", c) for c in "ch"] if "[ch]" in name else [name]


def test_paths_in_pages():
    """A page that names a source names one that is there; `*` is what it is to a shell."""
    named = {(page.relative_to(REPO), name) for page in PAGES for name in sources_of(page)}
    missing = [(page, name) for page, name in named if not any(REPO.glob(name))]
    assert sorted("%s: %s" % pair for pair in missing) == []
    assert len(named) > 50


def listed():
    """The paths of docs/internals/files.md; one without a folder is in that of the one before it."""
    folder = ""
    for row in re.findall(r"^\| (`.*?) \|", (REPO / "docs/internals/files.md").read_text(), re.M):
        for name in re.findall(r"`([^`]+)`", row):
            path = name if re.match("(?:%s)/" % TREES, name) else ("user/" if "/" in name else folder) + name
            folder = path[:path.rfind("/") + 1]
            yield from {path.replace("[ch]", c) for c in "ch"}


def test_every_source_has_a_row():
    """Of bpf/ and user/ in the table of files, and each folder in that of the design."""
    patterns = [path + "*" if path.endswith("/") else path for path in listed()]
    sources = [str(path.relative_to(REPO)) for top in ("bpf", "user") for path in (REPO / top).rglob("*.[ch]")]
    assert sorted(s for s in sources if not any(fnmatch.fnmatch(s, pattern) for pattern in patterns)) == []
    assert len(sources) > 500
    design = (REPO / "docs/design.md").read_text()
    folders = {str(path.relative_to(REPO)) for path in (REPO / "user").iterdir() if path.is_dir()}
    assert sorted(f for f in folders if "`%s/`" % f not in design) == []


PROSE = """# A heading that is longer than the hundred columns which are the limit of all prose on these pages here

A paragraph of one line, which has more than a hundred columns with its `code that stays in one piece` - 1. and more of it.

- An item that is as long, so its second line stands below the first word of it, not below the mark of the item, and so on.
  - Short.

    An example that is longer than a hundred columns, which has to stay as it is, because it may be code of some kind.

| a table | that is longer than a hundred columns, which has to stay as it is, because a row has one line and no more |

- An item with a table:

  | of its own | that is longer than a hundred columns, which has to stay as it is, because a row has one line only |
  |---|---|
"""


def test_prose_wraps(tmp_path):
    """Of prose alone, at 100 columns; a second time it changes nothing."""
    page = tmp_path / "a.md"
    page.write_text(PROSE)
    run = [REPO / "scripts/wrap-docs"]
    assert subprocess.run([*run, "--check", page], capture_output=True, check=False).returncode == 1
    subprocess.run([*run, page], check=True)
    once = page.read_text()
    assert once.split() == PROSE.split()
    before, after = PROSE.splitlines(), once.splitlines()
    assert len(after) == len(before) + 2
    kept = {line for line in before if len(line) > 100 and re.match(r" *[#|]|    ", line)}
    assert {line for line in after if len(line) > 100} == kept and len(kept) == 4
    assert any("`code that stays in one piece` - 1. and" in line for line in after)
    assert subprocess.run([*run, "--check", page], capture_output=True, check=False).returncode == 0


# ---- what the agent says ---------------------------------------------------------------------------

# Folders whose messages reach the agent's log, and their files that the agent does not run.
OF_AGENT = ("agent", "base", "elf", "python", "process", "symbolize", "follow", "sample", "sources", "store")
NOT_OF_AGENT = {
    "process/containers.c": "--container and --pod choose for a command",
    "follow/object_config.c": "-C is of commands",
    "follow/probe_place.c": "no events with arguments",
    "sources/alloc_source.c": "no events with arguments",
    "sources/growth_source.c": "the configuration refuses it",
    "sources/probe_source.c": "no events with arguments",
    "sources/refcount_source.c": "no events with arguments",
    "sources/side_object.c": "of growth and alloc",
    "sources/sources.c": "parses -e",
    "sources/tracepoint_source.c": "no events with arguments",
    "sources/tracker.c": "of growth and alloc",
    "sources/watcher.c": "of alloc and refcount",
}
# Of session.c, what only --cpu and -p lead to.
NOT_OF_AGENT_TEXTS = ("--cpu %s: this machine", "(-a profiles it anyway)", " of --cpu")
LITERAL = r'"(?:[^"\\\\]|\\\\.)*"'
TEXT = re.compile(r"%s(?:\s*(?:PRI\w+|%s))*" % (LITERAL, LITERAL))


def texts_of(path):
    """The string literals of a C file, each with its continuations, without what setting_name() chooses from."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*|^ *#.*?$", "", path.read_text(), flags=re.S | re.M)
    code = re.sub(r"setting_name\([^()]*\)", "", code)
    for text in TEXT.findall(code):
        yield "".join(literal[1:-1] for literal in re.findall(LITERAL, text))


def options_of_record():
    text = subprocess.run([PYPERF, "record", "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", text)) - {"-h", "--help", "--version", "-v", "-q"}


def named_options(text, options):
    """Options in a message; a whole command to run may have some."""
    text = re.sub(r"'?(?:pyperf-bpf|curl|ssh) .*", "", text, flags=re.S)
    return set(re.findall(r"(?<![\w%-])(--?[A-Za-z][\w-]*)", text)) & options


def test_the_agent_names_no_option_of_commands():
    """Its messages and the help of its metrics name keys of agent.conf."""
    options = options_of_record()
    assert {"-F", "-e", "--table-memory", "--comm"} <= options
    wrong, seen = [], 0
    for folder in OF_AGENT:
        for path in sorted((REPO / "user" / folder).rglob("*.c")):
            name = str(path.relative_to(REPO / "user"))
            if name in NOT_OF_AGENT or name == "process/application.c":  # that reads others' command lines
                continue
            for text in texts_of(path):
                seen += 1
                if named_options(text, options) and not any(t in text for t in NOT_OF_AGENT_TEXTS):
                    wrong.append("%s: %s" % (name, text))
    assert seen > 2000 and wrong == []
    assert all((REPO / "user" / name).exists() for name in NOT_OF_AGENT)


def test_the_agent_names_keys_that_it_has():
    """What setting_name() says instead of an option is in docs/agent.conf."""
    keys = re.findall(r"^#?([a-z-]+) =", (REPO / "docs/agent.conf").read_text(), re.M)
    named = [key for path in SOURCES if path.suffix in (".c", ".h") and "user" in path.parts
             for key in re.findall(r'setting_name\("[^"]*",\s*"\'?([a-z-]+) =\'?"\)', path.read_text())]
    assert len(named) >= 3 and set(named) <= set(keys)


def test_readme_is_short():
    """What a reader sees first: three screens, the pictures of scripts/pictures, the two commands that ask for root."""
    text = (REPO / "README.md").read_text()
    assert len(text.splitlines()) < 200
    assert re.findall(r"(?:!\[.*\]\(|srcset=\"|src=\")([^)\"]+)", text) == \
        ["docs/pictures/" + name for name in ("terminal.svg", "page-dark.png", "page.png", "lines.png")]
    for command in ("scripts/run -d 30", "scripts/test"):
        assert re.search(r"^    %s( |$)" % command, text, re.M), command
        script = REPO / command.split()[0]
        assert subprocess.run(["test", "-x", script], check=False).returncode == 0
    assert not re.search(r"sudo scripts/", text)


def blocks(report):
    """The titles of a report's blocks, each with the heads of its columns."""
    lines = report.splitlines()
    return [(line, " ".join(lines[i + 1].split())) for i, line in enumerate(lines[:-1])
            if re.match(r"[A-Z]", line) and re.match(r"  +[A-Z]{3}", lines[i + 1])]


def test_readme_report():
    """What the README shows is what the program prints today: blocks, columns, last line."""
    shown = re.search(r"^    # pyperf-bpf -p .*?\n(?=\S)", (REPO / "README.md").read_text(), re.M | re.S)[0]
    shown = re.sub(r"^    ", "", shown, flags=re.M)
    golden = (REPO / "tests/golden/export/many-80.txt").read_text()
    service = (REPO / "tests/golden/export/service.txt").read_text()
    assert blocks(shown) == blocks(service) and len(blocks(shown)) == 4
    last = re.compile(r"^[\d,]+ samples, none lost(?: \([^()]*\))?, .*; cost [\d.]+% of a CPU$", re.M)
    assert last.search(golden) and last.search(shown)
