# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the agent is installed with: the systemd unit, the Debian package, the container and the manifest."""
import os
import platform
import re
import stat
import subprocess

import pytest

import harness
import test_hardening as hardening
from harness import REPO

pytestmark = pytest.mark.host

UNIT = REPO / "packaging/systemd/pyperf-bpf-agent.service"
SOCKET = UNIT.with_suffix(".socket")
PUSH = UNIT.with_name("push.conf")
DOCKERFILE = REPO / "packaging/container/Dockerfile"
MANIFEST = REPO / "packaging/kubernetes/daemonset.yaml"


def run(*args, **kwargs):
    kwargs.setdefault("timeout", harness.PATIENCE * 2)
    return subprocess.run(list(map(str, args)), capture_output=True, text=True, **kwargs)


def unit_values(key):
    return re.findall(r"^%s=(.*)$" % key, UNIT.read_text(), re.M)


def needed():
    """What the program itself keeps."""
    table = (REPO / "user/base/rights.c").read_text().split("rights__needed[] = {")[1].split("};")[0]
    return set(re.findall(r'"(CAP_[A-Z_]+)"', table))


def manifests():
    yaml = harness.import_pure("yaml")
    return {doc["kind"]: doc for doc in yaml.safe_load_all(MANIFEST.read_text())}


def container():
    spec = manifests()["DaemonSet"]["spec"]["template"]["spec"]
    return spec, spec["containers"][0]


# ---- capabilities, written in four places --------------------------------------------------------

def test_capabilities_are_the_same_everywhere():
    assert "CAP_BPF" in needed() and len(needed()) == 6
    want = needed() | {"CAP_SYS_ADMIN"}  # until its events are open: user/follow/perf.h
    for key in "AmbientCapabilities", "CapabilityBoundingSet":
        assert set(" ".join(unit_values(key)).split()) == want, key
    assert {"CAP_" + c for c in re.findall(r"--cap-add=(\w+)", DOCKERFILE.read_text())} == want
    assert "--cap-drop=ALL" in DOCKERFILE.read_text()
    capabilities = container()[1]["securityContext"]["capabilities"]
    assert {"CAP_" + c for c in capabilities["add"]} == want and capabilities["drop"] == ["ALL"]


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_capabilities_are_enough():
    """A user with just these lacks nothing that `check` asks for, under no_new_privs."""
    if not harness.find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    caps = ",".join("+" + c[4:].lower() for c in sorted(needed()))
    done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
               "--bounding-set=-all," + caps, "--inh-caps=-all," + caps, "--ambient-caps=-all," + caps,
               harness.PYPERF, "check")
    assert done.returncode == 0, done
    for cap in needed():
        assert not re.search(r"(missing|no|lacks?) .*%s" % cap, done.stdout), done.stdout


# ---- systemd -------------------------------------------------------------------------------------

def exposure(done):
    return float(re.search(r"Overall exposure level .*: ([\d.]+)", done.stdout)[1])


def test_unit(tmp_path):
    """systemd understands all of it, and finds it hardened."""
    if not harness.find_tool("systemd-analyze"):
        pytest.skip("systemd is not installed")
    unit = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/usr/bin/pyperf-bpf", harness.PYPERF)
    (tmp_path / SOCKET.name).write_text(SOCKET.read_text())

    def rated(added):
        unit.write_text(text + "[Service]\n" + added)
        done = run("systemd-analyze", "verify", "--man=no", unit, tmp_path / SOCKET.name)
        assert done.returncode == 0 and "pyperf-bpf-agent" not in done.stderr, done.stderr
        return run("systemd-analyze", "security", "--offline=yes", unit)

    done = rated("")
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at files")
    # What is left is what a profiler is for: capabilities, other processes, names of the kernel.
    assert exposure(done) <= 2.0, done.stdout
    # The addition that its comments show, as by `systemctl edit`, about CAP_SYS_ADMIN; and the one that [push] needs.
    admin, = (re.sub("(?m)^#\t", "", more) for more in re.findall(r"(?m)^#\t\[Service\]\n((?:#\t.*\n)+)", text))
    for added, most in (admin, 1.7), (PUSH.read_text(), 2.8):
        done = rated(added)
        assert exposure(done) <= most, (added, done.stdout)


