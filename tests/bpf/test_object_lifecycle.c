/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fork, exec and exit as BPF follows them: what is known at once, who is told, and of what programs
 * nobody is. Truth: processes that the test starts, and wait(2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "object_fixture.h"
#include "waiting_child.h"

extern char **environ;

/* fork: a new space on the parent's image, known before the child runs. */
static void fork_is_known_at_once(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, 0);
	rig_add_image(&r, SPACE_SELF, 0);
	start_waiting(&w, wait_for_end);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_true(p.space >= SPACE_FIRST_BPF);
	assert_int_equal(p.image, SPACE_SELF);
	stop_waiting(&w);
	assert_false(rig_proc(&r, w.pid, &p));
	assert_int_equal(events_of(&r, w.pid, ev), 2);
	assert_int_equal(ev[0]->type, EV_FORK);
	assert_int_equal(ev[0]->parent, SPACE_SELF);
	assert_int_equal(ev[0]->space, p.space ? ev[1]->space : 0);
	assert_int_equal(ev[0]->image, SPACE_SELF);
	assert_int_equal(ev[1]->type, EV_EXIT);
	assert_true(ev[0]->time_ns <= ev[1]->time_ns);
	rig_close(&r);
}

static void grandchild_body(int in, int out)
{
	pid_t pid = fork();

	if (!pid)
		_exit(7);
	waitpid(pid, NULL, 0);
	if (write(out, &pid, sizeof(pid)) == sizeof(pid))
		wait_for_end(in, out);
}

/*
 * The image is the nearest one there is: of a parent that has none itself, its parent's. The
 * parent's space is named in the event, and the exit status is the one that wait(2) gives.
 */
static void grandchild_has_the_nearest_image(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;
	pid_t pid;

	(void)state;
	lifecycle_rig(&r, 0);
	start_waiting(&w, grandchild_body);
	assert_int_equal(read(w.from, &pid, sizeof(pid)), sizeof(pid));
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(events_of(&r, pid, ev), 2);
	assert_int_equal(ev[0]->type, EV_FORK);
	assert_int_equal(ev[0]->parent, p.space);
	assert_int_equal(ev[0]->image, SPACE_SELF);
	assert_true(ev[0]->space != p.space);
	assert_int_equal(ev[1]->type, EV_EXIT);
	assert_int_equal(ev[1]->space, ev[0]->space);
	assert_true(WIFEXITED(ev[1]->status) && WEXITSTATUS(ev[1]->status) == 7);
	stop_waiting(&w);
	rig_close(&r);
}

/* A child is forked. Does that wake who reads the events? */
static bool fork_wakes(struct rig *r, int timeout_ms)
{
	struct epoll_event ev;
	struct waiting w;
	bool woken;

	do {
		r->skel->bss->user_woken = 0;
		assert_true(ring_buffer__consume(r->rings) >= 0);
	} while (epoll_wait(ring_buffer__epoll_fd(r->rings), &ev, 1, 0) > 0);
	start_waiting(&w, wait_for_end);
	woken = epoll_wait(ring_buffer__epoll_fd(r->rings), &ev, 1, timeout_ms) > 0;
	stop_waiting(&w);
	return woken;
}

static void fork_wakes_who_asked_for_processes(void **state)
{
	bool woken = true;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_TARGETS | CFG_CHILDREN);
	assert_true(fork_wakes(&r, DEADLINE_MS));
	rig_close(&r);
	lifecycle_rig(&r, 0);
	for (int i = 0; i < 100 && woken; i++) /* an exec of others does wake */
		woken = fork_wakes(&r, 10);
	assert_false(woken);
	rig_close(&r);
}

/* Who was woken is not woken again before it begins to read. */
static void who_was_woken_is_left_alone(void **state)
{
	struct epoll_event ev;
	struct waiting w;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_TARGETS | CFG_CHILDREN);
	assert_true(fork_wakes(&r, DEADLINE_MS));
	assert_int_equal(r.skel->bss->user_woken, 1);
	do /* without telling that it begins to read */
		assert_true(ring_buffer__consume(r.rings) >= 0);
	while (epoll_wait(ring_buffer__epoll_fd(r.rings), &ev, 1, 0) > 0);
	start_waiting(&w, wait_for_end);
	assert_int_equal(epoll_wait(ring_buffer__epoll_fd(r.rings), &ev, 1, 10), 0);
	assert_true(ring_buffer__consume(r.rings) > 0);
	stop_waiting(&w);
	assert_true(fork_wakes(&r, DEADLINE_MS));
	rig_close(&r);
}

