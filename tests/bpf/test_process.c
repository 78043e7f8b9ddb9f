/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process table against living processes: real Pythons, real BPF maps, made-up events of BPF.
 * Which processes it finds, and what fork, exec and exit make of them. Truth: /proc/PID/maps read
 * here in another way, and what the interpreters say of their own addresses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <sys/uio.h>

#include "process_table_fixture.h"

static uint64_t peek(pid_t pid, uint64_t addr)
{
	uint64_t val = 0;
	struct iovec to = { &val, sizeof(val) }, from = { (void *)(uintptr_t)addr, sizeof(val) };

	assert_true(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(val));
	return val;
}

/* The addresses that the image leads to are those that the interpreter gives. */
static void check_interp(struct child *c, const struct image *im)
{
	struct interp in;
	const char *answer;

	assert_int_equal(bpf_map_lookup_elem(fx.maps.interps_fd, &im->interps[0].interp, &in), 0);
	answer = child_ask(c, "out = '%d' % id(type((lambda: 0).__code__))");
	assert_non_null(answer);
	assert_true(strtoull(answer, NULL, 10) == im->interps[0].bias + in.code_type);
	answer = child_ask(c, "import ctypes; f = ctypes.pythonapi.PyInterpreterState_Head; "
			      "f.restype = ctypes.c_void_p; out = '%d' % f()");
	assert_non_null(answer);
	if (!strncmp(answer, "error", 5)) {
		print_message("no ctypes: %s\n", answer);
		return;
	}
	assert_true(strtoull(answer, NULL, 10) ==
		    peek(c->pid, im->interps[0].bias + in.interp_head));
}

static void finds_each_interpreter(void **state)
{
	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		struct child c;
		struct process_table *pt;
		struct process *p;
		struct image im;
		struct proc proc;
		const char *version;

		print_message("%s\n", pythons.path[i]);
		assert_int_equal(child_start(&c, pythons.path[i]), 0);
		pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
		scan(pt);
		proc = proc_of(c.pid);
		assert_int_equal(proc.flags, PROC_TARGET);
		assert_true(proc.space == proc.image && proc.space < SPACE_FIRST_BPF);
		p = process_table__find(pt, proc.space);
		assert_non_null(p);
		assert_ptr_equal(p, process_table__find_tgid(pt, (uint32_t)c.pid));
		assert_string_equal(p->exe, pythons.path[i]);
		assert_string_equal(p->container, "");
		assert_null(p->native_only);
		assert_true(image_of(proc.space, &im));
		assert_int_equal(im.flags, IMAGE_PYTHON);
		check_mappings(pt, c.pid, &im);
		assert_true(check_tables(pt, &im) > 2);
		check_interp(&c, &im);
		assert_string_equal(process_table__interp(pt, im.interps[0].interp)->version,
				    p->python);
		assert_null(process_table__interp(pt, im.interps[0].interp + 1));
		version = child_ask(&c, "out = '%d.%d' % sys.version_info[:2]");
		assert_non_null(version);
		assert_int_equal(strncmp(p->python, version, strlen(version)), 0);
		child_stop(&c);
		table_done(pt);
	}
}

/* Alive, and we may look at it. */
static bool has_maps(pid_t pid)
{
	char path[64], byte;
	bool some = false;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		some = read(fd, &byte, 1) == 1;
		close(fd);
	}
	return some;
}

/* A process that lives and was not analysed; 0: all were. */
static uint32_t find_pending(struct process_table *pt)
{
	struct process *p;

	for (size_t at = 0; (p = process_table__next(pt, &at));) {
		if (!p->image && !p->exited && has_maps((pid_t)p->tgid))
			return p->tgid;
	}
	return 0;
}

