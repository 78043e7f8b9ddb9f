# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make install`, and what it installs: manual pages that are found, completions; the help."""
import os
import re
import shlex
import stat
import subprocess

import pytest

import harness
from harness import REPO

pytestmark = pytest.mark.beside

# `make check` sees to it that every command has a page.
PAGES = sorted((REPO / "docs").glob("pyperf-bpf*.[18]"))
COMMANDS = [p.stem[len("pyperf-bpf-"):] for p in PAGES if p.stem != "pyperf-bpf"]


def run(*args, **kwargs):
    return subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=120,
                          **kwargs)


def make(*args, **env):
    done = run("make", "-s", "-C", REPO, *args,
               env={**{k: v for k, v in os.environ.items() if not k.startswith("MAKE")}, **env})
    assert done.returncode == 0, done


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    dest = tmp_path_factory.mktemp("dest")
    make("install", "DESTDIR=%s" % dest, "PREFIX=/usr")
    return dest / "usr"


def test_files(installed):
    files = {str(p.relative_to(installed)): stat.S_IMODE(p.stat().st_mode)
             for p in installed.rglob("*") if p.is_file()}
    assert files == {
        "bin/pyperf-bpf": 0o755,
        "libexec/pyperf-bpf/pyperf-bpf-agent": 0o755,
        "share/bash-completion/completions/pyperf-bpf": 0o644,
        "share/zsh/site-functions/_pyperf-bpf": 0o644,
        "share/fish/vendor_completions.d/pyperf-bpf.fish": 0o644,
        "lib/systemd/system/pyperf-bpf-agent.service": 0o644,
        "lib/systemd/system/pyperf-bpf-agent.socket": 0o644,
        "share/doc/pyperf-bpf/examples/agent.conf": 0o644,
        "share/doc/pyperf-bpf/examples/push.conf": 0o644,
        "share/pyperf-bpf/names": 0o644,
        **{"share/man/man%s/%s" % (p.suffix[1], p.name): 0o644 for p in PAGES},
    }
    assert run(installed / "bin/pyperf-bpf", "--version").stdout.startswith("pyperf-bpf ")


def has_symbols(program):
    return ".symtab" in run("readelf", "-SW", program).stdout


def test_programs_are_stripped(installed, tmp_path):
    make("install", "DESTDIR=%s" % tmp_path, "PREFIX=/usr", "STRIP=")
    for program in "bin/pyperf-bpf", "libexec/pyperf-bpf/pyperf-bpf-agent":
        assert not has_symbols(installed / program) and has_symbols(tmp_path / "usr" / program)


