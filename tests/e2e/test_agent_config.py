# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's configuration: what is refused, what is said about it, what is printed."""
import os
import re
import subprocess
import time

import pytest

from agent_runs import agents, run_agent  # noqa: F401: fixtures
from harness import PYPERF, REPO, clean_environment

pytestmark = pytest.mark.beside


@pytest.mark.parametrize("text,said", [
    ("[agent]\nwindow = 5\n", "a.conf:2: window: seconds, from 10 to 60"),
    ("[agent]\nwindow = 60\n\n[lables]\nhost = x\n", "a.conf:5: lables: there is no such section"),
    ("window = 60\n", "a.conf:1: window: stands in no section"),
])
def test_bad_configurations(tmp_path, text, said):
    path = tmp_path / "a.conf"
    path.write_text(text)
    for options in (["--check-config"], []):
        result = subprocess.run([PYPERF, "agent", "--config", path, *options], capture_output=True, text=True,
                                env=clean_environment(), check=False)
        assert result.returncode == 1
        assert result.stderr.count(said) == 1 and result.stdout == ""


def test_secrets_that_everyone_can_read(agents, tmp_path):
    files = {name: tmp_path / name for name in ("token", "tls_key", "header", "header2", "bearer", "password", "key", "certificate")}
    for file in files.values():
        file.write_text("x")
    config = """[http]\nlisten = %s\ntoken-file = {token}\n%s
[push.a]\nkind = put\nurl = https://127.0.0.1:1/{{id}}\nheader-file = X-A: {header}\nheader-file = X-B: {header2}
username = x\npassword-file = {password}\ncert-file = {certificate}\nkey-file = {key}
[push.b]\nkind = put\nurl = https://127.0.0.1:1/{{id}}\nbearer-token-file = {bearer}
"""
    keys = {"http": ("token", "tls_key"), "push.a": ("header", "header2", "password", "key"), "push.b": ("bearer",)}
    path = tmp_path / "a.conf"

    def said():
        path.write_text((config % ("127.0.0.1:4041", "tls-cert = {certificate}\ntls-key = {tls_key}")).format(**files))
        result = subprocess.run([PYPERF, "agent", "--check-config", "--config", path], capture_output=True, text=True,
                                env=clean_environment(), check=False)
        assert result.returncode == 0, result.stderr
        return [line for line in result.stderr.splitlines() if "configuration is valid" not in line]

    for mode, bad in ((0o644, True), (0o604, True), (0o640, False), (0o600, False)):
        for file in files.values():
            file.chmod(mode)
        files["certificate"].chmod(0o644)
        lines = said()
        for section, names in keys.items() if bad else ():
            for name in names:
                line, = [s for s in lines if "%s (mode %04o): chmod 600 %s" % (files[name], mode, files[name]) in s]
                assert "[%s] " % section in line
        assert len(lines) == (7 if bad else 0), lines
    for name, secret in (("Authorization", True), ("x-api-key", True), ("X-Scope-OrgID", False), ("X-A", False)):
        path.write_text("[push.a]\nkind = put\nurl = https://127.0.0.1:1/{id}\nheader = %s: token\n" % name)
        for mode in (0o644, 0o640):
            path.chmod(mode)
            result = subprocess.run([PYPERF, "agent", "--check-config", "--config", path], capture_output=True,
                                    text=True, env=clean_environment(), check=False)
            bad = "[push.a] header: every user of this host can read %s (mode 0644): chmod 600 %s" % (path, path)
            assert (bad in result.stderr) == (secret and mode == 0o644), result.stderr
            assert result.returncode == 0 and ": token" not in result.stderr
    files["token"].chmod(0o644)
    agent = agents("[http]\ntoken-file = %s\n" % files["token"])
    agent.stop()
    assert sum("chmod 600 %s" % files["token"] in m for m in agent.messages("warning")) == 1