/* What the programs that follow processes took, if they are to time themselves. */
static void following_is_timed_if_asked(void **state)
{
	for (uint32_t flags = 0; flags <= CFG_TIMED; flags += CFG_TIMED) {
		uint64_t begin = now_ns(), most, ns;
		struct waiting w;
		struct rig r;

		(void)state;
		lifecycle_rig(&r, flags);
		for (int i = 0; i < 10; i++) {
			start_waiting(&w, wait_for_end);
			stop_waiting(&w);
		}
		rig_detach_lifecycle(&r);
		ns = rig_counter(&r, CTR_follow_ns);
		most = (now_ns() - begin) * (uint64_t)libbpf_num_possible_cpus();
		assert_true(flags ? ns > 0 && ns < most : !ns);
		rig_close(&r);
	}
}

/* exec: a space and an image of its own; the target stays a target. */
static void exec_is_a_new_space(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_TARGETS | CFG_CHILDREN);
	start_waiting(&w, cat_body);
	await_cat(&w);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(p.image, p.space);
	assert_int_equal(p.flags, PROC_TARGET);
	assert_int_equal(stop_waiting(&w), 0);
	assert_false(rig_proc(&r, w.pid, &p));
	assert_int_equal(events_of(&r, w.pid, ev), 3);
	assert_int_equal(ev[0]->type, EV_FORK);
	assert_int_equal(ev[1]->type, EV_EXEC);
	assert_int_equal(ev[2]->type, EV_EXIT);
	assert_true(ev[1]->space != ev[0]->space && ev[1]->space >= SPACE_FIRST_BPF);
	assert_int_equal(ev[2]->space, ev[1]->space);
	assert_string_equal(ev[1]->comm, "cat");
	rig_close(&r);
}

/* -p without --children is the process alone. */
static void children_are_targets_only_if_asked(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_TARGETS);
	start_waiting(&w, cat_body);
	await_cat(&w);
	assert_false(rig_proc(&r, w.pid, &p));
	stop_waiting(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 0);
	rig_close(&r);

	lifecycle_rig(&r, CFG_TARGETS | CFG_CHILDREN);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0); /* known, but no target: nor is the child */
	start_waiting(&w, wait_for_end);
	if (rig_proc(&r, w.pid, &p))
		assert_int_equal(p.flags, 0);
	stop_waiting(&w);
	rig_close(&r);
}

static void *no_thread(void *arg)
{
	return arg;
}

static void *wait_thread(void *arg)
{
	char byte;

	while (read(*(int *)arg, &byte, 1) > 0)
		;
	return NULL;
}

/* Threads are no processes: neither their start nor their end is an event. */
static void threads_are_no_processes(void **state)
{
	const struct ev_proc *ev[16];
	struct proc p;
	struct rig r;
	pthread_t t;

	(void)state;
	lifecycle_rig(&r, 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&t, NULL, no_thread, NULL), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	}
	assert_true(rig_proc(&r, getpid(), &p));
	assert_int_equal(p.space, SPACE_SELF);
	assert_int_equal(events_of(&r, getpid(), ev), 0);
	rig_detach_lifecycle(&r);
	for (size_t i = 0; i < r.event_cnt;
	     i++) /* of the machine: none is a child of this process */
		assert_true(r.events[i].type != EV_FORK || r.events[i].parent != SPACE_SELF);
	rig_close(&r);
}

static void many_threads_body(int in, int out)
{
	pthread_t t;

	for (int i = 0; i < 6; i++)
		pthread_create(&t, NULL, wait_thread, &in);
	if (write(out, "x", 1) == 1)
		wait_for_end(in, out);
}

