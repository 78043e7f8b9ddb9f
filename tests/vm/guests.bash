# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
#
# Debian's kernels in QEMU, for scripts/test-vm and scripts/test-systemd, which source this after scripts/deps:
# where kernels come from and are kept, how a guest is booted, and what it said on its console.
#
# Whoever sources it sets $kind, the kind of its results, and calls prepare_guests before all others. Then there are
# $work (gone at the end), $failed (1 after `result fail`), $cache and $mirror. What a guest says are lines
# "vm <tab> WORD...": "booted" and "end", "pass|fail CASE REASON", "figure NAME VALUE".

cache=${PYPERF_TEST_CACHE:-$HOME/.cache/pyperf-bpf}/vm
results=${PYPERF_TEST_RESULTS:-/dev/null}
# A quiet machine needs 5 and 90. Then a guest is killed. PYPERF_GUEST_SECONDS is for one that is not.
boot_seconds=240
guest_seconds=${PYPERF_GUEST_SECONDS:-480}
guest_memory=1G
# The newest package of a series, although there is one in the cache.
update=''

# SERIES SUITE...: where its kernel is looked for; the first suite that has one is taken. Cloud kernels, and
# with PREEMPT_RT those of SERIES-rt.

series='
5.10   debian/bullseye debian-security/bullseye-security
6.1    debian/bookworm
6.12   debian/trixie
6.12-rt debian/trixie
6.18   debian/trixie-backports
newest debian/trixie-backports debian/sid
'

say()
{
	echo "${0##*/}: $*" >&2
}

result() # STATUS NAME [REASON]
{
	local alone="scripts/test-$kind"

	[ "$kind" != vm ] || alone+=" ${2%%:*}"
	printf '%s\t%s\t%s\t%s\t\t%s\n' "$kind" "$1" "$2" "${3:-}" "$alone" |
		tee -a "$work/results" >>"$results"
	[ "$1" != fail ] || failed=1
}

skip() # NAME REASON
{
	say "$1: skipped: $2"
	result skip "$1" "$2"
}

# Nothing of it hangs: a mirror that does not answer is no mirror.
fetch() # URL [OPTION...]
{
	curl -sf --retry 2 --connect-timeout 10 --speed-limit 10000 --speed-time 20 --max-time 180 "$@"
}

# ---- kernels -------------------------------------------------------------------------------------

