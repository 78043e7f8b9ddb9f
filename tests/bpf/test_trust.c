/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When the process table trusts an interpreter: real Pythons, and one that gives a wrong version.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "process_fixture.h"
#include "python/selfcheck.h"

#define ONE_FILE "/usr/bin/python3.11" /* Debian's: no library, Py_Version exported */

static struct fixture fx;
static char forged[] = "/tmp/test_trust.XXXXXX";
static uint32_t next_space = SPACE_FIRST_BPF;

/* 3.11.2 becomes 3.12.1, and another file to everyone who goes by build ids. */
static void forge_python(void)
{
	static const uint8_t version[8] = { 0xf0, 0x02, 0x0b, 0x03 };
	static const uint8_t note[16] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U' };
	int in = open(ONE_FILE, O_RDONLY | O_CLOEXEC), out = mkstemp(forged);
	uint8_t *data, *at;
	struct stat st;

	assert_true(in >= 0 && out >= 0 && !fstat(in, &st));
	data = malloc((size_t)st.st_size);
	assert_int_equal(read(in, data, (size_t)st.st_size), st.st_size);
	at = memmem(data, (size_t)st.st_size, version, sizeof(version));
	assert_non_null(at);
	at[1] = 0x01;
	at[2] = 0x0c;
	at = memmem(data, (size_t)st.st_size, note, sizeof(note));
	assert_non_null(at);
	memcpy(at + sizeof(note), "forged", 6);
	assert_int_equal(write(out, data, (size_t)st.st_size), st.st_size);
	assert_int_equal(fchmod(out, 0755), 0);
	close(in);
	close(out);
	free(data);
}

static struct process_table *table_for(const pid_t *pids, size_t cnt)
{
	struct process_opts opts = { .pids = pids, .pid_cnt = cnt };
	struct process_table *pt = fixture_table(&fx, &opts);

	assert_non_null(pt);
	assert_int_equal(process_table__scan(pt), 0);
	return pt;
}

static void table_done(struct process_table *pt)
{
	fixture_table_done(&fx, pt);
}

static struct process *process_of(struct process_table *pt, pid_t pid)
{
	struct process *p = process_table__find_tgid(pt, (uint32_t)pid);

	assert_non_null(p);
	return p;
}

/* What BPF is told of the process; 0: nothing. */
static uint32_t flags_of(struct process_table *pt, pid_t pid)
{
	uint32_t tgid = (uint32_t)pid;
	struct image val;
	struct proc p;

	(void)pt;
	assert_int_equal(bpf_map_lookup_elem(fx.maps.procs_fd, &tgid, &p), 0);
	if (bpf_map_lookup_elem(fx.maps.images_fd, &p.space, &val) &&
	    bpf_map_lookup_elem(fx.maps.images_fd, &p.image, &val))
		return 0;
	return val.flags;
}

/* Until the process's check has come to `state`; a bound, not a delay. */
static void refresh_until(struct process_table *pt, pid_t pid, enum selfcheck_state state)
{
	uint64_t end = now_ns() + 20000000000ULL;

	while (process_of(pt, pid)->checks[0].state != state && now_ns() < end) {
		process_table__refresh(pt);
		usleep(1000);
	}
	assert_int_equal(process_of(pt, pid)->checks[0].state, state);
}

static struct process *make_fork(struct process_table *pt, pid_t parent, pid_t child)
{
	uint32_t from = (uint32_t)parent, tgid = (uint32_t)child;
	struct ev_proc ev = { .type = EV_FORK, .tgid = tgid, .comm = "child" };
	struct proc p;

	assert_int_equal(bpf_map_lookup_elem(fx.maps.procs_fd, &from, &p), 0);
	ev.parent = p.space;
	ev.image = p.image;
	ev.space = p.space = next_space++;
	ev.time_ns = now_ns();
	assert_int_equal(bpf_map_update_elem(fx.maps.procs_fd, &tgid, &p, BPF_ANY), 0);
	assert_int_equal(process_table__on_event(pt, &ev), 0);
	return process_of(pt, child);
}

