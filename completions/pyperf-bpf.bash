# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Made by scripts/completions from --help; do not edit.

_pyperf_bpf()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=record i

	COMPREPLY=()
	case ${COMP_WORDS[1]} in
	record | top | report | diff | dump | trace | probes | heap | check | agent | help) [ "$COMP_CWORD" -le 1 ] || command=${COMP_WORDS[1]} ;;
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
	record-p | record--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	record-C | record--cgroup)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	record--comm)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	record-o | record--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	record--value)
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
	top-F | top--frequency)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-p | top--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	top-C | top--cgroup)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	top--comm)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	top-i | top--interval)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	report-o | report--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	report--value)
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
	trace-p | trace--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
		return
		;;
	trace-f | trace--filter)
		mapfile -t COMPREPLY < <(:)
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
	trace--max-slowdown)
		mapfile -t COMPREPLY < <(:)
		return
		;;
	heap-p | heap--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur")
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
		record) mapfile -t COMPREPLY < <(compgen -W "-d --duration -e --event -F --frequency -c --count -p --pid --children -C --cgroup --comm -a --all -o --output -f --folded --value --native --no-native --no-kernel --no-lines --inlines --threads --max-frames --table-memory -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		top) mapfile -t COMPREPLY < <(compgen -W "-F --frequency -p --pid --children -C --cgroup --comm -a --all -i --interval --native -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		report) mapfile -t COMPREPLY < <(compgen -W "-o --output -f --folded --value -t --type --native --no-lines --threads --no-threads -p --pid --no-native --no-kernel --comm --from --to --list --service --label --store -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		diff) mapfile -t COMPREPLY < <(compgen -W "-o --output -f --folded --absolute -t --type --no-native --no-kernel --comm --before --after --before-label --after-label --service --label --store -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		dump) mapfile -t COMPREPLY < <(compgen -W "--native --json -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		trace) mapfile -t COMPREPLY < <(compgen -W "-p --pid --count -f --filter -d --duration -i --interval --top --json --max-slowdown --force -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		probes) mapfile -t COMPREPLY < <(compgen -W "--json -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		heap) mapfile -t COMPREPLY < <(compgen -W "-p --pid --every --for --referrers --all --json -o --output -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		check) mapfile -t COMPREPLY < <(compgen -W "-p --pid -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		agent) mapfile -t COMPREPLY < <(compgen -W "--config --check-config --link --print-config --remove-spools -v --verbose -q --quiet -h --help --version" -- "$cur") ;;
		esac
	elif [ "$COMP_CWORD" -eq 1 ] || [ "$command" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W "record top report diff dump trace probes heap check agent help" -- "$cur")
	else
		case $command in
		report) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		diff) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		dump) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur") ;;
		probes) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur") ;;
		esac
	fi
}
complete -o filenames -F _pyperf_bpf pyperf-bpf