/* A process ends once, although its threads end at the same time on several CPUs. */
static void process_exits_once(void **state)
{
	struct rig r;

	(void)state;
	lifecycle_rig(&r, 0);
	for (int i = 0; i < 300; i++) {
		const struct ev_proc *ev[16];
		struct waiting w;
		struct proc p;

		start_waiting(&w, many_threads_body);
		await_byte(&w);
		assert_true(rig_proc(&r, w.pid, &p));
		stop_waiting(&w);
		assert_false(rig_proc(&r, w.pid, &p));
		assert_int_equal(events_of(&r, w.pid, ev), 2);
		assert_int_equal(ev[0]->type, EV_FORK);
		assert_int_equal(ev[1]->type, EV_EXIT);
		r.event_cnt = 0;
	}
	rig_close(&r);
}

static void *exec_thread(void *arg)
{
	int *fds = arg;

	cat_body(fds[0], fds[1]);
	return NULL;
}

static void exec_from_thread_body(int in, int out)
{
	int fds[2] = { in, out };
	pthread_t t;

	pthread_create(&t, NULL, exec_thread, fds);
	pthread_join(t, NULL);
}

/* The thread that calls exec takes the process over; the leader's death is not the process's. */
static void exec_of_a_thread_is_no_exit(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, 0);
	start_waiting(&w, exec_from_thread_body);
	await_cat(&w);
	assert_true(rig_proc(&r, w.pid, &p));
	stop_waiting(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 3);
	assert_int_equal(ev[1]->type, EV_EXEC);
	assert_int_equal(ev[1]->space, p.space);
	assert_int_equal(ev[2]->type, EV_EXIT);
	rig_close(&r);
}

static void *outlive_leader(void *arg)
{
	int *fds = arg;

	if (write(fds[1], "x", 1) == 1)
		wait_for_end(fds[0], fds[1]);
	_exit(0);
}

static void leader_ends_body(int in, int out)
{
	static int fds[2];
	pthread_t t;

	fds[0] = in;
	fds[1] = out;
	pthread_create(&t, NULL, outlive_leader, fds);
	syscall(SYS_exit, 0); /* this thread alone */
}

/* A process whose first thread has ended lives on, and is still known. */
static void leader_may_end_first(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	char path[64], line[256] = "";
	struct rig r;
	FILE *f;

	(void)state;
	lifecycle_rig(&r, 0);
	start_waiting(&w, leader_ends_body);
	await_byte(&w);
	snprintf(path, sizeof(path), "/proc/%d/stat", w.pid);
	RIG_WAIT((f = fopen(path, "re")) && fgets(line, sizeof(line), f) && !fclose(f) &&
		 strstr(line, ") Z "));
	assert_true(rig_proc(&r, w.pid, &p));
	stop_waiting(&w);
	assert_false(rig_proc(&r, w.pid, &p));
	assert_int_equal(events_of(&r, w.pid, ev), 2);
	assert_int_equal(ev[1]->type, EV_EXIT);
	rig_close(&r);
}

/* vfork and exec, as subprocess.Popen and posix_spawn() do it. */
static void spawned_is_followed(void **state)
{
	char *const argv[] = { (char *)"true", NULL };
	const struct ev_proc *ev[16];
	struct rig r;
	pid_t pid;

	(void)state;
	lifecycle_rig(&r, 0);
	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(events_of(&r, pid, ev), 3);
	assert_int_equal(ev[0]->type, EV_FORK);
	assert_int_equal(ev[1]->type, EV_EXEC);
	assert_int_equal(ev[2]->type, EV_EXIT);
	rig_close(&r);
}

/* No room in procs: counted, and the samples of who found none are lost, by name. */
static void full_procs_are_counted(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	rig_open(&r, 0);
	bpf_map__set_max_entries(r.skel->maps.procs, 1);
	rig_load(&r);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	rig_attach_lifecycle(&r);
	start_waiting(&w, spin_for_ever);
	await_byte(&w);
	assert_true(rig_counter(&r, CTR_note_proc_full) > 0);
	assert_false(rig_proc(&r, w.pid, &p));
	assert_int_equal(events_of(&r, w.pid, ev), 0);
	expect_outcome(&r, w.pid, CTR_lost_no_proc);
	kill_waiting(&w);
	check_drained(&r, NULL, NULL);
	rig_close(&r);
}