static pid_t fork_in(struct child *c)
{
	pid_t pid =
		atoi(child_ask(c, "pid = os.fork(); out = pid or (os.read(0, 1), os._exit(0))"));

	assert_true(pid > 0);
	return pid;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The first of a binary is checked at once, the next ones when there is time, forks never. */
static void one_stack_of_a_binary_is_enough_to_begin(void **state)
{
	struct child c[2] = { 0 };
	struct process_table *pt;
	struct process *p[2];
	pid_t pids[2], child;
	int passed;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(child_start(&c[i], ONE_FILE), 0);
		pids[i] = c[i].pid;
	}
	pt = table_for(pids, 2);
	for (int i = 0; i < 2; i++) {
		p[i] = process_of(pt, pids[i]);
		assert_true(flags_of(pt, pids[i]) & IMAGE_PYTHON);
	}
	assert_int_equal(p[0]->checks[0].state + p[1]->checks[0].state,
			 SELFCHECK_PASSED + SELFCHECK_TRUSTED);
	process_table__refresh(pt);
	assert_true(process_table__check_ns(pt) == UINT64_MAX); /* nobody wakes for the other one */
	passed = p[0]->checks[0].state == SELFCHECK_PASSED ? 0 : 1;
	child = fork_in(&c[passed]);
	assert_int_equal(make_fork(pt, pids[passed], child)->checks[0].state, SELFCHECK_PASSED);
	refresh_until(pt, pids[0], SELFCHECK_PASSED);
	refresh_until(pt, pids[1], SELFCHECK_PASSED);
	for (int i = 0; i < 2; i++)
		assert_true(flags_of(pt, pids[i]) & IMAGE_PYTHON);
	kill(child, SIGKILL);
	child_stop(&c[0]);
	child_stop(&c[1]);
	table_done(pt);
}