def test_socket_and_the_configuration_agree():
    """What systemd listens at is what the agent takes: its default."""
    config = (REPO / "user/agent/http/http_config.c").read_text()
    default = re.search('#define DEFAULT_LISTEN "(.*)"', config)[1]
    assert re.findall("^ListenStream=(.*)$", SOCKET.read_text(), re.M) == [default]
    assert "\n#listen = %s\n" % default in (REPO / "docs/agent.conf").read_text()
    assert SOCKET.name in unit_values("Wants") and SOCKET.name in unit_values("After")


def expand(sets, name):
    if not name.startswith("@"):
        return {name}
    return set().union(*(expand(sets, n) for n in sets[name]))


def test_system_calls():
    """What the agent was seen to call is allowed; what only root's tools need is not."""
    listing = run("systemd-analyze", "syscall-filter") if harness.find_tool("systemd-analyze") else None
    if not listing or listing.returncode:
        pytest.skip("systemd is not installed")
    sets, name = {}, None
    for line in re.sub(r"\x1b\[[\d;]*m", "", listing.stdout).splitlines():
        if line.startswith("@"):
            name = line.strip()
            sets[name] = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            sets[name].append(line.strip())
    allowed = set()
    for value in unit_values("SystemCallFilter"):
        words = set().union(*(expand(sets, w) for w in value.lstrip("~").split()))
        allowed = allowed - words if value.startswith("~") else allowed | words
    assert {"bpf", "perf_event_open", "process_vm_readv", "capset", "membarrier", "prctl",
            "openat", "mmap", "clone3", "signalfd4", "epoll_wait", "flock", "fsync", "ftruncate",
            "socket", "bind", "accept4", "connect", "sendmsg", "memfd_create"} <= allowed
    assert not {"ptrace", "mount", "init_module", "kexec_load", "setuid", "chown", "reboot",} & allowed