def test_example_configuration(tmp_path):
    """As it is, and with all its keys: everything that it shows can be set."""
    example = REPO / "docs" / "agent.conf"
    every = tmp_path / "a.conf"
    text = re.sub(r"^#(\w[\w.-]* = .*)", r"\1", example.read_text(encoding="utf-8"), flags=re.M)
    # Its files are not on this machine.
    for name in ("token", "tls.crt", "tls.key"):
        (tmp_path / name).touch(0o600)
    (tmp_path / "windows").mkdir()
    every.write_text(text.replace("/etc/pyperf-bpf/", "%s/" % tmp_path).replace("/var/tmp/", "%s/" % tmp_path))
    for path in (example, every):
        result = subprocess.run([PYPERF, "agent", "--check-config", "--config", path], capture_output=True, text=True,
                                env=clean_environment(), check=False)
        assert result.returncode == 0, result.stderr
    page = (REPO / "docs" / "pyperf-bpf-agent.8").read_text(encoding="utf-8").replace("\\-", "-")
    for key in re.findall(r"^([\w-]+) = ", text, re.M):
        assert "\\fB%s\\fR" % key in page, "%s is not in the manual" % key


def test_printed_configuration(tmp_path):
    """The one in effect, which reads back as the same; also without a file."""
    path, printed = tmp_path / "a.conf", tmp_path / "b.conf"
    path.write_text("[agent]\nwindow = 30\n[push.a]\nkind = put\nurl = https://h/{id}\nheader = X-Key: secret\n")
    first = run_agent("--config", path, "--print-config")
    assert first.returncode == 0 and first.stderr == "", first
    assert "window = 30s\n" in first.stdout and "frequency = 19Hz\n" in first.stdout and "secret" not in first.stdout
    printed.write_text(first.stdout)
    assert run_agent("--config", printed, "--print-config").stdout == first.stdout
    path.write_text("")
    assert run_agent("--config", path, "--print-config").stdout == re.sub(r"(?s)\n\[push.*", "", first.stdout).replace(
        "window = 30s", "window = 60s")