/* No room for events: each one that is missing is counted, and procs is true all the same. */
static void full_event_ring_is_counted(void **state)
{
	uint64_t c[CTR_CNT];
	size_t taken = 0;
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	rig_open(&r, 0);
	bpf_map__set_max_entries(r.skel->maps.events, (uint32_t)sysconf(_SC_PAGESIZE));
	rig_load(&r);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	rig_attach_lifecycle(&r);
	for (int i = 0; i < 200; i++) {
		start_waiting(&w, wait_for_end);
		assert_true(rig_proc(&r, w.pid, &p));
		stop_waiting(&w);
		assert_false(rig_proc(&r, w.pid, &p));
	}
	rig_detach_lifecycle(&r);
	rig_counters(&r, c);
	assert_true(ring_buffer__consume(r.rings) >= 0);
	assert_true(c[CTR_note_event_lost] > 0 && r.event_cnt > 0);
	assert_int_equal(c[CTR_note_proc_full], 0);
	for (size_t i = 0; i < r.event_cnt; i++)
		taken += r.events[i].type != EV_AREA; /* which is lost without harm */
	assert_int_equal(taken + c[CTR_note_event_lost],
			 c[CTR_note_fork] + c[CTR_note_exec] + c[CTR_note_exit]);
	rig_close(&r);
}

/* ---- plain programs ------------------------------------------------------------------------ */

/* User space writes it into `plain_exes` when the program has ended. */
static void note_plain(struct rig *r, const struct exe_key *key)
{
	uint32_t yes = 1;

	assert_true(key->ino != 0);
	assert_int_equal(bpf_map_update_elem(r->maps.plain_exes_fd, key, &yes, BPF_ANY), 0);
}

/* An executable that is known to be plain does not wake, and nobody is told of it. */
static void plain_executables_do_not_wake(void **state)
{
	const struct ev_proc *ev[16] = { 0 };
	struct epoll_event woken;
	struct waiting w;
	struct proc p;
	struct rig r;
	size_t n;

	(void)state;
	lifecycle_rig(&r, CFG_PYTHON_ONLY);
	start_waiting(&w, cat_body);
	await_cat(&w);
	n = events_of(&r, w.pid, ev);
	assert_true(n >= 2 && ev[1]->type == EV_EXEC && !(ev[1]->status & PROC_PLAIN));
	assert_int_equal(r.skel->bss->user_woken, 1);
	note_plain(&r, &ev[1]->exe);
	stop_waiting(&w);

	start_waiting(&w, cat_body);
	await_cat(&w);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(p.flags & (PROC_QUIET | PROC_PLAIN), PROC_QUIET | PROC_PLAIN);
	stop_waiting(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 2); /* the child was told of: so is its end */
	assert_int_equal(ev[0]->type, EV_FORK);
	assert_int_equal(ev[1]->type, EV_EXIT);
	assert_int_equal(ev[1]->space, ev[0]->space);
	/* Others may start something else meanwhile: not each time. */
	for (int i = 0; i < 100; i++) {
		do {
			r.skel->bss->user_woken = 0;
			assert_true(ring_buffer__consume(r.rings) >= 0);
		} while (epoll_wait(ring_buffer__epoll_fd(r.rings), &woken, 1, 0) > 0);
		start_waiting(&w, cat_body);
		await_cat(&w);
		n = r.skel->bss->user_woken;
		stop_waiting(&w);
		if (!n)
			break;
	}
	assert_int_equal(n, 0);
	rig_close(&r);
}

/* The executable of the shell that never ends. */
static void spinning_shell(int in, int out)
{
	dup2(out, 1);
	(void)in;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl("/bin/sh", "sh", "-c", "echo; while :; do :; done", (char *)NULL);
}

/* Of a child of a process without Python nobody is told, sampled or not. */
static void children_of_plain_programs_are_quiet(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_PYTHON_ONLY);
	rig_add_image(&r, SPACE_SELF, 0);
	start_waiting(&w, spin_for_ever);
	await_byte(&w);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(p.flags & PROC_QUIET, PROC_QUIET);
	assert_int_equal(p.image, SPACE_SELF);
	expect_outcome(&r, w.pid, CTR_filtered_python);
	kill_waiting(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 0);
	assert_false(rig_proc(&r, w.pid, &p));
	rig_close(&r);
}