# ---- Debian --------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def package(tmp_path_factory):
    for tool in "dpkg-deb", "dpkg-shlibdeps":
        if not harness.find_tool(tool):
            pytest.skip(tool + " is not installed")
    # It builds the programs of the package, unless `make test-e2e` has.
    done = run(REPO / "scripts/make-deb", tmp_path_factory.mktemp("deb"), timeout=800,
               env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.strip()


def test_package(package):
    fields = run("dpkg-deb", "-f", package).stdout
    for library in "libbpf", "libdw", "libinih", "libsqlite3-0":
        assert library in re.search("^Depends: (.*)$", fields, re.M)[1], fields
    if harness.find_tool("lintian"):
        done = run("lintian", "--fail-on", "error", "--allow-root", package)
        assert done.returncode == 0, done.stdout
    again = run(REPO / "scripts/make-deb", os.path.dirname(package) + "/..",
                env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")}).stdout.strip()
    with open(package, "rb") as a, open(again, "rb") as b:
        assert a.read() == b.read(), "the same programs give another package"


def test_package_is_hardened(package, tmp_path):
    """Its programs are as hard as those of `make`, which test_hardening.py reads."""
    assert run("dpkg-deb", "-x", package, tmp_path).returncode == 0
    for program in "usr/bin/pyperf-bpf", "usr/libexec/pyperf-bpf/pyperf-bpf-agent":
        for check in (hardening.test_file, hardening.test_code, hardening.test_nothing_says_where_it_was_built):
            check(str(tmp_path / program))
        if platform.machine() == "x86_64":
            hardening.test_landing_pads(str(tmp_path / program))


def test_package_has_debians_flags(package):
    """Those that a Debian package is built with reach the compiler and the linker, with all hardening."""
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
           "DEB_BUILD_MAINT_OPTIONS": "hardening=+all"}
    plan = run("make", "-C", REPO, "-nB", "V=1", "OUT=.output/none", "deb-programs", env=env).stdout
    compiles = [line.split() for line in plan.splitlines() if "user/base/str.c" in line.split()]
    links = [line.split() for line in plan.splitlines() if "/pyperf-bpf" in line and "-lbpf" in line.split()]
    assert len(compiles) == 1 and len(links) == 2, plan[:2000]
    for words, kinds in (compiles[0], ("CFLAGS", "CPPFLAGS")), (links[0], ("LDFLAGS",)), (links[1], ("LDFLAGS",)):
        for kind in kinds:
            wanted = set(run("dpkg-buildflags", "--get", kind, env=env, cwd=REPO).stdout.split())
            # Debian's level is the lowest that will do.
            level = max((w for w in wanted if w.startswith("-D_FORTIFY_SOURCE=")), default="")
            assert wanted - {level} <= set(words), wanted - set(words)
            assert not level or level <= [w for w in words if w.startswith("-D_FORTIFY_SOURCE=")][-1]


def check_upgrades(directory):
    """What an agent of before the socket used the network for goes on: once, and not against a word of his own."""
    config = directory / "etc/pyperf-bpf/agent.conf"
    units = directory / "etc/systemd/system"
    allowed = units / "pyperf-bpf-agent.service.d/push.conf"
    elsewhere = units / "pyperf-bpf-agent.socket.d/listen.conf"
    masked = units / SOCKET.name
    installed = directory / "lib/systemd/system" / SOCKET.name
    usual, socket = config.read_text(), installed.read_text()

    def script(name, *args):
        done = run("sh", REPO / "packaging/debian" / name, *args, env={**os.environ, "DPKG_ROOT": str(directory)})
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout

    def upgrade(text=None, older=True):
        """Says what was done, and undoes it."""
        if text is not None:
            config.write_text(text)
        if older:
            installed.unlink()
        assert not script("preinst", "upgrade", "0.0.1")
        installed.write_text(socket)
        out = script("postinst", "configure", "0.0.1")
        made = [path for path in (allowed, elsewhere, masked) if path.exists() or path.is_symlink()]
        assert out.count("pyperf-bpf-agent: ") == len(made) and all(str(path) in out for path in made if path != masked), out
        texts = ["" if path == masked else path.read_text() for path in made]
        for path in made:
            path.unlink()
            if path == elsewhere:
                path.parent.rmdir()
        return dict(zip(made, texts))

    for text in usual, "[http]\nlisten=127.0.0.1:4041\n", "[agent]\n":
        assert not upgrade(text), text
    for text in "[http]\nlisten = unix:/run/x\n", "[http]\nlisten: off ; no page\n":
        assert list(upgrade(text)) == [masked], text
    for at in "0.0.0.0:4041", "[::1]:80":
        made = upgrade("[http]\n listen =%s\n" % at)
        assert list(made) == [elsewhere] and "\nListenStream=\nListenStream=%s\n" % at in made[elsewhere], made
    assert upgrade(" [push.a]\n") == {allowed: PUSH.read_text()}
    assert not upgrade(older=False)  # who took it back since then keeps that
    own = allowed.with_name("override.conf")
    own.write_text("[Service]\nPrivateNetwork=yes\n")
    assert not upgrade()
    own.write_text("[Service]\nIPAddressDeny=any\nIPAddressAllow=192.0.2.10\n")
    made = upgrade()
    assert "PrivateNetwork=no" in made[allowed] and "IPAddressDeny=" not in re.sub("(?m)^#.*", "", made[allowed]), made
    own.unlink()
    # For `apt purge`.
    for text in "[push.a]\n[http]\nlisten = 127.0.0.1:80\n", "[http]\nlisten = off\n":
        config.write_text(text)
        installed.unlink()
        script("preinst", "upgrade", "0.0.1")
        installed.write_text(socket)
        script("postinst", "configure", "0.0.1")
        assert allowed.exists() and (elsewhere.exists() or masked.is_symlink())
        if text.startswith("[push"):
            elsewhere.unlink()
            elsewhere.parent.rmdir()
    config.write_text(usual)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_install_and_purge(package, directory):
    """Into a root of its own: it runs, the configuration is in order, and nothing is left of it."""
    admin = directory / "var/lib/dpkg"
    (admin / "info").mkdir(parents=True)
    (admin / "updates").mkdir()
    (admin / "status").touch()

    def files():
        return {str(p.relative_to(directory)) for p in directory.rglob("*")
                if not p.is_relative_to(admin) and (p.is_symlink() or not p.is_dir())}

    def dpkg(*args):
        done = run("dpkg", "--root=%s" % directory, "--force-depends", "--force-script-chrootless",
                   "--log=/dev/null", *args)
        assert done.returncode == 0, done.stderr

    dpkg("-i", package)
    program = directory / "usr/bin/pyperf-bpf"
    assert run(program, "--version").stdout.startswith("pyperf-bpf ")
    config = directory / "etc/pyperf-bpf/agent.conf"
    done = run(program, "agent", "--check-config", "--config", config)
    assert done.returncode == 0, done
    for file in files():
        mode = stat.S_IMODE((directory / file).stat().st_mode)
        assert mode in (0o644, 0o755) and (directory / file).stat().st_uid == 0, file
    assert "/usr/bin/pyperf-bpf" in (directory / "lib/systemd/system" / UNIT.name).read_text()
    assert (directory / "lib/systemd/system" / SOCKET.name).read_text() == SOCKET.read_text()
    check_upgrades(directory)
    config.write_text("# changed by hand\n")
    state = directory / "var/lib/pyperf-bpf"
    state.mkdir()
    (state / "store.db").write_text("windows")
    dpkg("-i", package)
    assert config.read_text() == "# changed by hand\n"
    dpkg("-r", "pyperf-bpf")
    assert files() == {"etc/pyperf-bpf/agent.conf", "var/lib/pyperf-bpf/store.db",
                       "etc/systemd/system/pyperf-bpf-agent.service.d/push.conf", "etc/systemd/system/" + SOCKET.name}
    dpkg("-P", "pyperf-bpf")
    assert files() == set() and not state.exists() and not config.parent.exists()


# ---- container -----------------------------------------------------------------------------------

def test_dockerfile():
    lines = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text()).splitlines()
    words = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    stages = [rest for word, rest in words if word == "FROM"]
    assert len(stages) == 2 and stages[0].endswith("AS build")
    assert {s.split()[0] for s in stages} == {"${BASE}"}, "built for what it runs on"
    assert not [rest for word, rest in words if word == "ADD"]
    assert ["CMD", '["agent"]'] in words and ["ENTRYPOINT", '["/usr/bin/pyperf-bpf"]'] in words
    for word, rest in words:
        for path in re.findall(r"^(scripts/\w+)", rest) if word == "RUN" else []:
            assert (REPO / path).exists()