@pytest.mark.parametrize("prefix", ["/usr", "/opt/x"])
def test_uninstall_removes_what_install_put(tmp_path, prefix):
    """And nothing else: not the directories that others use, nor what others put into ours."""
    args = "DESTDIR=%s" % tmp_path, "PREFIX=%s" % prefix
    kept = tmp_path / prefix[1:] / "share/doc/pyperf-bpf/of-others"
    kept.parent.mkdir(parents=True)
    kept.touch()
    make("install", *args)
    unit = (tmp_path / prefix[1:] / "lib/systemd/system/pyperf-bpf-agent.service").read_text()
    assert "\nExecStart=%s/bin/pyperf-bpf agent\n" % prefix in unit
    make("uninstall", *args)
    assert [p for p in tmp_path.rglob("*") if not p.is_dir()] == [kept]
    assert [p for p in tmp_path.rglob("*pyperf*") if p.is_dir()] == [kept.parent]
    kept.unlink()
    make("uninstall", *args)
    assert not list(tmp_path.rglob("*pyperf*")) and (tmp_path / prefix[1:] / "bin").is_dir()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_of_a_checkout(page):
    if not harness.find_tool("man"):
        pytest.skip("man is not installed")
    done = run("man", "-l", "docs/%s" % page.name, cwd=REPO, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and not done.stderr and len(done.stdout.splitlines()) > 30, done


def test_package_says_what_is_missing(tmp_path):
    """make-deb without dpkg-dev."""
    for name in os.listdir("/usr/bin"):
        if name != "dpkg-shlibdeps":
            (tmp_path / name).symlink_to("/usr/bin/" + name)
    done = run(REPO / "scripts/make-deb", tmp_path, env={**os.environ, "PATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    assert "dpkg-shlibdeps" in done.stderr and "apt-get install dpkg-dev" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_manual(installed, command):
    if not harness.find_tool("man"):
        pytest.skip("man is not installed")
    page = run("man", "-M", installed / "share/man", "pyperf-bpf-" + command,
               env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    assert page.returncode == 0 and len(page.stdout.splitlines()) > 30, page
    assert "--verbose" in page.stdout


def test_help():
    """Each fits a screen and names what it can do; a wrong word is answered by the right one."""
    overview = run(harness.PYPERF, "--help")
    assert run(harness.PYPERF, "help").stdout == run(harness.PYPERF, "-h").stdout == overview.stdout
    for command in COMMANDS:
        assert re.search(r"^  %s +\w" % command, overview.stdout, re.M)
        text = run(harness.PYPERF, "help", command)
        assert text.returncode == 0 and not text.stderr
        assert text.stdout == run(harness.PYPERF, command, "--help").stdout
        assert "\nExamples\n" in text.stdout
        for line in (lines := text.stdout.splitlines()):
            assert len(line) <= 80, line
        assert len(lines) <= 40
    assert len(overview.stdout.splitlines()) <= 40
    done = run(harness.PYPERF, "reprot", "x.pb.gz")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "'report'" in done.stderr


# ---- completions ---------------------------------------------------------------------------------

def complete_bash(installed, *words):
    """What a bash that has loaded the file offers for the last word."""
    code = "source %s; complete -p pyperf-bpf >/dev/null || exit 1; " \
           "COMP_WORDS=(%s); COMP_CWORD=%d; _pyperf_bpf pyperf-bpf; " \
           "printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
               shlex.quote(str(installed / "share/bash-completion/completions/pyperf-bpf")),
               " ".join(map(shlex.quote, ("pyperf-bpf",) + words)), len(words))
    done = run("bash", "--norc", "-c", code, cwd=installed)
    assert done.returncode == 0 and not done.stderr, done
    return set(done.stdout.split())


def complete_fish(installed, *words):
    if not harness.find_tool("fish"):
        pytest.skip("fish is not installed")
    done = run("fish", "--no-config", "-c", "source %s; complete -C %s" % (
        shlex.quote(str(installed / "share/fish/vendor_completions.d/pyperf-bpf.fish")),
        shlex.quote(" ".join(("pyperf-bpf",) + words))), cwd=installed)
    assert done.returncode == 0 and not done.stderr, done
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


# zsh completes on a terminal only: scripts/check-source looks at its syntax.
SHELLS = [complete_bash, complete_fish]


@pytest.mark.parametrize("complete", SHELLS)
def test_completes_commands(installed, complete):
    assert set(COMMANDS + ["help"]) <= complete(installed, "")


@pytest.mark.parametrize("complete", SHELLS)
@pytest.mark.parametrize("command", COMMANDS)
def test_completes_options(installed, complete, command):
    listed = re.findall(r"^ {2,6}(?:-\w, )?--.*", run(harness.PYPERF, command, "--help").stdout, re.M)
    # Two may share a line. One that a text speaks of stands behind a single blank.
    want = {name for line in listed for name in re.findall(r"(?:^|  )\s*(?:-\w, )?(--[a-z-]+)", line)}
    got = {word for word in complete(installed, command, "--") if word.startswith("--")} - {"--"}
    assert got == want


def test_completes_values(installed):
    (installed / "x.pb.gz").touch()
    try:
        for complete in complete_bash, complete_fish:
            assert "x.pb.gz" in complete(installed, "report", "x")
            assert "x.pb.gz" in complete(installed, "diff", "-o", "x")
        pid = str(os.getpid())
        for complete in complete_bash, complete_fish:
            for words in ["-p"], ["record", "-p"], ["top", "-p"], ["check", "--pid"], ["dump"]:
                assert pid in complete(installed, *words, pid[:1]), words
                assert "x.pb.gz" not in complete(installed, *words, "x"), words
            assert "x.pb.gz" not in complete(installed, "top", "x")
        assert "--frequency" in complete_bash(installed, "--f")
        assert {"--threads", "--type"} & complete_bash(installed, "--t") == {"--threads"}
        assert "true" in complete_bash(installed, "-d", "5", "--", "tru")
        assert complete_bash(installed, "help", "rep") == {"report"}
    finally:
        (installed / "x.pb.gz").unlink()