static void scans_the_machine(void **state)
{
	uint32_t pending, before = 0;
	struct process_table *pt;
	struct process_stats st;
	struct process *self, *p;
	struct image im;
	struct child c;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	/*
	 * Whoever is between two programs, and has no memory for a moment, is somebody else the
	 * next time.
	 */
	for (int tries = 10;; table_done(pt)) {
		pt = table_for(NULL, 0, (struct process_opts){ 0 });
		scan(pt);
		pending = find_pending(pt);
		if (!pending)
			break;
		if (pending == before || !--tries)
			fail_msg("process %u is pending", pending);
		before = pending;
	}
	process_table__stats(pt, &st);
	assert_true(st.live >= 2 && st.python >= 1);
	/* We are no Python: known, and nothing of us is in the kernel. */
	self = process_table__find_tgid(pt, (uint32_t)getpid());
	assert_non_null(self);
	assert_true(self->analysed && !self->is_python);
	assert_true(image_of(self->space, &im));
	assert_true(!im.flags && !im.map_cnt);
	p = process_table__find_tgid(pt, (uint32_t)c.pid);
	assert_true(p && p->is_python);
	assert_int_equal(proc_of(c.pid).flags, 0);
	/* Kernel threads are not processes. */
	assert_null(process_table__find_tgid(pt, 2));
	child_stop(&c);
	table_done(pt);
}

static void all_walks_everyone(void **state)
{
	pid_t self = getpid();
	struct process_table *pt = table_for(&self, 1, (struct process_opts){ .all = true });
	struct image im;

	(void)state;
	scan(pt);
	assert_true(image_of(proc_of(self).space, &im));
	assert_int_equal(im.flags, 0);
	check_mappings(pt, self, &im);
	assert_true(maps_file(pt, &im, "[vdso]"));
	check_tables(pt, &im);
	table_done(pt);
}

static void racing_fork_wins(void **state)
{
	pid_t self = getpid();
	struct process_table *pt = table_for(&self, 1, (struct process_opts){ .all = true });
	struct proc theirs = { .space = SPACE_FIRST_BPF + 77, .image = 5 }, found;
	uint32_t tgid = (uint32_t)self;

	(void)state;
	assert_int_equal(bpf_map_update_elem(fx.maps.procs_fd, &tgid, &theirs, BPF_ANY), 0);
	scan(pt);
	found = proc_of(self);
	assert_memory_equal(&found, &theirs, sizeof(found));
	assert_null(process_table__find_tgid(pt, tgid));
	/* Its event was lost: a resync takes it over. */
	assert_int_equal(process_table__resync(pt), 0);
	assert_non_null(process_table__find(pt, theirs.space));
	assert_true(image_of(theirs.space, &(struct image){ 0 }));
	table_done(pt);
}

static int forked_pid(struct child *c)
{
	/* The child waits for its end of a pipe to close, so it ends with its parent. */
	const char *answer = child_ask(
		c, "r, w = os.pipe(); pid = os.fork(); "
		   "out = str(pid) if pid else [os.close(w), os.read(r, 1), os._exit(0)]");

	assert_non_null(answer);
	return atoi(answer);
}

