# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Made by scripts/completions from --help; do not edit.

_pyperf_bpf()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=record i

	COMPREPLY=()
	case ${COMP_WORDS[1]} in
	record | top | report | diff | dump | trace | probes | memory | heap | check | agent | help) [ "$COMP_CWORD" -le 1 ] || command=${COMP_WORDS[1]} ;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [ "${COMP_WORDS[i]}" = -- ]; then # a command line of its own
			mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
			return
		fi
	done
	case $command$prev in
	record-d | record--duration)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--delay)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-e | record--event)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-F | record--frequency)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-c | record--count)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--wait-min)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-p | record--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	record--name)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-u | record--user)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-t | record--tid)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--cpu)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-C | record--cgroup)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	record--container)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--comm)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--pod)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-o | record--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	record--format)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--value)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--idle)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--busy)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--max-frames)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record--table-memory)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-e | top--event)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-F | top--frequency)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-c | top--count)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top--wait-min)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-p | top--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	top--name)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-u | top--user)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-t | top--tid)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top--cpu)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-C | top--cgroup)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	top--container)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top--comm)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top--pod)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-i | top--interval)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-d | top--duration)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report-o | report--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	report--format)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--value)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--idle)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--busy)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report-t | report--type)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report-p | report--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	report--comm)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--from)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--to)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--service)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--label)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report--store)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	diff-o | diff--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	diff--format)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--fail-over)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--trim-path)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff-t | diff--type)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--comm)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--before)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--after)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--before-label)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--after-label)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--service)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--label)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	diff--store)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	dump-p | dump--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	dump--name)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	dump--container)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	dump--pod)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace-p | trace--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	trace--python)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	trace--slow)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--from)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--if)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--audit)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace-f | trace--filter)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace-t | trace--thread)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace-e | trace--event)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--native-from)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--lib)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	trace-o | trace--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	trace-d | trace--duration)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace-i | trace--interval)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--top)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--format)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	trace--max-slowdown)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	probes-p | probes--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	memory-p | memory--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	memory-d | memory--duration)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory-F | memory--frequency)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory-c | memory--count)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory--level)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory--max-slowdown)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory--refcount)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory-o | memory--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	memory--format)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	memory--value)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap-p | heap--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	heap-d | heap--duration)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap--every)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap--for)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap--referrers)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap--diff)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap-o | heap--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	check-p | check--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	agent--config)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	if [[ $cur == -* ]]; then
		case $command in
		record) mapfile -t COMPREPLY < <(compgen -W "-d --duration --delay -e --event -F --frequency -c --count --wait-min -p --pid --no-children --name -u --user -t --tid --cpu -a --all -C --cgroup --container --comm --pod --as-root -o --output --format -f --folded --glue --value --idle --busy --native --no-native --no-kernel --no-lines --threads --inlines --debuginfod --max-frames --table-memory -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		top) mapfile -t COMPREPLY < <(compgen -W "-e --event -F --frequency -c --count --wait-min -p --pid --no-children --name -u --user -t --tid --cpu -a --all -C --cgroup --container --comm --pod -i --interval -d --duration --native -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		report) mapfile -t COMPREPLY < <(compgen -W "-o --output --format -f --folded --glue --value --idle --busy -t --type --native --markdown --no-lines --threads --no-threads -p --pid --no-native --no-kernel --comm --from --to --list --service --label --store -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		diff) mapfile -t COMPREPLY < <(compgen -W "-o --output --format -f --folded --glue --fail-over --absolute --markdown --trim-path -t --type --no-native --no-kernel --comm --before --after --before-label --after-label --service --label --store -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		dump) mapfile -t COMPREPLY < <(compgen -W "-p --pid --children --name --container --pod --native --tasks --all --json -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		trace) mapfile -t COMPREPLY < <(compgen -W "-p --pid --children --python --as-root --count --calls --hist --slow --from --args --ret --if --exceptions --gc --audit --imports -f --filter -t --thread -e --event --native-from --lib -o --output -d --duration -i --interval --top --force --json --format --max-slowdown -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		probes) mapfile -t COMPREPLY < <(compgen -W "-p --pid --json -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		memory) mapfile -t COMPREPLY < <(compgen -W "-p --pid -d --duration -F --frequency -c --count --level --max-slowdown --refcount -o --output --format -f --folded --glue --value -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		heap) mapfile -t COMPREPLY < <(compgen -W "-p --pid --children -d --duration --as-root --every --for --referrers --diff --all --json -o --output -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		check) mapfile -t COMPREPLY < <(compgen -W "-p --pid -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		agent) mapfile -t COMPREPLY < <(compgen -W "--config --check-config --link --print-config --remove-spools -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		esac
	elif [ "$COMP_CWORD" -eq 1 ] || [ "$command" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W "record top report diff dump trace probes memory heap check agent help" -- "$cur")
	else
		case $command in
		report) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		diff) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		dump) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur") ;;
		memory) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur") ;;
		esac
	fi
}
complete -o filenames -F _pyperf_bpf pyperf-bpf