def test_what_check_config_says_of_files_groups_and_keys(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("[agent]\nwindow = 30\nwindow = 20\ngroup = servce_name\n[http]\ntoken-file = %s/none\n" % tmp_path)
    result = run_agent("--config", path, "--check-config")
    assert result.returncode == 1
    for said in ("a.conf:3: window: line 2 sets it already: remove one of the two",
                 "a.conf:4: group: there is no label 'servce_name': ",
                 "a.conf:6: token-file: %s/none: No such file or directory: make it, or correct the path" % tmp_path):
        assert result.stderr.count(said) == 1, result.stderr
    path.write_text("[http]\ntoken-file = %s/none\n" % tmp_path)
    result = run_agent("--config", path, "--check-config")
    assert result.returncode == 1 and "a.conf:2: token-file" in result.stderr and "configuration is valid" not in result.stderr


def test_good_configuration_and_none(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("[agent]\nwindow = 60\n")
    result = subprocess.run([PYPERF, "agent", "--config", path, "--check-config"], capture_output=True, text=True,
                            env=clean_environment(), check=False)
    assert result.returncode == 0 and "configuration is valid" in result.stderr
    path.unlink()
    result = subprocess.run([PYPERF, "agent", "--config", path], capture_output=True, text=True,
                            env=clean_environment(), check=False)
    assert result.returncode == 1 and "a.conf: No such file or directory" in result.stderr


CLOSED = {"LoadState": "loaded", "PrivateNetwork": "yes", "RestrictAddressFamilies": "AF_UNIX",
          "IPAddressDeny": "::/0 0.0.0.0/0", "IPAddressAllow": ""}
OPEN = {**CLOSED, "PrivateNetwork": "no", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "IPAddressDeny": ""}
PUSHES = "[push.central]\nkind = put\nurl = https://h/{id}\n"


@pytest.fixture
def told_by_systemd(tmp_path):
    """Checks a configuration where systemctl tells this of the unit, which reads that configuration."""
    path, bin_dir = tmp_path / "a.conf", tmp_path / "bin"
    bin_dir.mkdir()
    path.write_text(PUSHES)

    def check(unit, program="cat %(told)s", config=path, reads=path):
        argv = "/usr/bin/pyperf-bpf agent" + (" --config %s" % reads if reads else "")
        lines = {"ExecStart": "{ path=/usr/bin/pyperf-bpf ; argv[]=%s ; ignore_errors=no ; pid=0 }" % argv, **unit}
        (tmp_path / "told").write_text("".join("%s=%s\n" % line for line in lines.items()))
        systemctl = bin_dir / "systemctl"
        systemctl.write_text("#!/bin/sh\n[ \"$*\" = \"--no-pager show --property %s pyperf-bpf-agent.service\" ] || exit 1\n%s\n" % (
            "LoadState,ExecStart,PrivateNetwork,RestrictAddressFamilies,IPAddressDeny,IPAddressAllow",
            program % {"told": tmp_path / "told", "pid": tmp_path / "pid"}))
        systemctl.chmod(0o755)
        result = run_agent("--config", config, "--check-config", PATH="%s:%s" % (bin_dir, os.environ["PATH"]))
        assert result.returncode == 0 and result.stderr.count("configuration is valid") == 1, result.stderr
        return [line for line in result.stderr.splitlines() if "has no network" in line]

    return check


@pytest.mark.parametrize("closes,unit", [
    ("PrivateNetwork", CLOSED),
    ("RestrictAddressFamilies", {**CLOSED, "PrivateNetwork": "no"}),
    ("RestrictAddressFamilies", {**OPEN, "RestrictAddressFamilies": "~AF_INET AF_INET6"}),
    ("IPAddressDeny", {**OPEN, "IPAddressDeny": "::/0 0.0.0.0/0"}),
    (None, OPEN),
    (None, {**OPEN, "RestrictAddressFamilies": "~AF_PACKET AF_INET"}),
    (None, {**OPEN, "IPAddressDeny": "::/0 0.0.0.0/0", "IPAddressAllow": "192.0.2.10/32"}),
    (None, {**CLOSED, "LoadState": "not-found"}),
    (None, {"LoadState": "loaded"}),
])
def test_unit_without_a_network(told_by_systemd, closes, unit):
    said = told_by_systemd(unit)
    assert len(said) == (closes is not None), said
    for line in said:
        assert "a.conf: [push.central]: pyperf-bpf-agent.service has no network (%s=): " % closes in line
        assert "push.conf" in line and "/etc/systemd/system/pyperf-bpf-agent.service.d/" in line and "daemon-reload" in line


def test_configuration_that_is_not_the_units(told_by_systemd, tmp_path):
    """One that another agent reads, and one without destinations, which need no network."""
    other = tmp_path / "b.conf"
    other.write_text(PUSHES)
    assert told_by_systemd(CLOSED, config=other) == []
    assert told_by_systemd(CLOSED, reads=None) == []
    assert len(told_by_systemd(CLOSED, config=other, reads=other)) == 1
    other.write_text("[http]\nlisten = 127.0.0.1:4041\n")
    assert told_by_systemd(CLOSED, config=other, reads=other) == []


@pytest.mark.parametrize("program", [
    "cat %(told)s; exit 1",
    "cat /dev/zero",
    "cat %(told)s; echo $$ >%(pid)s; exec sleep 1000",
])
def test_systemctl_that_fails(told_by_systemd, tmp_path, program):
    """Nothing is said, and nobody waits for it."""
    begin = time.monotonic()
    assert told_by_systemd(CLOSED, program=program) == []
    assert time.monotonic() - begin < 60
    if (tmp_path / "pid").exists():
        pid = int((tmp_path / "pid").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_machine_without_systemd(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text(PUSHES)
    result = run_agent("--config", path, "--check-config", PATH=str(tmp_path))
    assert result.returncode == 0 and "network" not in result.stderr, result.stderr