static void fork_shares_until_someone_changes(void **state)
{
	struct process_table *pt;
	struct proc parent, kid;
	struct image shared, im;
	struct process *p;
	struct child c;
	char lib[256];
	pid_t pid;

	(void)state;
	make_library("libforked.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	child_ask(&c, "import ctypes");
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	parent = proc_of(c.pid);
	assert_true(image_of(parent.space, &shared));
	pid = forked_pid(&c);
	kid = make_fork(pt, c.pid, pid);
	p = process_table__find(pt, kid.space);
	assert_true(p && p->is_python && p->tgid == (uint32_t)pid);
	assert_int_equal(process_table__refresh(pt), 0);
	assert_false(image_of(kid.space, &im));
	im = effective_image(&kid);
	assert_memory_equal(&im, &shared, sizeof(im));

	/* The parent changes: the child keeps what it had. */
	dlopen_in(&c, lib);
	made_mapping(pt, c.pid);
	process_table__refresh(pt);
	process_table__reclaim(pt);
	im = effective_image(&parent);
	assert_true(maps_file(pt, &im, "libforked"));
	check_mappings(pt, c.pid, &im);
	assert_true(image_of(kid.space, &im));
	assert_false(maps_file(pt, &im, "libforked"));
	check_mappings(pt, pid, &im);

	/* The parent goes first; its image goes with it, the child's stays. */
	make_exit(pt, c.pid);
	assert_false(image_of(parent.space, &im));
	assert_true(image_of(kid.space, &im));
	make_exit(pt, pid);
	assert_false(image_of(kid.space, &im));
	child_stop(&c);
	table_done(pt);
}

static void image_outlives_its_owner(void **state)
{
	struct process_table *pt;
	struct proc parent, kid, grandkid;
	struct image im;
	struct child c;
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	parent = proc_of(c.pid);
	pid = forked_pid(&c);
	kid = make_fork(pt, c.pid, pid);
	make_exit(pt, c.pid);
	im = effective_image(&kid);
	assert_int_equal(im.flags, IMAGE_PYTHON);
	grandkid = make_fork(pt, pid, getpid()); /* any other living process */
	assert_true(grandkid.image == parent.space);
	make_exit(pt, pid);
	im = effective_image(&grandkid);
	assert_int_equal(im.flags, IMAGE_PYTHON);
	make_exit(pt, getpid());
	assert_false(image_of(parent.space, &im));
	child_stop(&c);
	table_done(pt);
}

/* A child maps something before its fork was read: it is looked at all the same. */
static void mapping_before_fork_is_remembered(void **state)
{
	struct process_stats before, after;
	struct process_table *pt;
	struct child c;
	struct image im;
	struct proc kid;
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	pid = forked_pid(&c);
	made_mapping(pt, pid);
	process_table__refresh(pt);
	process_table__stats(pt, &before);
	kid = make_fork(pt, c.pid, pid);
	process_table__refresh(pt);
	process_table__stats(pt, &after);
	assert_true(after.refreshed == before.refreshed + 1);
	im = effective_image(&kid);
	check_mappings(pt, pid, &im);
	child_stop(&c);
	table_done(pt);
}

static void exec_is_a_new_process(void **state)
{
	struct mmapwatch *w = mmapwatch__new(0, MMAPWATCH_EACH);
	struct process_table *pt;
	struct process *old, *p;
	struct proc before, after;
	struct image im;
	struct child c;
	char line[4096];

	(void)state;
	assert_non_null(w);
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	before = proc_of(c.pid);
	/* To cat, which answers with what it is told. */
	fprintf(c.to, "os.execv('/bin/cat', ['cat'])\n");
	assert_string_equal(child_ask(&c, "hello"), "hello");
	mmapwatch__read(w, process_table__on_mmap, pt);
	assert_true(process_table__refresh(pt) > 0); /* in exec: not looked at */
	assert_true(image_of(before.space, &im) && im.flags == IMAGE_PYTHON);
	after = make_exec(pt, c.pid);
	process_table__refresh(pt);
	old = process_table__find(pt, before.space);
	p = process_table__find(pt, after.space);
	assert_true(old && old->exited && old->is_python && old->python[0]);
	assert_true(p && !p->exited && !p->is_python);
	assert_ptr_equal(p, process_table__find_tgid(pt, (uint32_t)c.pid));
	assert_string_equal(p->comm, "execed");
	assert_false(image_of(before.space, &im));
	assert_true(image_of(after.space, &im));
	assert_int_equal(im.flags, 0);

	make_exit(pt, c.pid);
	child_stop(&c);
	table_done(pt);

	/* And from Python to Python. */
	snprintf(line, sizeof(line), "os.execv('%s', ['python', '-c', %s])", pythons.path[0],
		 "'import sys; sys.stdout.write(sys.stdin.readline()); sys.stdout.flush(); "
		 "sys.stdin.readline()'");
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	fprintf(c.to, "%s\n", line);
	assert_string_equal(child_ask(&c, "hello"), "hello");
	mmapwatch__read(w, process_table__on_mmap, pt);
	after = make_exec(pt, c.pid);
	process_table__refresh(pt);
	assert_true(image_of(after.space, &im));
	assert_int_equal(im.flags, IMAGE_PYTHON);
	child_stop(&c);
	table_done(pt);
	mmapwatch__free(w);
}

/* The second exec of a program that was looked at a moment ago costs no look at /proc. */
static void plain_exec_is_settled_by_its_mappings(void **state)
{
	struct mmapwatch *w = mmapwatch__new(0, MMAPWATCH_EACH);
	struct process_stats st;
	struct process_table *pt;
	struct proc after;
	struct image im;
	pid_t self = getpid();
	bool settled = false;

	(void)state;
	assert_non_null(w);
	pt = table_for(&self, 1, (struct process_opts){ .children = true });
	scan(pt);
	for (int i = 0; i < 5 && !settled; i++) {
		struct child c = { 0 };
		int in[2], out[2];

		assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
		mmapwatch__read(w, process_table__on_mmap, pt);
		c.pid = fork();
		if (!c.pid) {
			char byte;

			if (read(in[0], &byte, 1) < 0) /* until our parent told of the fork */
				_exit(1);
			dup2(in[0], 0);
			dup2(out[1], 1);
			execl("/bin/cat", "cat", (char *)NULL);
			_exit(127);
		}
		make_fork(pt, self, c.pid);
		close(in[0]);
		close(out[1]);
		c.to = fdopen(in[1], "w");
		c.from = fdopen(out[0], "r");
		assert_string_equal(child_ask(&c, "xhello"), "hello");
		mmapwatch__read(w, process_table__on_mmap, pt);
		after = make_exec(pt, c.pid);
		process_table__stats(pt, &st);
		settled = st.exec_plain > 0;
		if (settled)
			assert_true(image_of(after.space, &im) && !im.flags && !im.map_cnt);
		process_table__refresh(pt);
		assert_true(image_of(after.space, &im));
		make_exit(pt, c.pid);
		child_stop(&c);
	}
	assert_true(settled);
	table_done(pt);
	mmapwatch__free(w);
}

static void exited_are_kept_for_the_report(void **state)
{
	struct process_table *pt;
	struct child c;
	struct image im;
	struct proc proc;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	proc = proc_of(c.pid);
	make_exit(pt, c.pid);
	assert_false(image_of(proc.space, &im));
	assert_null(process_table__find_tgid(pt, (uint32_t)c.pid));
	assert_true(process_table__find(pt, proc.space)->exited);
	process_table__forget_exited(pt); /* its last counts may be in the next window */
	assert_non_null(process_table__find(pt, proc.space));
	process_table__forget_exited(pt);
	assert_null(process_table__find(pt, proc.space));
	child_stop(&c);
	table_done(pt);
}

static void lost_exit_is_found_by_resync(void **state)
{
	struct process_table *pt;
	struct child c;
	struct proc proc;
	uint32_t tgid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	proc = proc_of(c.pid);
	tgid = (uint32_t)c.pid;
	child_stop(&c);
	bpf_map_delete_elem(fx.maps.procs_fd, &tgid);
	assert_int_equal(process_table__resync(pt), 0);
	assert_true(process_table__find(pt, proc.space)->exited);
	table_done(pt);
}

static void existing_descendants_are_targets(void **state)
{
	struct process_table *pt;
	struct child c;
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pid = forked_pid(&c);
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	assert_int_equal(proc_of(pid).flags, PROC_TARGET);
	assert_null(process_table__find_tgid(pt, (uint32_t)getpid()));
	table_done(pt);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	assert_null(process_table__find_tgid(pt, (uint32_t)pid));
	child_stop(&c);
	table_done(pt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_each_interpreter),
		cmocka_unit_test(scans_the_machine),
		cmocka_unit_test(all_walks_everyone),
		cmocka_unit_test(racing_fork_wins),
		cmocka_unit_test(fork_shares_until_someone_changes),
		cmocka_unit_test(image_outlives_its_owner),
		cmocka_unit_test(mapping_before_fork_is_remembered),
		cmocka_unit_test(exec_is_a_new_process),
		cmocka_unit_test(plain_exec_is_settled_by_its_mappings),
		cmocka_unit_test(exited_are_kept_for_the_report),
		cmocka_unit_test(lost_exit_is_found_by_resync),
		cmocka_unit_test(existing_descendants_are_targets),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
