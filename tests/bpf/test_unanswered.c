/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process that does not answer when it is found is looked at again: its helper is stopped, which
 * looks as if the process let it wait. Root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/opener.h"
#include "base/reader.h"
#include "process/maps_read.h"
#include "process_table_fixture.h"
#include "unit/stepped_clock.h"

static void stop_children_but(pid_t child)
{
	char path[64];
	FILE *f;
	int pid, cnt = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1)
		cnt += pid != child && !kill(pid, SIGSTOP);
	fclose(f);
	assert_int_equal(cnt, 2);
}

/* Each has begun. */
static void stop_helpers(struct readers *rs, pid_t child)
{
	int proc_fd = opener__proc_dir((uint32_t)getpid());
	struct exec_maps maps = { 0 };
	uint32_t self = (uint32_t)getpid(), read;

	assert_int_equal(exec_maps__ask(&maps, rs, self, proc_fd), 0);
	assert_int_equal(reader__read(rs, self, &read, sizeof(read), (uint64_t)(uintptr_t)&self),
			 0);
	exec_maps__free(&maps);
	close(proc_fd);
	stop_children_but(child);
}

static void next_window(struct process_table *pt)
{
	process_table__tick(pt);
	while (process_table__to_read(pt))
		process_table__refresh(pt);
}

/* As if it had executed the program just now. No other process of the machine is known. */
static void announce(struct process_table *pt, pid_t pid)
{
	const struct ev_proc ev = { .type = EV_EXEC,
				    .tgid = (uint32_t)pid,
				    .space = SPACE_FIRST_BPF + 1,
				    .time_ns = now_ns() };

	assert_int_equal(process_table__on_event(pt, &ev), 0);
}

static void is_looked_at_again(void **state)
{
	struct readers *rs = readers__new();
	const struct process *p;
	struct process_table *pt;
	struct child c;

	(void)state;
	readers__start(rs);
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(NULL, 0, (struct process_opts){ .readers = rs });
	stop_helpers(rs, c.pid);
	announce(pt, c.pid);
	next_window(pt);
	p = process_table__find(pt, SPACE_FIRST_BPF + 1);
	assert_non_null(p);
	assert_false(p->is_python || p->analysed);
	clock_later_s += 60;
	next_window(pt);
	assert_false(p->is_python || p->analysed); /* it may still be the same */
	clock_later_s += 600;
	next_window(pt);
	assert_true(p->is_python && p->analysed);
	child_stop(&c);
	table_done(pt);
	readers__free(rs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_looked_at_again),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