/* Without a stack there is nothing to check: trusted for now, and checked as soon as there is. */
static void a_starting_one_is_trusted_for_now(void **state)
{
	struct process_table *pt;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also of a failed test */
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(ONE_FILE, ONE_FILE, "-c", "import time; time.sleep(1000)", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* stopped behind its exec */
	pt = table_for(&pid, 1);
	assert_true(flags_of(pt, pid) & IMAGE_PYTHON);
	assert_int_equal(process_of(pt, pid)->checks[0].state, SELFCHECK_TRUSTED);
	for (int i = 0; i < 5; i++) {
		process_table__refresh(pt);
		assert_true(process_table__check_ns(pt) <
			    UINT64_MAX); /* wants to be called again */
	}
	assert_int_equal(process_of(pt, pid)->checks[0].state, SELFCHECK_TRUSTED);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	refresh_until(pt, pid, SELFCHECK_PASSED);
	assert_int_equal(process_table__refresh(pt), 0);
	assert_true(process_table__check_ns(pt) == UINT64_MAX);
	assert_true(flags_of(pt, pid) & IMAGE_PYTHON);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	table_done(pt);
}

/* Else it would stay due, and who waits until it is would not wait at all. */
static void a_check_without_its_file_is_put_off(void **state)
{
	struct selfcheck sc = { .state = SELFCHECK_TRUSTED, .due_ns = 1000, .wait_ms = 2 };

	(void)state;
	assert_false(selfcheck__again(NULL, &sc, NULL, 1, 2000));
	assert_int_equal(sc.state, SELFCHECK_TRUSTED);
	assert_int_equal(sc.due_ns, 2000 + 4000000);
}

/* Refused with its mappings and a reason, which its children have a copy of. */
static void a_forged_one_is_native_only(void **state)
{
	struct child c = { 0 };
	struct process_table *pt;
	struct process *p, *q;
	pid_t child;

	(void)state;
	setenv("PYTHONHOME", "/usr", 1);
	assert_int_equal(child_start(&c, forged), 0);
	unsetenv("PYTHONHOME");
	pt = table_for(&c.pid, 1);
	refresh_until(pt, c.pid, SELFCHECK_REFUSED);
	process_table__refresh(pt);
	p = process_of(pt, c.pid);
	printf("%s: %s\n", p->python, p->native_only);
	assert_int_equal(flags_of(pt, c.pid), IMAGE_NOT_WALKED);
	assert_ptr_equal(p->native_only, p->checks[0].why);
	assert_true(strlen(p->native_only) > 10);
	child = fork_in(&c);
	q = make_fork(pt, c.pid, child);
	assert_int_equal(flags_of(pt, child), IMAGE_NOT_WALKED);
	assert_ptr_equal(q->native_only, q->checks[0].why);
	assert_string_equal(q->native_only, p->native_only);
	for (int i = 0; i < 200; i++) { /* asked again, and again no */
		process_table__refresh(pt);
		usleep(1000);
	}
	assert_true(p->checks[0].wait_ms > 10);
	assert_int_equal(flags_of(pt, c.pid), IMAGE_NOT_WALKED);
	assert_int_equal(flags_of(pt, child), IMAGE_NOT_WALKED);
	kill(child, SIGKILL);
	child_stop(&c);
	table_done(pt);
}

/* One that did not hold once can hold later; then it is walked, and so are its children. */
static void a_refusal_is_not_for_ever(void **state)
{
	struct child c = { 0 };
	struct process_table *pt;
	struct py_binary *py;
	struct image val;
	uint32_t tgid;
	struct proc proc;
	uint64_t type;

	(void)state;
	assert_int_equal(child_start(&c, ONE_FILE), 0);
	pt = table_for(&c.pid, 1);
	tgid = (uint32_t)c.pid;
	assert_int_equal(bpf_map_lookup_elem(fx.maps.procs_fd, &tgid, &proc), 0);
	assert_int_equal(bpf_map_lookup_elem(fx.maps.images_fd, &proc.space, &val), 0);
	py = (struct py_binary *)process_table__interp(pt, val.interps[0].interp);
	type = py->interp.code_type;
	py->interp.code_type += 8; /* as if its memory were not yet what it will be */
	process_of(pt, c.pid)->checks[0] =
		(struct selfcheck){ .state = SELFCHECK_TRUSTED,
				    .file = process_of(pt, c.pid)->checks[0].file,
				    .bias = val.interps[0].bias };
	process_of(pt, c.pid)->checks[0].state = SELFCHECK_NEW;
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_MMAP,
							 .tgid = tgid,
							 .tid = tgid,
							 .time_ns = now_ns(),
							 .inode = 1 });
	process_table__refresh(pt);
	refresh_until(pt, c.pid, SELFCHECK_REFUSED);
	process_table__refresh(pt);
	assert_int_equal(flags_of(pt, c.pid), IMAGE_NOT_WALKED);
	assert_string_equal(process_of(pt, c.pid)->native_only,
			    "frame 0: code object's type is not PyCode_Type");
	py->interp.code_type = type;
	refresh_until(pt, c.pid, SELFCHECK_PASSED);
	process_table__refresh(pt);
	assert_true(flags_of(pt, c.pid) & IMAGE_PYTHON);
	assert_null(process_of(pt, c.pid)->native_only);
	child_stop(&c);
	table_done(pt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_stack_of_a_binary_is_enough_to_begin),
		cmocka_unit_test(a_starting_one_is_trusted_for_now),
		cmocka_unit_test(a_check_without_its_file_is_put_off),
		cmocka_unit_test(a_forged_one_is_native_only),
		cmocka_unit_test(a_refusal_is_not_for_ever),
	};
	int failed;

	if (access(ONE_FILE, X_OK)) {
		puts("skipped: there is no " ONE_FILE);
		return 77;
	}
	if (fixture_open(&fx)) {
		puts("skipped: cannot create BPF maps (needs CAP_BPF)");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	alarm(120);
	forge_python();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(forged);
	fixture_close(&fx);
	return failed;
}