# The path of the newest kernel package of a series ("newest": of all) in one suite, or nothing if it has
# none; 1 if the suite cannot be asked. Up to 6.18 the kernel is in linux-image-*; later that is empty,
# and linux-binary-* has it.
newest_package() # SUITE SERIES
{
	local archive=${1%%/*} suite=${1#*/} pattern='[0-9]' flavour=cloud index

	[ "$2" = newest ] || pattern=${2//./\\.}'\.'
	if [[ $2 == *-rt ]]; then
		flavour=rt
		pattern=${pattern/-rt/}
	fi
	index=$(mktemp "$work/index.XXXXXX") &&
		fetch "$mirror/$archive/dists/$suite/main/binary-amd64/Packages.xz" -o "$index" || return 1
	xz -dc "$index" |
		awk -v RS= -v pattern="^Package: linux-(image|binary)-$pattern[^\n]*-$flavour-amd64\n" '
			$0 ~ pattern {
				path = size = ""
				n = split($0, lines, "\n")
				for (i = 1; i <= n; i++) {
					if (lines[i] ~ /^Filename: /) path = substr(lines[i], 11)
					if (lines[i] ~ /^Size: /) size = substr(lines[i], 7)
				}
				if (size + 0 > 1000000) print path
			}' | awk -F/ '{ name = $NF; sub(/^linux-[a-z]*-/, "", name); print name, $0 }' |
		sort -V | tail -n 1 | cut -d' ' -f2- | sed "s|^|$archive/|"
	rm -f "$index"
}

# Unpacks the image of a package into a directory of that name, if it is not there.
unpack_kernel() # PACKAGE NAME
{
	local dir=$cache/kernels/$2

	[ ! -e "$dir/vmlinuz" ] || return 0
	rm -rf "$dir.new"
	mkdir -p "$dir.new" &&
		fetch "$mirror/$1" -o "$dir.new/deb" &&
		dpkg-deb -x "$dir.new/deb" "$dir.new/files" &&
		mv "$(find "$dir.new/files" -name 'vmlinuz*' -type f | head -n 1)" "$dir.new/vmlinuz" &&
		rm -rf "$dir.new/deb" "$dir.new/files" "$dir" && mv "$dir.new" "$dir"
}

# The kernel of a series is $cache/kernels/SERIES, a link. Fetches it if it is not there, or if it is
# to be the newest one and that can be had. 1: it cannot be fetched, 2: there is none in Debian.
fetch_kernel() # SERIES
{
	local link=$cache/kernels/$1 suite package name asked=2

	[ -n "$update" ] || [ ! -e "$link/vmlinuz" ] || return 0
	for suite in $(awk -v s="$1" '$1 == s { $1 = ""; print }' <<<"$series"); do
		package=$(newest_package "$suite" "$1") || asked=1
		[ -n "$package" ] || continue
		name=${package##*/}
		name=${name%%_*}
		asked=1
		unpack_kernel "$package" "$name" && ln -sfn "$name" "$link" && return 0
	done
	[ -e "$link/vmlinuz" ] || return $asked
	say "$1: no newer one can be fetched than $(readlink "$link")"
}

# ---- QEMU ----------------------------------------------------------------------------------------

# QEMU 7.2 (Debian 12) corrupts flags under emulation: one 6.12 guest in seven dies or hangs. A newer one
# from the backports is unpacked beside it and finds its files relative to itself.
find_qemu()
{
	local at=$cache/qemu paths path

	qemu=$(command -v qemu-system-x86_64)
	[[ $("$qemu" --version) =~ version\ [1-7]\. ]] || return 0
	if [ ! -x "$at/usr/bin/qemu-system-x86_64" ]; then
		paths=$(fetch "$mirror/debian/dists/bookworm-backports/main/binary-amd64/Packages.xz" |
			xz -dc |
			grep -E '^Filename: .*/qemu-system-(x86|common|data)_[^/]*_(amd64|all)\.deb$' |
			cut -d' ' -f2)
		rm -rf "$at.new"
		mkdir -p "$at.new"
		for path in $paths; do
			fetch "$mirror/debian/$path" -o "$at.new/deb" && dpkg-deb -x "$at.new/deb" "$at.new"
		done
		rm -rf "$at.new/deb" "$at"
		"$at.new/usr/bin/qemu-system-x86_64" --version >/dev/null 2>&1 && mv "$at.new" "$at"
	fi
	if [ -x "$at/usr/bin/qemu-system-x86_64" ]; then
		qemu=$at/usr/bin/qemu-system-x86_64
	else
		say "no newer QEMU than $("$qemu" --version | head -n 1) can be fetched: 6.12 may die of it"
	fi
}

# ---- guests --------------------------------------------------------------------------------------

# A guest keeps little more than one processor busy. So many run at a time on this machine, whoever boots them:
# more would only be slow, and end for it.
places=2

# Waits for one of the places, in the order of those who ask. It is free again when the caller, a shell of the
# background, and the guest that it boots have ended, however they end: they have its lock open.
take_place()
{
	local n place queue

	exec {queue}>"$cache/queue"
	flock "$queue"
	while :; do
		for ((n = 1; n <= places; n++)); do
			exec {place}>"$cache/place.$n"
			! flock -n "$place" || break 2
			exec {place}>&-
		done
		sleep 0.2
	done
	exec {queue}>&-
}

# Until its first program runs, it ends, or the time is over.
wait_booted() # PROCESS CONSOLE
{
	local end=$((SECONDS + boot_seconds))

	until grep -q '^vm	booted' "$2" 2>/dev/null; do
		kill -0 "$1" 2>/dev/null && [ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.5
	done
}

# Boots one, in a place, and keeps its console. For the background. A guest that did not reach its first program
# is no test: it is booted again.
guest() # CONSOLE SERIES CASES QEMU-OPTION...
{
	local console=$1 kernel=$cache/kernels/$2 cases=$3 try pid begin

	shift 3
	take_place
	begin=$SECONDS
	for try in 1 2; do
		rm -f "$console"
		timeout --kill-after=10 "$guest_seconds" "$qemu" "$@" -M q35 -cpu max -m "$guest_memory" \
			-kernel "$kernel/vmlinuz" -initrd "$work/initramfs" -nodefaults -display none \
			-no-reboot -serial "file:$console" \
			-append "console=ttyS0 panic=-1 quiet guest=$cases" </dev/null 2>"$console.err" &
		pid=$!
		echo "$pid" >"$console.pid"
		wait_booted "$pid" "$console" || kill "$pid"
		wait "$pid"
		! grep -q '^vm	booted' "$console" || break
	done 2>/dev/null
	rm -f "$console.pid"
	cat "$console.err" >>"$console"
	sed -i 's/\r$//' "$console"
	printf 'vm\ttook\t%s\t%s\n' $((SECONDS - begin)) "$try" >>"$console"
}

end_guests()
{
	jobs -p | cat - "$work"/*.pid 2>/dev/null | xargs -r kill 2>/dev/null
	rm -rf "$work"
}

# Or says why there can be none, and ends: that is a skip.
prepare_guests() # TOOL...
{
	local tool

	failed=0
	work=$(mktemp -d) || exit 1
	trap end_guests EXIT
	: >"$work/results"
	if [ "$(uname -m)" != x86_64 ] || [ "$(id -u)" != 0 ]; then
		skip all "needs root on x86-64"
		exit 0
	fi
	for tool in qemu-system-x86_64 mmdebstrap cpio curl dpkg-deb xz "$@"; do
		command -v "$tool" >/dev/null || {
			skip all "$tool is not installed (scripts/deps vm test installs it)"
			exit 0
		}
	done
	mkdir -p "$cache/kernels" || exit 1
	mirror=$(deps_mirror)
	mirror=${mirror%/debian*} # next to debian-security
}

# ---- what they said ------------------------------------------------------------------------------

figure() # SERIES NAME
{
	cat "$work/$1".* 2>/dev/null |
		awk -F'\t' -v name="$2" '$2 == "figure" && $3 == name { value = $4 } END { print value }'
}

# A guest that hung or died is one failed case.
check_end() # SERIES CONSOLE
{
	local why

	if grep -q '^vm	end' "$2"; then
		grep -qP '^vm\t(pass|fail)\t' "$2" && return
		why="no case ran"
	else
		why="did not end in $guest_seconds seconds"
	fi
	grep -q '^vm	booted' "$2" || why="did not boot in $boot_seconds seconds, twice"
	result fail "$1: ${2##*.}" "$why: $(grep -av '^vm	took\|terminating on signal' "$2" | tail -n 1)"
	tail -n 30 "$2" | sed 's/^/    | /' >&2
}

# What a failed case wrote before the line that says so: to stderr, and to the file where scripts/run-tests looks for it
# (details_of).
show_failed() # SERIES CONSOLE CASE
{
	local file=${kind}_${1//[^A-Za-z0-9_.-]/_}__$3

	awk -F'\t' -v name="$3" '
		$1 == "vm" && $2 ~ /^(booted|pass|fail)$/ {
			if ($3 == name)
				exit
			n = 0
			next
		}
		{ lines[n++] = $0 }
		END { for (i = n > 100 ? n - 100 : 0; i < n; i++) print lines[i] }' "$2" >"$work/said"
	echo "$1: $3 wrote:" >&2
	sed 's/^/    | /' "$work/said" >&2
	[ "$results" != /dev/null ] || return 0
	mkdir -p "$results.details"
	cp "$work/said" "$results.details/${file:0:100}_$(cksum <<<"$1: $3" | cut -d' ' -f1)"
}

check_console() # SERIES CONSOLE
{
	local status name reason

	check_end "$1" "$2"
	while IFS=$'\t' read -r _ status name reason; do
		result "$status" "$1: $name" "$reason"
		[ "$status" != fail ] || show_failed "$1" "$2" "$name"
	done < <(grep -P '^vm\t(pass|fail)\t' "$2")
}