def test_manifest(tmp_path):
    docs = manifests()
    assert set(docs) == {"ConfigMap", "DaemonSet"}
    spec, agent = container()
    assert spec["hostPID"] is True and spec["automountServiceAccountToken"] is False
    assert "hostNetwork" not in spec and "hostIPC" not in spec
    context = agent["securityContext"]
    assert context["privileged"] is False and context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert agent["resources"]["requests"] and agent["resources"]["limits"]["memory"]
    # Memory that systemd allows is what Kubernetes allows.
    assert unit_values("MemoryMax") == ["512M"] and agent["resources"]["limits"]["memory"] == "512Mi"
    ports = {p["name"]: p["containerPort"] for p in agent["ports"]}
    for probe in "startupProbe", "livenessProbe", "readinessProbe":
        assert agent[probe]["httpGet"] == {"path": "/healthz", "port": "http"}
    # Names that have to agree.
    mounts = {m["name"]: m["mountPath"] for m in agent["volumeMounts"]}
    volumes = {v["name"]: v for v in spec["volumes"]}
    assert set(mounts) == set(volumes)
    assert volumes["config"]["configMap"]["name"] == docs["ConfigMap"]["metadata"]["name"]
    selector = docs["DaemonSet"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= docs["DaemonSet"]["spec"]["template"]["metadata"]["labels"].items()
    text = docs["ConfigMap"]["data"]["agent.conf"]
    assert ":%d\n" % ports["http"] in text
    assert re.search("token-file = (.*)/token", text)[1] == mounts["secret"]
    config = tmp_path / "agent.conf"
    # The files of the secret, which are not on this machine.
    for name in re.findall(re.escape(mounts["secret"]) + "/(.+)", text):
        (tmp_path / name).touch(0o600)
    config.write_text(text.replace(mounts["secret"] + "/", "%s/" % tmp_path))
    done = run(harness.PYPERF, "agent", "--check-config", "--config", config)
    assert done.returncode == 0, done.stderr