/* A plain program is announced by the first sample that counts, once, and so is its end. */
static void first_sample_announces(void **state)
{
	const struct ev_proc *ev[16];
	struct exe_key key;
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_PYTHON_ONLY);
	rig_add_image(&r, SPACE_SELF, 0);
	start_waiting(&w, spinning_shell);
	await_byte(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 1); /* nobody knows the shell yet */
	assert_int_equal(ev[0]->type, EV_EXEC);
	key = ev[0]->exe;
	note_plain(&r, &key);
	kill_waiting(&w);

	start_waiting(&w, spinning_shell);
	await_byte(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 0);
	r.skel->bss->user_woken = 0;
	expect_outcome(&r, w.pid, CTR_counted);
	assert_int_equal(r.skel->bss->user_woken, 1);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(p.flags & (PROC_QUIET | PROC_PLAIN), PROC_PLAIN);
	assert_int_equal(events_of(&r, w.pid, ev), 1);
	assert_int_equal(ev[0]->type, EV_EXEC);
	assert_int_equal(ev[0]->space, p.space);
	assert_int_equal(ev[0]->status & PROC_PLAIN, PROC_PLAIN);
	assert_memory_equal(&ev[0]->exe, &key, sizeof(key));
	assert_string_equal(ev[0]->comm, "sh");
	kill_waiting(&w);
	assert_int_equal(events_of(&r, w.pid, ev), 2);
	assert_int_equal(ev[1]->type, EV_EXIT);
	assert_int_equal(ev[1]->space, p.space);
	rig_close(&r);
}

static volatile pid_t vforked;
static volatile bool vfork_ends;

static void *vfork_and_spin(void *unused)
{
	vforked = 0;
	vfork_ends = false;
	if (!vfork()) {
		vforked = (pid_t)syscall(SYS_getpid);
		while (!vfork_ends)
			;
		_exit(0);
	}
	return unused;
}

/* A child of vfork() uses its parent's image until its exec, which mostly comes before a sample. */
static void vfork_is_told_by_its_first_sample(void **state)
{
	const struct ev_proc *ev[16];
	pthread_t thread;
	struct proc p;
	struct rig r;

	(void)state;
	lifecycle_rig(&r, CFG_PYTHON_ONLY);
	rig_add_image(&r, SPACE_SELF, IMAGE_PYTHON);
	assert_int_equal(pthread_create(&thread, NULL, vfork_and_spin, NULL), 0);
	while (!vforked)
		sched_yield();
	assert_true(rig_proc(&r, vforked, &p));
	assert_int_equal(p.flags & PROC_QUIET, PROC_QUIET);
	assert_int_equal(events_of(&r, vforked, ev), 0);
	expect_outcome(&r, vforked, CTR_counted);
	vfork_ends = true;
	pthread_join(thread, NULL);
	assert_int_equal(waitpid(vforked, NULL, 0), vforked);
	assert_int_equal(events_of(&r, vforked, ev), 2);
	assert_int_equal(ev[0]->type, EV_FORK);
	assert_int_equal(ev[0]->space, p.space);
	assert_int_equal(ev[0]->parent, SPACE_SELF);
	assert_int_equal(ev[0]->image, SPACE_SELF);
	assert_int_equal(ev[1]->type, EV_EXIT);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork_is_known_at_once),
		cmocka_unit_test(grandchild_has_the_nearest_image),
		cmocka_unit_test(fork_wakes_who_asked_for_processes),
		cmocka_unit_test(who_was_woken_is_left_alone),
		cmocka_unit_test(following_is_timed_if_asked),
		cmocka_unit_test(exec_is_a_new_space),
		cmocka_unit_test(children_are_targets_only_if_asked),
		cmocka_unit_test(threads_are_no_processes),
		cmocka_unit_test(process_exits_once),
		cmocka_unit_test(exec_of_a_thread_is_no_exit),
		cmocka_unit_test(leader_may_end_first),
		cmocka_unit_test(spawned_is_followed),
		cmocka_unit_test(full_procs_are_counted),
		cmocka_unit_test(full_event_ring_is_counted),
		cmocka_unit_test(plain_executables_do_not_wake),
		cmocka_unit_test(children_of_plain_programs_are_quiet),
		cmocka_unit_test(first_sample_announces),
		cmocka_unit_test(vfork_is_told_by_its_first_sample),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
