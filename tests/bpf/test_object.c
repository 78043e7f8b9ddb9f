/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The BPF object on this kernel: its programs driven by real processes, its maps and counters read
 * key by key. Truth: the sections that functions of this program lie in, fnmatch(3), wait(2), the
 * names that an interpreter was given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fnmatch.h>
#include <link.h>
#include <mntent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "follow/follow.h"
#include "object_fixture.h"
#include "process/cgroup.h"
#include "process/pidns.h"
#include "process_fixture.h"
#include "python/pylines.h"
#include "sample/uses.h"
#include "unit/pythons.h"

#define SPACE_SELF  100
#define SPACE_OTHER 101
#define COMM	    "test-object_7"

extern char **environ;

static pid_t self_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* ---- children ------------------------------------------------------------------------------- */

struct waiting {
	pid_t pid;
	int to; /* closed: it ends */
	int from;
};

static void start_waiting(struct waiting *w, void (*body)(int in, int out))
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (!w->pid) {
		close(in[1]);
		close(out[0]);
		body(in[0], out[1]);
		_exit(0);
	}
	close(in[0]);
	close(out[1]);
	w->to = in[1];
	w->from = out[0];
}

static int stop_waiting(struct waiting *w)
{
	int status = -1;

	close(w->to);
	close(w->from);
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	return status;
}

/* The child has got as far as writing a byte. */
static void await_byte(const struct waiting *w)
{
	char byte;

	assert_int_equal(read(w->from, &byte, 1), 1);
}

static void wait_for_end(int in, int out)
{
	char byte;

	(void)out;
	while (read(in, &byte, 1) > 0)
		;
}

/* Spins until it is killed, or its parent has died. */
static void spin_for_ever(int in, int out)
{
	(void)in;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(out, "x", 1) == 1)
		for (;;)
			__asm__ volatile("");
}

static void kill_waiting(struct waiting *w)
{
	kill(w->pid, SIGKILL);
	stop_waiting(w);
}

/* ---- the verifier --------------------------------------------------------------------------- */

#define LOG_SIZE  (1 << 20)
#define MAX_INSNS 200000 /* of the kernel's 1,000,000, and about what 5.15 takes longest for */

static char verifier_log[16][LOG_SIZE];

static uint32_t processed_insns(const char *log)
{
	const char *at = strstr(log, "processed ");
	unsigned insns = 0;

	if (!at || sscanf(at, "processed %u insns", &insns) != 1)
		fail_msg("the verifier's statistics: '%s'", log);
	return insns;
}

/* Loads the object and notes each program's instructions; the most of all programs. */
static uint32_t load_with_log(struct rig *r, bool print)
{
	const uint32_t stats = 4; /* BPF_LOG_STATS, include/linux/bpf_verifier.h */
	struct bpf_program *prog;
	uint32_t most = 0;
	size_t i = 0;

	bpf_object__for_each_program(prog, r->skel->obj)
	{
		assert_true(i < sizeof(verifier_log) / sizeof(verifier_log[0]));
		bpf_program__set_log_level(prog, stats);
		bpf_program__set_log_buf(prog, verifier_log[i], LOG_SIZE);
		verifier_log[i++][0] = '\0';
	}
	rig_load(r);
	i = 0;
	bpf_object__for_each_program(prog, r->skel->obj)
	{
		uint32_t insns = processed_insns(verifier_log[i++]);

		if (print)
			print_message("%s: %u instructions verified\n", bpf_program__name(prog),
				      insns);
		most = insns > most ? insns : most;
	}
	assert_true(most > 0);
	return most;
}

static void set_glob(struct pyperf_cfg *cfg)
{
	cfg->flags |= CFG_COMM;
	snprintf(cfg->comm_glob, sizeof(cfg->comm_glob), "*a[!b-y]?[]z-]*c*d[e-f]");
}

static void set_cgroup_v1(struct pyperf_cfg *cfg)
{
	cfg->flags |= CFG_CGROUP;
	cfg->cgroup_id = 1;
	cfg->cgroup_subsys = 3;
}

static void set_cgroup_v2(struct pyperf_cfg *cfg)
{
	cfg->flags |= CFG_CGROUP;
	cfg->cgroup_id = 1;
}

static void set_pidns(struct pyperf_cfg *cfg)
{
	cfg->flags |= CFG_PIDNS;
	cfg->pidns_level = 3;
	cfg->pidns_inum = 1;
}

static void set_all(struct pyperf_cfg *cfg)
{
	set_glob(cfg);
	set_cgroup_v1(cfg);
	set_pidns(cfg);
}

static void set_none(struct pyperf_cfg *cfg)
{
	(void)cfg;
}

static void (*const setters[])(struct pyperf_cfg *) = { set_none,      set_glob,  set_cgroup_v1,
							set_cgroup_v2, set_pidns, set_all };
#define VALUE_FLAGS (CFG_COMM | CFG_CGROUP | CFG_PIDNS | CFG_USER | CFG_TIDS)

static uint32_t load_config(uint32_t flags, void (*set)(struct pyperf_cfg *), bool print)
{
	struct rig r;
	uint32_t insns;

	rig_open(&r, flags);
	set(rig_cfg(&r));
	insns = load_with_log(&r, print);
	rig_close(&r);
	if (insns > MAX_INSNS)
		fail_msg("flags 0x%x: %u instructions verified", rig_cfg(&r)->flags, insns);
	return insns;
}

/*
 * The configuration is constant to the verifier, which cuts off what is switched off: each
 * combination is another program, and all must load far below the kernel's limit. Nothing, each
 * walk alone, each flag with both walks; each filter with a value with both walks and with all.
 */
static void every_configuration_is_verified(void **state)
{
	const uint32_t walk = CFG_NATIVE | CFG_KERNEL, all = (CFG_NMI << 1) - 1 - VALUE_FLAGS;
	const uint32_t flags[] = {
		0,
		CFG_NATIVE,
		CFG_KERNEL,
		walk | CFG_PYTHON_ONLY,
		walk | CFG_TARGETS,
		walk | CFG_CHILDREN,
		walk | CFG_THREADS,
		walk | CFG_NMI,
	};
	uint32_t insns, most = load_config(walk, set_none, true);

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		insns = load_config(flags[i], set_none, false);
		most = insns > most ? insns : most;
	}
	for (size_t i = 0; i < sizeof(setters) / sizeof(setters[0]); i++) {
		insns = load_config(walk, setters[i], false);
		most = insns > most ? insns : most;
		insns = load_config(all, setters[i], false);
		most = insns > most ? insns : most;
	}
	print_message("at most %u instructions\n", most);
}

/* The object as it is, without any value of ours: for tools that only load it. */
static void defaults_load(void **state)
{
	struct pyperf_bpf *skel = pyperf_bpf__open_and_load();

	(void)state;
	assert_non_null(skel);
	pyperf_bpf__destroy(skel);
}

/* ---- filters -------------------------------------------------------------------------------- */

/* Samples a thread: every single sample must have had this one outcome. */
static void expect_outcome(struct rig *r, pid_t tid, enum pyperf_counter outcome)
{
	uint64_t before[CTR_CNT], after[CTR_CNT];

	rig_counters(r, before);
	rig_sample(r, tid, 20);
	rig_counters(r, after);
	check_balance(after);
	if (after[outcome] - before[outcome] != after[CTR_delivered] - before[CTR_delivered])
		fail_msg("%llu samples, %llu of them %s",
			 (unsigned long long)(after[CTR_delivered] - before[CTR_delivered]),
			 (unsigned long long)(after[outcome] - before[outcome]),
			 counter_names[outcome]);
}

/* What was counted is in the maps, and nothing else. */
static void check_drained(struct rig *r, stack_fn fn, void *ctx)
{
	assert_int_equal(rig_drain(r, fn, ctx), rig_counter(r, CTR_counted));
}

static void one_outcome(uint32_t flags, uint32_t proc_flags, int image, enum pyperf_counter outcome)
{
	struct rig r;

	rig_open(&r, flags);
	rig_load(&r);
	if (proc_flags != ~0U)
		rig_add_proc(&r, getpid(), SPACE_SELF, proc_flags);
	if (image >= 0)
		rig_add_image(&r, SPACE_SELF, (uint32_t)image);
	expect_outcome(&r, self_tid(), outcome);
	check_drained(&r, NULL, NULL);
	rig_close(&r);
}

static void plain_filters_decide(void **state)
{
	const uint32_t walk = CFG_NATIVE | CFG_KERNEL, unknown = ~0U;

	(void)state;
	one_outcome(walk, unknown, -1, CTR_lost_no_proc);
	one_outcome(walk, 0, -1, CTR_counted); /* pending */
	one_outcome(walk, 0, 0, CTR_counted);
	one_outcome(0, 0, 0, CTR_counted);
	one_outcome(CFG_KERNEL, 0, 0, CTR_counted);
	one_outcome(walk | CFG_THREADS, 0, 0, CTR_counted);
	one_outcome(walk | CFG_PYTHON_ONLY, 0, 0, CTR_filtered_python);
	one_outcome(walk | CFG_PYTHON_ONLY, 0, -1, CTR_counted);
	one_outcome(walk | CFG_PYTHON_ONLY, 0, IMAGE_NOT_WALKED, CTR_counted);
	one_outcome(walk | CFG_TARGETS, 0, 0, CTR_filtered_target);
	one_outcome(walk | CFG_TARGETS, unknown, -1, CTR_filtered_target);
	one_outcome(walk | CFG_TARGETS | CFG_CHILDREN, PROC_TARGET, 0, CTR_counted);
	one_outcome(walk | CFG_TARGETS | CFG_PYTHON_ONLY, PROC_TARGET, 0, CTR_filtered_python);
}

/*
 * A process without an image has a user stack of which nothing is known: it is among those that are
 * not complete.
 */
static void unknown_stacks_are_user_stacks(void **state)
{
	uint64_t c[CTR_CNT];
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE | CFG_KERNEL);
	rig_load(&r);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	rig_sample(&r, self_tid(), 20);
	rig_counters(&r, c);
	assert_true(c[CTR_counted] > 0);
	assert_int_equal(c[CTR_note_pending], c[CTR_counted]);
	assert_int_equal(c[CTR_user_stacks], c[CTR_counted]);
	assert_int_equal(c[CTR_complete], 0);
	rig_close(&r);
}

/* --comm means the process's name, and what fnmatch(3) would say of it. */
static void comm_glob_is_fnmatch(void **state)
{
	static const char *const globs[] = {
		COMM,
		"test-object",
		"test-object_7x",
		"*7*",
		"**t**o*7",
		"*t*t*t*t*",
		"*t*t*t*",
		"????????????",
		"test[-]object_[0-9]",
		"test[!-]object_7",
		"test[a-z]object_7",
		"*[!6-8]",
		"[s-u]est*",
		"[]t]est*",
		"[!]a]est*",
		"*[a-]object*",
		"test-object_[79]",
		"",
	};
	char old[TASK_COMM_LEN] = "";

	(void)state;
	prctl(PR_GET_NAME, old);
	prctl(PR_SET_NAME, COMM);
	for (size_t i = 0; i < sizeof(globs) / sizeof(globs[0]); i++) {
		bool match = !fnmatch(globs[i], COMM, FNM_NOESCAPE);
		struct rig r;

		rig_open(&r, CFG_COMM);
		snprintf(rig_cfg(&r)->comm_glob, GLOB_LEN, "%s", globs[i]);
		rig_load(&r);
		rig_add_proc(&r, getpid(), SPACE_SELF, 0);
		rig_sample(&r, self_tid(), 3);
		rig_check_balance(&r);
		if ((rig_counter(&r, CTR_counted) > 0) != match ||
		    (rig_counter(&r, CTR_filtered_comm) > 0) == match)
			fail_msg("'%s' %s '%s'", globs[i], match ? "is not" : "is", COMM);
		rig_close(&r);
	}
	prctl(PR_SET_NAME, old);
}

/* Where a control group hierarchy is mounted: v2, or a v1 one with this controller. */
static bool find_hierarchy(const char *controller, char *path, size_t size)
{
	FILE *f = setmntent("/proc/mounts", "re");
	struct mntent *m;
	bool found = false;

	assert_non_null(f);
	while (!found && (m = getmntent(f))) {
		found = controller ? !strcmp(m->mnt_type, "cgroup") && hasmntopt(m, controller)
				   : !strcmp(m->mnt_type, "cgroup2");
		if (found)
			snprintf(path, size, "%s", m->mnt_dir);
	}
	endmntent(f);
	return found;
}

static bool join_group(const char *group, pid_t pid)
{
	char path[512];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	f = fopen(path, "we");
	if (!f)
		return false;
	ok = fprintf(f, "%d\n", pid) > 0;
	return !fclose(f) && ok;
}

/* A process counts when it is in the group or below it; any other is filtered. */
static void check_group(const char *top, const char *group, const char *below, pid_t inside)
{
	const char *const counted[] = { top, group, below };
	char other[512];
	struct rig r;

	snprintf(other, sizeof(other), "%s/other", top);
	for (size_t i = 0; i < 4; i++) {
		struct cgroup cg;
		char why[256];

		assert_int_equal(cgroup__resolve(i < 3 ? counted[i] : other, &cg, why, sizeof(why)),
				 0);
		rig_open(&r, CFG_CGROUP);
		rig_cfg(&r)->cgroup_id = cg.id;
		rig_cfg(&r)->cgroup_subsys = cg.subsys;
		rig_load(&r);
		rig_add_proc(&r, inside, SPACE_OTHER, 0);
		rig_add_proc(&r, getpid(), SPACE_SELF, 0);
		expect_outcome(&r, inside, i < 3 ? CTR_counted : CTR_filtered_cgroup);
		expect_outcome(&r, self_tid(), CTR_filtered_cgroup);
		check_drained(&r, NULL, NULL);
		rig_close(&r);
	}
}

static struct {
	char top[320], group[384], below[448], other[384];
	struct waiting inside;
} groups;

static bool make_groups(const char *mount)
{
	snprintf(groups.top, sizeof(groups.top), "%s/pyperf-object-%d", mount, getpid());
	snprintf(groups.group, sizeof(groups.group), "%s/group", groups.top);
	snprintf(groups.below, sizeof(groups.below), "%s/below", groups.group);
	snprintf(groups.other, sizeof(groups.other), "%s/other", groups.top);
	return !mkdir(groups.top, 0755) && !mkdir(groups.group, 0755) &&
	       !mkdir(groups.below, 0755) && !mkdir(groups.other, 0755);
}

/* After a failure as well: a group outlives the process that made it. */
static int remove_groups(void **state)
{
	(void)state;
	if (groups.inside.pid)
		kill_waiting(&groups.inside);
	/* A dead process may still be accounted to its group for a moment. */
	RIG_WAIT(!rmdir(groups.below) || errno != EBUSY);
	rmdir(groups.group);
	rmdir(groups.other);
	rmdir(groups.top);
	memset(&groups, 0, sizeof(groups));
	return 0;
}

static void check_hierarchy(const char *controller)
{
	char mount[256];

	if (!find_hierarchy(controller, mount, sizeof(mount))) {
		print_message("no hierarchy of control groups is mounted: %s\n",
			      controller ? controller : "v2");
		skip();
	}
	if (!make_groups(mount)) {
		print_message("no control groups can be made in %s: %s\n", mount, strerror(errno));
		skip();
	}
	start_waiting(&groups.inside, spin_for_ever);
	await_byte(&groups.inside);
	assert_true(join_group(groups.below, groups.inside.pid));
	check_group(groups.top, groups.group, groups.below, groups.inside.pid);
}

static void cgroup_v2_and_below(void **state)
{
	(void)state;
	check_hierarchy(NULL);
}

static void cgroup_v1_and_below(void **state)
{
	(void)state;
	check_hierarchy("cpu");
}

static void pidns_body(int in, int out)
{
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWPID))
		_exit(1);
	pid = fork(); /* number 1 of the new namespace */
	if (!pid)
		spin_for_ever(in, out);
	if (write(out, &pid, sizeof(pid)) == sizeof(pid))
		wait_for_end(in, out);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Reads the grandchild's number and the byte that it is on its way, in whatever order. */
static pid_t read_grandchild(const struct waiting *w)
{
	char bytes[5];
	size_t got = 0;
	pid_t pid;

	while (got < sizeof(bytes)) {
		ssize_t n = read(w->from, bytes + got, sizeof(bytes) - got);

		assert_true(n > 0);
		got += (size_t)n;
	}
	memcpy(&pid, bytes[0] == 'x' && !bytes[4] ? bytes + 1 : bytes, sizeof(pid));
	return pid;
}

/* As a run inside a pid namespace sees it: numbers of that namespace, and nobody from outside. */
static void pidns_numbers_are_the_callers(void **state)
{
	struct pidns own;
	struct waiting w;
	char path[64];
	struct stat st;
	struct rig r;
	pid_t inside;

	(void)state;
	assert_int_equal(pidns__self(&own), 0);
	start_waiting(&w, pidns_body);
	inside = read_grandchild(&w);
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", inside);
	assert_int_equal(stat(path, &st), 0);

	rig_open(&r, CFG_PIDNS | CFG_THREADS); /* in the namespace inside */
	rig_cfg(&r)->pidns_level = own.level + 1;
	rig_cfg(&r)->pidns_inum = (uint32_t)st.st_ino;
	rig_load(&r);
	rig_add_proc(&r, 1, SPACE_OTHER, 0);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	expect_outcome(&r, inside, CTR_counted);
	expect_outcome(&r, self_tid(), CTR_filtered_pidns);
	check_drained(&r, NULL, NULL);
	rig_close(&r);

	rig_open(&r, CFG_PIDNS | CFG_THREADS); /* in our own, which can see both */
	rig_cfg(&r)->pidns_level = own.level;
	rig_cfg(&r)->pidns_inum = own.inum;
	rig_load(&r);
	rig_add_proc(&r, inside, SPACE_OTHER, 0);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	expect_outcome(&r, inside, CTR_counted);
	expect_outcome(&r, self_tid(), CTR_counted);
	check_drained(&r, NULL, NULL);
	rig_close(&r);
	stop_waiting(&w);
}

/* ---- fork, exec, exit ------------------------------------------------------------------------ */

static void lifecycle_rig(struct rig *r, uint32_t flags)
{
	rig_open(r, flags);
	rig_load(r);
	rig_add_proc(r, getpid(), SPACE_SELF, PROC_TARGET);
	rig_attach_lifecycle(r);
}

/* What one process did since the start, but for its mappings; all others are dropped. */
static size_t events_of(struct rig *r, pid_t pid, const struct ev_proc *out[16])
{
	size_t n = 0;

	assert_true(ring_buffer__consume(r->rings) >= 0);
	for (size_t i = 0; i < r->event_cnt; i++)
		if (r->events[i].tgid == (uint32_t)pid && r->events[i].type != EV_AREA && n < 16)
			out[n++] = &r->events[i];
	return n;
}

static void cat_body(int in, int out)
{
	dup2(in, 0);
	dup2(out, 1);
	execl("/bin/cat", "cat", (char *)NULL);
}

/* What it writes comes back: the exec is over. */
static void await_cat(const struct waiting *w)
{
	assert_int_equal(write(w->to, "x", 1), 1);
	await_byte(w);
}

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
		r->skel->bss->told = 0;
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
	assert_int_equal(r.skel->bss->told, 1);
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

/* ---- addresses that are given out anew ------------------------------------------------------- */

#define AREA_PAGES 200
#define PAGE	   4096UL

/* Mappings of a page each from `at` on: one below it, AREA_PAGES, one above. Their number. */
static uint32_t write_area(struct rig *r, uint32_t first, uint64_t at)
{
	for (uint32_t i = 0; i < AREA_PAGES + 2; i++)
		r->maps.mappings[first + i] =
			(struct mapping){ .start = at + (i - 1ULL) * PAGE, .end = at + i * PAGE };
	return AREA_PAGES + 2;
}

/* The number of empty ones; those beside the area are whole. */
static uint32_t emptied(const struct rig *r, uint32_t first)
{
	const struct mapping *m = r->maps.mappings + first;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < AREA_PAGES + 2; i++)
		cnt += m[i].end == m[i].start;
	assert_true(m[0].end == m[0].start + PAGE);
	assert_true(m[AREA_PAGES + 1].end == m[AREA_PAGES + 1].start + PAGE);
	return cnt;
}

static void *map_area(void)
{
	void *at = mmap(NULL, AREA_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

/* Frees the area and maps until it is given out again. */
static void map_again(void *area)
{
	void *at = NULL;

	assert_int_equal(munmap(area, AREA_PAGES * PAGE), 0);
	for (int i = 0; i < 1000 && at != area; i++) /* higher gaps are filled first */
		at = map_area();
	assert_ptr_equal(at, area);
}

static void area_rig(struct rig *r, uint64_t at)
{
	struct image im = { .map_first = 1000 };
	uint32_t space = SPACE_SELF;

	lifecycle_rig(r, 0);
	if (!r->skel->links.on_unmapped_area) {
		print_message("the kernel has no tracepoint vm_unmapped_area\n");
		skip();
	}
	im.map_cnt = write_area(r, im.map_first, at);
	write_area(r, 2000, at);
	assert_int_equal(bpf_map_update_elem(r->maps.images_fd, &space, &im, BPF_ANY), 0);
}

/*
 * What was mapped there is taken out of the image, and of a draft for it; not of another's draft.
 */
static void addresses_given_out_belong_to_no_file(void **state)
{
	void *area = map_area();
	struct proc before, after;
	struct rig r;

	(void)state;
	area_rig(&r, (uintptr_t)area);
	assert_true(rig_proc(&r, getpid(), &before));
	r.skel->bss->draft = DRAFT_WORD(SPACE_OTHER, 2000, AREA_PAGES + 2);
	munmap(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
	assert_int_equal(emptied(&r, 1000), 0); /* elsewhere */
	map_again(area);
	assert_int_equal(emptied(&r, 1000), AREA_PAGES);
	assert_int_equal(emptied(&r, 2000), 0);
	r.skel->bss->draft = DRAFT_WORD(SPACE_SELF, 2000, AREA_PAGES + 2);
	map_again(area);
	assert_int_equal(emptied(&r, 2000), AREA_PAGES);
	assert_true(rig_proc(&r, getpid(), &after));
	assert_true(after.areas >= before.areas + 3);
	assert_int_equal(after.image, SPACE_SELF);
	assert_true(rig_counter(&r, CTR_note_remapped) >= 1);
	rig_close(&r);
}

static void map_page(int prot, int flags, int fd)
{
	void *at = mmap(NULL, PAGE, prot, flags, fd, 0);

	assert_true(at != MAP_FAILED);
	munmap(at, PAGE);
}

/* What is mapped to read and write is left alone: most mappings are. All else may become code. */
static void memory_is_not_followed(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct proc before, after;
	struct rig r;

	(void)state;
	assert_true(fd >= 0);
	area_rig(&r, (uintptr_t)map_area());
	assert_true(rig_proc(&r, getpid(), &before));
	for (int i = 0; i < 100; i++)
		map_page(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_true(rig_proc(&r, getpid(), &after));
	assert_true(after.areas < before.areas + 50); /* malloc() maps, too, as it likes */
	before = after;
	map_page(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
	map_page(PROT_READ, MAP_PRIVATE, fd);
	assert_true(rig_proc(&r, getpid(), &after));
	assert_true(after.areas >= before.areas + 4);
	rig_close(&r);
	close(fd);
}

static size_t areas_told(struct rig *r)
{
	size_t n = 0;

	r->skel->bss->told = 0;
	assert_true(ring_buffer__consume(r->rings) >= 0);
	for (size_t i = 0; i < r->event_cnt; i++)
		n += r->events[i].type == EV_AREA && r->events[i].tgid == (uint32_t)getpid();
	return n;
}

/* Libraries and code, not memory and data. */
static void areas_of_code_are_told(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct rig r;

	(void)state;
	assert_true(fd >= 0);
	area_rig(&r, (uintptr_t)map_area());
	map_page(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_READ, MAP_SHARED, fd);
	assert_int_equal(areas_told(&r), 0);
	map_page(PROT_READ, MAP_PRIVATE, fd);
	assert_int_equal(areas_told(&r), 1);
	map_page(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_int_equal(areas_told(&r), 2);
	rig_close(&r);
	close(fd);
}

/* Of processes that have no Python, and whose executable never had, nobody wants to know. */
static void areas_of_plain_programs_are_not_told(void **state)
{
	static const struct {
		uint32_t image;
		uint16_t proc;
		uint32_t cfg;
		size_t told;
	} cases[] = {
		{ 0, PROC_PLAIN, CFG_PYTHON_ONLY, 0 },
		{ 0, 0, CFG_PYTHON_ONLY, 1 }, /* it may load Python */
		{ IMAGE_PYTHON, PROC_PLAIN, CFG_PYTHON_ONLY, 1 },
		{ 0, PROC_PLAIN, 0, 1 },
	};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;

		lifecycle_rig(&r, cases[i].cfg);
		rig_add_proc(&r, getpid(), SPACE_SELF, cases[i].proc);
		rig_add_image(&r, SPACE_SELF, cases[i].image);
		map_page(PROT_READ, MAP_PRIVATE, fd);
		assert_int_equal(areas_told(&r), cases[i].told);
		rig_close(&r);
	}
	close(fd);
}

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
	const struct ev_proc *ev[16];
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
	assert_int_equal(r.skel->bss->told, 1);
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
			r.skel->bss->told = 0;
			assert_true(ring_buffer__consume(r.rings) >= 0);
		} while (epoll_wait(ring_buffer__epoll_fd(r.rings), &woken, 1, 0) > 0);
		start_waiting(&w, cat_body);
		await_cat(&w);
		n = r.skel->bss->told;
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
	r.skel->bss->told = 0;
	expect_outcome(&r, w.pid, CTR_counted);
	assert_int_equal(r.skel->bss->told, 1);
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

static void *inherited_area;

static void map_again_body(int in, int out)
{
	map_again(inherited_area);
	if (write(out, "x", 1) == 1)
		wait_for_end(in, out);
}

/* A child leaves the image that it shares as it is, and is without one. */
static void shared_image_is_left(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	inherited_area = map_area();
	area_rig(&r, (uintptr_t)inherited_area);
	start_waiting(&w, map_again_body);
	await_byte(&w);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(p.image, 0);
	assert_int_equal(emptied(&r, 1000), 0);
	assert_int_equal(events_of(&r, w.pid, ev), 2);
	assert_int_equal(ev[1]->type, EV_UNSHARE);
	assert_int_equal(ev[1]->space, p.space);
	stop_waiting(&w);
	rig_close(&r);
}

/* ---- windows and full tables ---------------------------------------------------------------- */

static volatile bool stop_spinning;

static uint32_t next_random(uint32_t *seed) /* xorshift32 */
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* One of two calls at each level, by the bits: as many different stacks as there are patterns. */
static __attribute__((noinline)) uint32_t branch(uint32_t bits, uint32_t depth)
{
	uint32_t sum;

	if (!depth) {
		for (volatile int i = 0; i < 2000; i++)
			;
		return bits;
	}
	if (bits & 1)
		sum = branch(bits >> 1 | bits << 31, depth - 1) + 1;
	else
		sum = branch(bits >> 1 | bits << 31, depth - 1) + 2;
	__asm__ volatile("" : "+r"(sum)); /* no tail call */
	return sum;
}

struct spinner {
	pthread_t thread;
	volatile pid_t tid;
};

static void *spin_stacks(void *arg)
{
	struct spinner *s = arg;
	uint32_t seed = (uint32_t)self_tid();

	s->tid = self_tid();
	while (!stop_spinning) {
		uint32_t bits = next_random(&seed) % 16; /* some thousand stacks: quickly drained */

		branch(bits, next_random(&seed) % 60);
	}
	return NULL;
}

static void start_spinners(struct spinner *s, size_t cnt)
{
	stop_spinning = false;
	for (size_t i = 0; i < cnt; i++) {
		s[i].tid = 0;
		assert_int_equal(pthread_create(&s[i].thread, NULL, spin_stacks, &s[i]), 0);
	}
	for (size_t i = 0; i < cnt; i++)
		RIG_WAIT(s[i].tid);
}

static void stop_spinners(struct spinner *s, size_t cnt)
{
	stop_spinning = true;
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(pthread_join(s[i].thread, NULL), 0);
}

static void sink_proc(void *ctx, const struct ev_proc *ev)
{
	(void)ctx;
	(void)ev;
}

static void sink_code(void *ctx, const struct ev_code *ev, size_t size)
{
	(void)ctx;
	(void)ev;
	(void)size;
}

static void sink_blob(void *ctx, const struct ev_blob *ev, size_t size)
{
	(void)ctx;
	(void)ev;
	(void)size;
}

static const struct ring_sink no_sink = { .proc = sink_proc, .code = sink_code, .blob = sink_blob };

/* Samples all CPUs by the clock. */
static void start_clock(struct uses *u, struct object *o, uint32_t frequency_hz)
{
	const struct sample_spec spec = {
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) } },
		.source_cnt = 1,
		.frequency_hz = frequency_hz,
	};
	struct world world = { .events = NULL };

	assert_int_equal(object__wait_loaded(o), 0);
	object__world(o, &world);
	assert_int_equal(uses__open(u, &spec, &world), 0);
	assert_int_equal(uses__start(u), 0);
}

static void stop_clock(struct uses *u)
{
	uses__close(u);
	wait_for_programs();
}

static uint64_t drain_window(struct object *c, unsigned window)
{
	return drain_maps(object__counts_fd(c, window), object__chunks_fd(c, window), NULL, NULL);
}

/* After a flip no program touches the old window: emptied, it stays empty. */
static void check_empty(struct object *c, unsigned window)
{
	assert_int_equal(map_entries(object__counts_fd(c, window), sizeof(struct count_key)), 0);
	assert_int_equal(map_entries(object__chunks_fd(c, window), sizeof(uint64_t)), 0);
}

#define FLIPS 40

/* No count is lost between windows, and each window's stacks can be read. */
static void flipping_loses_nothing(void **state)
{
	const struct object_opts opts = { .flags = CFG_NATIVE | CFG_KERNEL | CFG_THREADS };
	const pid_t self = getpid();
	uint64_t c[CTR_CNT], drained = 0;
	struct process_maps maps;
	struct spinner s[2];
	struct rig r = { 0 };
	struct uses clock = { .cnt = 0 };
	struct object *col;
	uint32_t seed = 1;

	(void)state;
	col = object__open(&opts);
	assert_non_null(col);
	object__process_maps(col, &maps);
	r.maps = maps;
	rig_analyse(&r, &self, 1);
	start_spinners(s, 2);
	start_clock(&clock, col, 20000);
	for (int i = 0; i < FLIPS; i++) {
		unsigned old;

		for (volatile uint32_t k = next_random(&seed) % 4000000; k; k--)
			;
		if (i)
			check_empty(col, !(i & 1)); /* drained by the last turn */
		old = object__flip(col);
		assert_int_equal(old, i & 1 ? 1 : 0);
		drained += drain_window(col, old);
	}
	stop_clock(&clock);
	stop_spinners(s, 2);
	drained += drain_window(col, 0) + drain_window(col, 1);
	object__counters(col, c);
	check_balance(c);
	assert_true(c[CTR_counted] > FLIPS);
	assert_int_equal(drained, c[CTR_counted]);
	process_table__free(r.pt);
	symbolizer__free(r.sym);
	object__close(col);
}

/* A deep stack that never changes: the sampler runs for long, and hits the same few counts. */
static __attribute__((noinline)) uint32_t deep_spin(uint32_t depth)
{
	uint32_t sum = 0;

	if (depth)
		sum = deep_spin(depth - 1);
	else
		while (!stop_spinning)
			;
	__asm__ volatile("" : "+r"(sum));
	return sum;
}

static void *spin_deep(void *arg)
{
	struct spinner *s = arg;

	s->tid = self_tid();
	deep_spin(500);
	return NULL;
}

#define HOT_MAX 4

/* Up to HOT_MAX keys with the highest counts: those that a sample hits next. */
static size_t hot_keys(int fd, struct count_key *out)
{
	uint64_t counts[HOT_MAX] = { 0 };
	struct count_val val;
	struct count_key key, *prev = NULL, at;
	size_t n = 0;

	while (!bpf_map_get_next_key(fd, prev, &key)) {
		size_t low = 0;

		assert_int_equal(bpf_map_lookup_elem(fd, &key, &val), 0);
		for (size_t i = 1; i < HOT_MAX; i++)
			low = counts[i] < counts[low] ? i : low;
		if (val.samples > counts[low]) {
			counts[low] = val.samples;
			out[low] = key;
		}
		n++;
		at = key;
		prev = &at;
	}
	return n < HOT_MAX ? n : HOT_MAX;
}

/* By key: a search for the next one takes longer than the programs that are to be caught. */
static uint64_t sum_hot(int fd, const struct count_key *keys, size_t cnt)
{
	struct count_val val;
	uint64_t sum = 0;

	for (size_t i = 0; i < cnt; i++)
		if (!bpf_map_lookup_elem(fd, &keys[i], &val))
			sum += val.samples;
	return sum;
}

/* Forks once, while the events are read: what comes of that is read in the same round. */
static void fork_while_reading(void *ctx, const struct ev_proc *ev)
{
	bool *did = ctx;
	struct waiting w;

	(void)ev;
	if (*did)
		return;
	*did = true;
	start_waiting(&w, wait_for_end);
	stop_waiting(&w);
}

static bool fork_is_told(const struct rings *rings)
{
	struct pollfd fd = { .fd = rings__fd(rings), .events = POLLIN };
	struct waiting w;
	int n;

	poll(&fd, 1, 0); /* a wake-up for what was read already ends here */
	start_waiting(&w, wait_for_end);
	n = poll(&fd, 1, DEADLINE_MS);
	stop_waiting(&w);
	return n > 0;
}

/*
 * Events that come while others are read wake as well, and are read before the wake-up arrives. Who
 * sleeps after that is woken for the next ones all the same.
 */
static void what_comes_while_reading_wakes_later(void **state)
{
	const struct object_opts opts = { .flags = CFG_NATIVE | CFG_TARGETS | CFG_CHILDREN };
	const struct proc self = { .space = SPACE_SELF, .image = SPACE_SELF, .flags = PROC_TARGET };
	bool did = false;
	struct ring_sink sink = no_sink;
	uint32_t tgid = (uint32_t)getpid();
	struct process_maps maps;
	struct rings *rings;
	struct object *c;

	(void)state;
	sink.ctx = &did;
	sink.proc = fork_while_reading;
	c = object__open(&opts);
	assert_non_null(c);
	rings = rings__open(c, &sink);
	assert_non_null(rings);
	object__process_maps(c, &maps);
	assert_int_equal(bpf_map_update_elem(maps.procs_fd, &tgid, &self, 0), 0);
	assert_int_equal(object__attach_lifecycle(c), 0);
	assert_true(fork_is_told(rings));
	while (rings__consume(rings) > 0)
		;
	assert_true(did);
	assert_true(fork_is_told(rings));
	rings__close(rings);
	object__close(c);
}

/*
 * When a flip returns, no program that runs will add to the old window any more. A program reads
 * which window is active about a microsecond before it adds, so a flip that does not wait is caught
 * by chance only: surely when the hash between the two is made 30 times as long, rarely as it is.
 */
static void flip_waits_for_programs(void **state)
{
	const struct object_opts opts = { .flags = CFG_NATIVE };
	struct rig r = { 0 };
	struct spinner s[2] = { 0 };
	struct count_key hot[HOT_MAX];
	size_t hot_cnt;
	struct uses clock = { .cnt = 0 };
	struct object *c = object__open(&opts);

	(void)state;
	assert_non_null(c);
	object__process_maps(c, &r.maps);
	rig_analyse(&r, &(pid_t){ getpid() }, 1);
	stop_spinning = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&s[i].thread, NULL, spin_deep, &s[i]), 0);
	for (int i = 0; i < 2; i++)
		RIG_WAIT(s[i].tid);
	start_clock(&clock, c, 10000);
	RIG_WAIT((hot_cnt = hot_keys(object__counts_fd(c, 0), hot)) > 0);
	for (int i = 0; i < FLIPS; i++) {
		int fd = object__counts_fd(c, object__flip(c));
		uint64_t sum = sum_hot(fd, hot, hot_cnt);

		assert_int_equal(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), 0);
		assert_int_equal(sum_hot(fd, hot, hot_cnt), sum);
	}
	stop_clock(&clock);
	stop_spinners(s, 2);
	process_table__free(r.pt);
	symbolizer__free(r.sym);
	object__close(c);
}

/* All CPUs, whoever runs there, in configurations that take different paths: the sum is exact. */
static void whole_machine_is_balanced(void **state)
{
	const uint32_t flags[] = { CFG_NATIVE | CFG_KERNEL,
				   CFG_KERNEL,
				   CFG_NATIVE,
				   0,
				   CFG_NATIVE | CFG_THREADS,
				   CFG_NATIVE | CFG_KERNEL | CFG_PYTHON_ONLY,
				   CFG_NATIVE | CFG_KERNEL | CFG_TARGETS | CFG_CHILDREN,
				   CFG_NATIVE | CFG_KERNEL | CFG_NMI };
	const pid_t self = getpid();
	struct spinner s[2];

	(void)state;
	start_spinners(s, 2);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct bpf_link *links[64] = { 0 };
		int cpus = libbpf_num_possible_cpus();
		struct rig r;

		rig_open(&r, flags[i]);
		rig_load(&r);
		rig_analyse(&r, &self, 1);
		rig_attach_lifecycle(&r);
		for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
			links[cpu] = rig_attach(&r, -1, cpu);
		RIG_WAIT(rig_counter(&r, CTR_delivered) > 500);
		for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
			bpf_link__destroy(links[cpu]);
		rig_check_balance(&r);
		check_drained(&r, NULL, NULL);
		rig_close(&r);
	}
	stop_spinners(s, 2);
}

/* A rig that samples a thread with ever new stacks, until `counter` is not 0. */
static void sample_until_counted(struct rig *r, enum pyperf_counter counter)
{
	const pid_t self = getpid();
	struct bpf_link *link;
	struct spinner s;

	rig_load(r);
	rig_analyse(r, &self, 1);
	start_spinners(&s, 1);
	link = rig_attach(r, s.tid, -1);
	RIG_WAIT(rig_counter(r, counter) > 0 && rig_counter(r, CTR_delivered) > 500);
	bpf_link__destroy(link);
	stop_spinners(&s, 1);
	rig_check_balance(r);
	assert_true(rig_counter(r, CTR_counted) > 0);
	check_drained(r, NULL, NULL);
}

/* A table that is full loses samples by name, and what it holds can still be read. */
static void full_tables_are_counted(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE);
	bpf_map__set_max_entries(r.skel->maps.chunks0, 12);
	sample_until_counted(&r, CTR_lost_chunks_full);
	assert_int_equal(rig_counter(&r, CTR_lost_counts_full), 0);
	rig_close(&r);

	rig_open(&r, CFG_NATIVE);
	bpf_map__set_max_entries(r.skel->maps.counts0, 4);
	sample_until_counted(&r, CTR_lost_counts_full);
	assert_int_equal(rig_counter(&r, CTR_lost_chunks_full), 0);
	rig_close(&r);
}

static size_t drains_asked(struct rig *r)
{
	size_t n = 0;

	assert_true(ring_buffer__consume(r->rings) >= 0);
	for (size_t i = 0; i < r->event_cnt; i++)
		n += r->events[i].type == EV_DRAIN;
	return n;
}

/* User space is woken once for each window that is getting full. */
static void full_window_asks_for_a_drain(void **state)
{
	const pid_t self = getpid();
	struct bpf_link *link;
	struct spinner s;
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE);
	rig_cfg(&r)->chunks_wake = 40;
	rig_load(&r);
	rig_analyse(&r, &self, 1);
	start_spinners(&s, 1);
	for (uint32_t window = 0; window < 2; window++) {
		r.skel->bss->chunks_added[window] = 0;
		r.skel->bss->active_window = window;
		link = rig_attach(&r, s.tid, -1);
		RIG_WAIT(r.skel->bss->chunks_added[window] > 60);
		bpf_link__destroy(link);
		assert_int_equal(drains_asked(&r), window + 1);
	}
	stop_spinners(&s, 1);
	rig_check_balance(&r);
	check_drained(&r, NULL, NULL);
	rig_close(&r);
}

/* ---- NMI ------------------------------------------------------------------------------------ */

/* Two objects on one set of tables: what the first one has counted, the second one finds. */
static void share_map(struct bpf_map *to, const struct bpf_map *from)
{
	assert_int_equal(bpf_map__reuse_fd(to, bpf_map__fd(from)), 0);
}

static size_t tables_used(struct rig *r)
{
	struct pyperf_bpf *s = r->skel;

	return map_entries(bpf_map__fd(s->maps.counts0), sizeof(struct count_key)) +
	       map_entries(bpf_map__fd(s->maps.counts1), sizeof(struct count_key)) +
	       map_entries(bpf_map__fd(s->maps.chunks0), sizeof(uint64_t)) +
	       map_entries(bpf_map__fd(s->maps.chunks1), sizeof(uint64_t));
}

/*
 * In NMI context a hit counts, a miss goes to user space once for each sample; nothing is inserted.
 */
static void nmi_hands_over_what_it_may_not_insert(void **state)
{
	const struct count_val none = { 0 };
	uint64_t counted, handed;
	struct rig r, nmi;
	struct waiting w;
	size_t used;

	(void)state;
	rig_open(&r, 0); /* without native frames each process has one stack: hits for sure */
	rig_load(&r);
	rig_open(&nmi, CFG_NMI);
	share_map(nmi.skel->maps.procs, r.skel->maps.procs);
	share_map(nmi.skel->maps.images, r.skel->maps.images);
	share_map(nmi.skel->maps.counts0, r.skel->maps.counts0);
	share_map(nmi.skel->maps.chunks0, r.skel->maps.chunks0);
	rig_load(&nmi);
	start_waiting(&w, spin_for_ever);
	await_byte(&w);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	rig_add_image(&r, SPACE_SELF, 0);
	rig_add_proc(&r, w.pid, SPACE_OTHER, 0);
	rig_add_image(&r, SPACE_OTHER, 0);
	expect_outcome(&r, self_tid(), CTR_counted);
	used = tables_used(&r);

	expect_outcome(&nmi, self_tid(), CTR_counted);
	assert_int_equal(rig_counter(&nmi, CTR_note_handed_over), 0);
	expect_outcome(&nmi, w.pid, CTR_counted);
	handed = rig_counter(&nmi, CTR_note_handed_over);
	assert_true(handed > 0);
	assert_int_equal(tables_used(&r), used);
	assert_int_equal(tables_used(&nmi), used);
	assert_true(ring_buffer__consume(nmi.rings) >= 0);
	assert_int_equal(nmi.handed_cnt, handed);
	assert_int_equal(nmi.handed_key.space, SPACE_OTHER);

	/* As collect.c does: from there on the stack is a hit. */
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(nmi.skel->maps.counts0), &nmi.handed_key,
					     &none, BPF_NOEXIST),
			 0);
	expect_outcome(&nmi, w.pid, CTR_counted);
	assert_int_equal(rig_counter(&nmi, CTR_note_handed_over), handed);
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(nmi.skel->maps.counts0), &nmi.handed_key),
			 0); /* it has no chunks */
	counted = rig_counter(&r, CTR_counted);
	kill_waiting(&w);
	assert_true(rig_drain(&r, NULL, NULL) >= counted);
	rig_close(&nmi);
	rig_close(&r);
}

/* Nobody reads the ring: what finds no room is lost by name, and the sum is exact. */
static void nmi_full_ring_is_counted(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE | CFG_KERNEL | CFG_NMI);
	bpf_map__set_max_entries(r.skel->maps.misses, 4096);
	sample_until_counted(&r, CTR_lost_nmi_miss);
	rig_close(&r);
}

/* ---- native stacks -------------------------------------------------------------------------- */

/*
 * Each function of the chain has a section of its own, whose bounds the linker gives: where a
 * frame may lie, without a symbol table or an unwinder.
 */
#define IN_SECTION(name) __attribute__((noinline, used, section(#name)))
#define BOUNDS(name)	 extern const char __start_##name[], __stop_##name[]
#define RANGE(name)                                                                                \
	{                                                                                          \
#name, (uintptr_t)__start_##name, (uintptr_t)__stop_##name, false                  \
	}
#define OPTIONAL(name)                                                                             \
	{                                                                                          \
#name, (uintptr_t)__start_##name, (uintptr_t)__stop_##name, true                   \
	}

BOUNDS(chain_thread);
BOUNDS(chain_outer);
BOUNDS(chain_aligned);
BOUNDS(chain_alloca);
BOUNDS(chain_small);
BOUNDS(chain_pushes);
BOUNDS(leaf_loop);
BOUNDS(leaf_plt);
BOUNDS(leaf_handler);
BOUNDS(leaf_jit);
BOUNDS(leaf_callback);

struct range {
	const char *name;
	uint64_t start, end;
	bool optional;
};

static struct chain {
	void (*leaf)(void);
	volatile pid_t tid;
	volatile bool there; /* the thread is where it is to be sampled */
	volatile bool stop;
} chain;

static void arrive(void)
{
	chain.there = true;
}

/* Pushes and pops all that a function may save: its CFA is another at each instruction. */
IN_SECTION(chain_pushes) static void call_pushes(void)
{
#ifdef __x86_64__
	__asm__ volatile("" ::: "rbx", "rbp", "r12", "r13", "r14", "r15", "memory");
#endif
}

IN_SECTION(leaf_loop) static void loop_leaf(void)
{
	arrive();
	while (!chain.stop)
		call_pushes();
	__asm__ volatile("" ::: "memory");
}

IN_SECTION(leaf_plt) static void plt_leaf(void)
{
	unsigned seed = 1;

	arrive();
	while (!chain.stop)
		rand_r(&seed);
}

IN_SECTION(chain_small) static void call_leaf(void)
{
	chain.leaf();
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

/* rbp is the base, sp moves. */
IN_SECTION(chain_alloca) static void call_with_alloca(volatile int size)
{
	char *room = __builtin_alloca((size_t)size);

	__asm__ volatile("" ::"r"(room) : "memory");
	call_leaf();
	__asm__ volatile("" ::"r"(room) : "memory");
}

/*
 * The stack is realigned. Where the arguments on the old one are is kept in another register and,
 * as that is not saved by callees, in memory: the CFA is what is read there.
 */
IN_SECTION(chain_aligned)
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
static int
call_aligned(int a, int b, int c, int d, int e, int f, volatile int size, volatile int h)
{
	_Alignas(128) char room[512];
	char *more = __builtin_alloca((size_t)size);

	__asm__ volatile("" ::"r"(room), "r"(more) : "memory");
	call_with_alloca(1000);
	__asm__ volatile("" ::"r"(room), "r"(more) : "memory");
	return a + b + c + d + e + f + size + h;
}

IN_SECTION(chain_outer) static void call_outer(void)
{
	call_aligned(1, 2, 3, 4, 5, 6, 700, 8);
	__asm__ volatile("" ::: "memory");
}

IN_SECTION(chain_thread) static void *chain_main(void *arg)
{
	chain.tid = self_tid();
	call_outer();
	__asm__ volatile("" ::: "memory");
	return arg;
}

/* What is above every leaf, innermost first. */
#define CALLERS                                                                                    \
	RANGE(chain_small), RANGE(chain_alloca), RANGE(chain_aligned), RANGE(chain_outer),         \
		RANGE(chain_thread)

/* ---- truth: where our files are mapped */

#define MAPS_MAX 256

static struct map_entry {
	uint64_t start, end, offset;
	char path[512];
} maps_now[MAPS_MAX];
static size_t maps_cnt;

static void read_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[1024], perms[8];

	assert_non_null(f);
	maps_cnt = 0;
	while (fgets(line, sizeof(line), f)) {
		struct map_entry *m = &maps_now[maps_cnt];
		unsigned long start, end, offset;

		m->path[0] = '\0';
		assert_true(sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &start, &end, perms,
				   &offset, m->path) >= 4);
		if (perms[2] != 'x')
			continue;
		m->start = start;
		m->end = end;
		m->offset = offset;
		assert_true(++maps_cnt < MAPS_MAX);
	}
	fclose(f);
}

/* The address that a frame word stands for, 0 when its file is not mapped there. */
static uint64_t word_address(const struct process_table *pt, uint64_t word)
{
	const struct elf_file *ef;

	if (FRAME_TAG(word) == FRAME_ANON)
		return word & FRAME_PAYLOAD;
	if (FRAME_TAG(word) != FRAME_NATIVE)
		return 0;
	ef = process_table__file(pt, NATIVE_FILE(word));
	for (size_t i = 0; ef && i < maps_cnt; i++) {
		uint64_t off = NATIVE_OFFSET(word) - maps_now[i].offset;

		if (!strcmp(maps_now[i].path, elf_file__path(ef)) &&
		    off < maps_now[i].end - maps_now[i].start)
			return maps_now[i].start + off;
	}
	return 0;
}

static const char *file_of(uint64_t addr)
{
	for (size_t i = 0; i < maps_cnt; i++)
		if (addr >= maps_now[i].start && addr < maps_now[i].end)
			return maps_now[i].path;
	return "";
}

/* ---- one case */

struct expectation {
	struct rig *r;
	const struct range *frames; /* innermost first */
	size_t cnt;
	bool to_the_root;	      /* behind the frames: libc's thread start, and nothing else */
	bool gaps;		      /* frames may be missing, but none is wrong */
	uint32_t marker;	      /* enum marker_why: this ends it; 0: none */
	uint64_t complete, cut, hits; /* samples; those whose first range was there */
};

static void print_stack(const struct expectation *e, const struct read_stack *s)
{
	for (uint32_t i = 0; i < s->cnt; i++) {
		uint64_t addr = word_address(e->r->pt, s->words[i]);
		const char *name = addr ? file_of(addr) : "marker";

		for (size_t k = 0; k < e->cnt; k++)
			if (addr >= e->frames[k].start && addr < e->frames[k].end)
				name = e->frames[k].name;
		print_error("  %016llx 0x%llx %s\n", (unsigned long long)s->words[i],
			    (unsigned long long)addr, name);
	}
}

/* Memory may be unreadable for a moment (it is being moved): the stack says so and ends. */
static bool is_read_failure(const struct read_stack *s, uint32_t i)
{
	return FRAME_TAG(s->words[i]) == FRAME_MARKER &&
	       MARKER_WHY(s->words[i]) == MARK_READ_FAILED && i + 1 == s->cnt;
}

/* The frames from word *i on are the expected ones. False: something else. Sets *cut. */
static bool match_frames(struct expectation *e, const struct read_stack *s, uint32_t *i, bool *cut)
{
	for (size_t k = 0; k < e->cnt; k++) {
		const struct range *want = &e->frames[k];
		uint64_t addr;

		if (*i >= s->cnt)
			return false;
		if (is_read_failure(s, *i)) {
			*cut = true;
			return true;
		}
		addr = word_address(e->r->pt, s->words[*i]);
		if (addr >= want->start && addr < want->end) {
			e->hits += k ? 0 : s->count;
			++*i;
		} else if (!want->optional && !e->gaps) {
			return false;
		}
	}
	return true;
}

/* Behind the frames: thread start in libc, or the marker. */
static bool match_end(const struct expectation *e, const struct read_stack *s, uint32_t i)
{
	uint32_t libc = 0;

	if (e->marker)
		return i + 1 == s->cnt && FRAME_TAG(s->words[i]) == FRAME_MARKER &&
		       MARKER_WHY(s->words[i]) == e->marker;
	for (; i < s->cnt && libc < 3; i++, libc++)
		if (!strstr(file_of(word_address(e->r->pt, s->words[i])), "/libc"))
			return e->gaps && FRAME_TAG(s->words[i]) == FRAME_MARKER && i + 1 == s->cnt;
	return i == s->cnt && (libc == 2 || e->gaps);
}

static void check_stack(void *ctx, const struct read_stack *s)
{
	struct expectation *e = ctx;
	bool cut = false;
	uint32_t i = 0;

	if (!match_frames(e, s, &i, &cut) || (!cut && !match_end(e, s, i))) {
		print_stack(e, s);
		fail_msg("a wrong stack, %llu times", (unsigned long long)s->count);
	}
	if (cut)
		e->cut += s->count;
	else
		e->complete += s->count;
}

static void chain_start(struct rig *r, void (*leaf)(void), pthread_t *t)
{
	const pid_t self = getpid();

	chain = (struct chain){ .leaf = leaf };
	rig_open(r, CFG_NATIVE);
	rig_load(r);
	rig_analyse(r, &self, 1);
	read_maps();
	assert_int_equal(pthread_create(t, NULL, chain_main, NULL), 0);
	RIG_WAIT(chain.there);
}

#define CHAIN_SAMPLES 1000

/* Samples the thread where it is now, and checks all stacks. */
static void chain_check(struct expectation *e)
{
	uint64_t before[CTR_CNT], after[CTR_CNT];

	rig_counters(e->r, before);
	rig_sample(e->r, chain.tid, CHAIN_SAMPLES);
	rig_counters(e->r, after);
	check_balance(after);
	e->complete = e->cut = e->hits = 0;
	assert_int_equal(rig_drain(e->r, check_stack, e), after[CTR_counted] - before[CTR_counted]);
	assert_true(e->cut * 10 < e->complete);
	if (e->to_the_root)
		assert_int_equal(after[CTR_complete] - before[CTR_complete], e->complete);
	if (e->marker)
		assert_int_equal(after[CTR_complete] - before[CTR_complete], 0);
}

static void chain_stop(struct rig *r, pthread_t t)
{
	chain.stop = true;
	assert_int_equal(pthread_join(t, NULL), 0);
	rig_close(r);
}

/* Every frame, in order, at each instruction of a function that saves all registers. */
static void unwinds_compiled_functions(void **state)
{
	const struct range frames[] = { OPTIONAL(chain_pushes), RANGE(leaf_loop), CALLERS };
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 7, .to_the_root = true };
	pthread_t t;

	(void)state;
	chain_start(&r, loop_leaf, &t);
	chain_check(&e);
	assert_true(e.hits > 0);
	chain_stop(&r, t);
}

/* Where a section of this program is mapped; empty when it has none of that name. */
static struct range section_range(const char *name)
{
	struct elf_file *ef = elf_file__open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "self");
	struct range out = { .name = name, .optional = true };
	char exe[512] = "";
	struct elf_section sec;

	assert_non_null(ef);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	for (size_t i = 0; i < maps_cnt && elf_file__section_info(ef, name, &sec); i++)
		if (!strcmp(maps_now[i].path, exe) && sec.off >= maps_now[i].offset &&
		    sec.off - maps_now[i].offset < maps_now[i].end - maps_now[i].start) {
			out.start = maps_now[i].start + sec.off - maps_now[i].offset;
			out.end = out.start + sec.size;
		}
	elf_file__close(ef);
	return out;
}

static struct range function_range(const char *name, void *function)
{
	struct range out = { .name = name, .optional = true };
	ElfW(Sym) *sym = NULL;
	Dl_info info;

	assert_true(dladdr1(function, &info, (void **)&sym, RTLD_DL_SYMENT));
	assert_non_null(sym);
	out.start = (uintptr_t)function;
	out.end = out.start + sym->st_size;
	return out;
}

/* A call through the PLT: in its entry, in the library's function, and in the caller. */
static void unwinds_plt_calls(void **state)
{
	struct range frames[] = {
		{ 0 }, { 0 }, { 0 }, { 0 }, RANGE(leaf_plt), CALLERS,
	};
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 10, .to_the_root = true };
	pthread_t t;

	(void)state;
	chain_start(&r, plt_leaf, &t);
	frames[0] = section_range(".plt");
	frames[1] = section_range(".plt.sec");
	frames[2] = section_range(".plt.got");
	frames[3] = function_range("rand_r", dlsym(RTLD_DEFAULT, "rand_r"));
	chain_check(&e);
	chain_stop(&r, t);
}

#ifdef __x86_64__
typedef int (*rand_fn)(unsigned *seed);

static rand_fn lazy_entry; /* behind the jump of rand_r's PLT entry, as if it was not bound yet */

IN_SECTION(leaf_lazy) static void lazy_leaf(void)
{
	unsigned seed = 1;

	arrive();
	while (!chain.stop)
		lazy_entry(&seed);
}
BOUNDS(leaf_lazy);

/* jmp *GOT; push INDEX; jmp PLT0. The entry that plt_leaf() calls, 0: another kind of PLT. */
static uint64_t find_lazy_entry(const struct range *plt)
{
	const unsigned char *code = (const unsigned char *)__start_leaf_plt;
	size_t size = (size_t)(__stop_leaf_plt - __start_leaf_plt);

	for (size_t i = 0; i + 5 <= size; i++) {
		const unsigned char *entry;
		int32_t rel;

		memcpy(&rel, code + i + 1, sizeof(rel));
		entry = code + i + 5 + rel;
		if (code[i] == 0xe8 && (uintptr_t)entry > plt->start &&
		    (uintptr_t)entry < plt->end && entry[0] == 0xff && entry[6] == 0x68 &&
		    entry[11] == 0xe9)
			return (uintptr_t)entry;
	}
	return 0;
}

/* Every sample is of this instruction, and has these frames. False: no breakpoints. */
static bool check_instruction(struct expectation *e, uint64_t addr)
{
	struct bpf_link *link = rig_attach_at(e->r, chain.tid, addr);
	uint64_t before = rig_counter(e->r, CTR_delivered), complete;

	if (!link)
		return false;
	RIG_WAIT(rig_counter(e->r, CTR_delivered) > before + 20);
	bpf_link__destroy(link);
	e->complete = e->cut = e->hits = 0;
	complete = rig_drain(e->r, check_stack, e);
	assert_true(complete > 20 && e->cut * 10 < e->complete);
	return true;
}

/* The binding of a function at its first call: after each push the CFA is another. */
static void unwinds_lazy_binding(void **state)
{
	const uint64_t steps[] = { 6, 11 }, first_steps[] = { 0, 6 };
	struct range plt, frames[] = { { .name = "instruction" }, RANGE(leaf_lazy), CALLERS };
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 7, .to_the_root = true };
	uint64_t entry, at;
	bool ok = true;
	pthread_t t;

	(void)state;
	read_maps();
	plt = section_range(".plt");
	entry = find_lazy_entry(&plt);
	if (!entry) {
		print_message("no lazily bound PLT in this program\n");
		skip();
	}
	lazy_entry = (rand_fn)(uintptr_t)(entry + 6);
	chain_start(&r, lazy_leaf, &t);
	for (size_t i = 0; i < 4 && ok; i++) {
		at = i < 2 ? entry + steps[i] : plt.start + first_steps[i - 2];
		frames[0].start = at;
		frames[0].end = at + 1;
		ok = check_instruction(&e, at);
	}
	chain_stop(&r, t);
	if (!ok) {
		print_message("no hardware breakpoints: %s\n", strerror(errno));
		skip();
	}
}
#endif /* __x86_64__ */

IN_SECTION(leaf_handler) static void handler_leaf(int sig)
{
	(void)sig;
	chain.there = true;
	while (!chain.stop)
		;
	__asm__ volatile("" ::: "memory");
}

/* Where a handler returns to, as the kernel knows it. */
static uint64_t signal_restorer(int sig)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { 0 };

	assert_int_equal(syscall(SYS_rt_sigaction, sig, NULL, &action, sizeof(uint64_t)), 0);
	return (uintptr_t)action.restorer;
}

static char alt_stack[65536] __attribute__((aligned(16)));

/* The thread's own stack is the one that is sampled, so it sets up its other stack itself. */
static void alt_stack_leaf(void)
{
	const stack_t st = { .ss_sp = alt_stack, .ss_size = sizeof(alt_stack) };
	const stack_t none = { .ss_flags = SS_DISABLE };

	sigaltstack(&st, NULL);
	loop_leaf();
	sigaltstack(&none, NULL);
}

static void check_handler(void (*leaf)(void), int flags, bool more)
{
	struct range frames[] = { RANGE(leaf_handler),
				  { .name = "restorer" },
				  OPTIONAL(chain_pushes),
				  RANGE(leaf_loop),
				  { .name = "alt_stack_leaf", .optional = true },
				  CALLERS };
	const struct sigaction action = { .sa_handler = handler_leaf, .sa_flags = flags };
	struct sigaction old;
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 10, .to_the_root = true };
	pthread_t t;

	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	chain_start(&r, leaf, &t);
	/* A word holds the return address - 1. */
	frames[1].start = signal_restorer(SIGUSR1) - 1;
	frames[1].end = frames[1].start + 1;
	if (more) {
		frames[4].start = (uintptr_t)leaf;
		frames[4].end = frames[4].start + 256;
	}
	chain.there = false;
	assert_int_equal(pthread_kill(t, SIGUSR1), 0);
	RIG_WAIT(chain.there);
	chain_check(&e);
	assert_true(e.hits == e.complete + e.cut);
	chain_stop(&r, t);
	sigaction(SIGUSR1, &old, NULL);
}

/* Through a signal handler, to the very instruction that was interrupted and to the root. */
static void unwinds_signal_handlers(void **state)
{
	(void)state;
	check_handler(loop_leaf, 0, false);
	check_handler(loop_leaf, SA_SIGINFO, false);
}

/* The handler's stack is another one, above or below: sp may go either way. */
static void unwinds_alternate_stacks(void **state)
{
	(void)state;
	check_handler(alt_stack_leaf, SA_ONSTACK, true);
}

#ifdef __x86_64__
/* ---- code without unwind information */

typedef void (*stub_fn)(void (*callback)(void), uint64_t arg);

static struct {
	stub_fn call;
	uint64_t arg;
	uint64_t words[2]; /* {caller's fp, return address}, as far as anyone knows */
} jit;

/* push %rbp; mov %rsp,%rbp; call *%rdi; leave; ret */
static const unsigned char frame_stub[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0xc9, 0xc3 };
/* rbp = the second argument, so no frame pointer at all; mov (%rsp),%rbp; add $8,%rsp; ret */
static const unsigned char lost_stub[] = { 0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x48, 0x8b,
					   0x2c, 0x24, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
/* The same, but with pop %rbp; ret; and sub $8,%rsp; call *%rdi; add $8,%rsp; ret */
static const unsigned char pop_stub[] = { 0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3 };
static const unsigned char drop_stub[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
					   0x48, 0x83, 0xc4, 0x08, 0xc3 };
/* 1: cmpb $0,(%rsi); je 1b; ret */
static const unsigned char leaf_stub[] = { 0x80, 0x3e, 0x00, 0x74, 0xfb, 0xc3 };
#define STUB_RETURN 6 /* offset behind the call */

static stub_fn make_stub(const unsigned char *code, size_t size)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	memcpy(at, code, size);
	assert_int_equal(mprotect(at, 4096, PROT_READ | PROT_EXEC), 0);
	return (stub_fn)(uintptr_t)at;
}

IN_SECTION(leaf_callback) static void callback_leaf(void)
{
	arrive();
	while (!chain.stop)
		;
	__asm__ volatile("" ::: "memory");
}

IN_SECTION(leaf_jit) static void jit_leaf(void)
{
	uint64_t fake[4] = { 0, (uintptr_t)&chain, 0, 0 }; /* data: nobody returns there */
	uint64_t arg = jit.arg;

	__asm__ volatile("" ::"r"(fake) : "memory");
	if (arg == 2)
		arg = (uintptr_t)fake;
	else if (arg == 3)
		arg = (uintptr_t)fake + 4;
	jit.call(callback_leaf, arg);
	__asm__ volatile("" ::"r"(fake) : "memory");
}

static void check_stub(struct expectation *e, struct range *stub, const unsigned char *code,
		       size_t size, bool late)
{
	struct rig r;
	pthread_t t;

	e->r = &r;
	jit.call = make_stub(code, size);
	stub->start = (uintptr_t)jit.call + STUB_RETURN - 1;
	stub->end = stub->start + 1;
	if (late) { /* hidden from the analysis, as if it were mapped after it */
		assert_int_equal(mprotect((void *)(uintptr_t)jit.call, 4096, PROT_READ), 0);
		chain = (struct chain){ .leaf = jit_leaf };
		rig_open(&r, CFG_NATIVE);
		rig_load(&r);
		rig_analyse(&r, &(pid_t){ getpid() }, 1);
		assert_int_equal(mprotect((void *)(uintptr_t)jit.call, 4096, PROT_READ | PROT_EXEC),
				 0);
		read_maps();
		assert_int_equal(pthread_create(&t, NULL, chain_main, NULL), 0);
		RIG_WAIT(chain.there);
	} else {
		chain_start(&r, jit_leaf, &t);
	}
	chain_check(e);
	assert_true(e->hits > 0);
	chain_stop(&r, t);
	munmap((void *)(uintptr_t)jit.call, 4096);
}

/* Generated code that keeps a frame pointer is walked through, to the root. */
static void generated_code_by_frame_pointer(void **state)
{
	struct range frames[] = {
		RANGE(leaf_callback), { .name = "stub" }, RANGE(leaf_jit), CALLERS
	};
	struct expectation e = { .frames = frames, .cnt = 8, .to_the_root = true };

	(void)state;
	check_stub(&e, &frames[1], frame_stub, sizeof(frame_stub), false);
	check_stub(&e, &frames[1], frame_stub, sizeof(frame_stub), true);
}

/* What the code does next says where its caller is, as a perf trampoline's does. */
static void generated_code_by_its_epilogue(void **state)
{
	struct range frames[] = {
		RANGE(leaf_callback), { .name = "stub" }, RANGE(leaf_jit), CALLERS
	};
	struct expectation e = { .frames = frames, .cnt = 8, .to_the_root = true };

	(void)state;
	jit.arg = 8;
	check_stub(&e, &frames[1], pop_stub, sizeof(pop_stub), false);
	check_stub(&e, &frames[1], drop_stub, sizeof(drop_stub), false);
}

/* Without a frame pointer the stack ends there, and says why: it is never continued by guess. */
static void generated_code_without_frame_ends(void **state)
{
	/* 2: a frame whose return address is data; 3: the same, not aligned */
	static const uint64_t values[] = { 0, 1, 8, 2, 3, 0x7ffffffffff8, 0xffff800000000000 };
	struct range frames[] = { RANGE(leaf_callback), { .name = "stub" } };
	struct expectation e = { .frames = frames, .cnt = 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		jit.arg = values[i];
		e.marker = MARK_NO_UNWIND_INFO;
		check_stub(&e, &frames[1], lost_stub, sizeof(lost_stub), false);
	}
	e.marker = MARK_UNMAPPED;
	check_stub(&e, &frames[1], lost_stub, sizeof(lost_stub), true);
}

IN_SECTION(leaf_loop_jit) static void jit_loop_leaf(void)
{
	arrive(); /* and into the stub, which is where most samples fall */
	jit.call(NULL, (uintptr_t)&chain.stop);
	__asm__ volatile("" ::: "memory");
}
BOUNDS(leaf_loop_jit);

/* In generated code itself: callers may be missing, but none is wrong. */
static void generated_leaf_has_no_wrong_caller(void **state)
{
	struct range frames[] = { { .name = "stub" }, RANGE(leaf_loop_jit), CALLERS };
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 7, .gaps = true };
	pthread_t t;

	(void)state;
	jit.call = make_stub(leaf_stub, sizeof(leaf_stub));
	frames[0].start = (uintptr_t)jit.call;
	frames[0].end = frames[0].start + sizeof(leaf_stub);
	chain_start(&r, jit_loop_leaf, &t);
	chain_check(&e);
	assert_true(e.hits > 0);
	chain_stop(&r, t);
	munmap((void *)(uintptr_t)jit.call, 4096);
}
#endif /* __x86_64__ */

/* ---- names of code objects ------------------------------------------------------------------ */

#define NAME_CHARS 3000

struct capture {
	struct rig *r;
	uint64_t id; /* of the code object with the long name; 0: not yet */
	struct blob_info info;
	uint64_t name_pieces; /* of its name */
	uint64_t pieces;      /* of the name that is arriving */
	uint64_t last_id;
	uint32_t next_offset;
};

static void on_piece(void *ctx, const struct ev_blob *ev, size_t size)
{
	struct capture *c = ctx;

	assert_int_equal(size, offsetof(struct ev_blob, data) + ev->size);
	assert_int_equal(sym_python__on_blob(symbolizer__python(c->r->sym), ev, size), 0);
	if (ev->kind != BLOB_NAME)
		return;
	/* Pieces of one name come in order and without a gap. */
	if (ev->id != c->last_id)
		c->pieces = c->next_offset = 0;
	assert_int_equal(ev->offset, c->next_offset);
	c->last_id = ev->id;
	c->next_offset += ev->size;
	c->pieces++;
}

static void on_announced(void *ctx, const struct ev_code *ev, size_t size)
{
	struct capture *c = ctx;
	const struct py_binary *bin = process_table__interp(c->r->pt, ev->interp);

	assert_non_null(bin);
	assert_int_equal(
		sym_python__on_code(symbolizer__python(c->r->sym), ev, size, &bin->interp.layout),
		0);
	if (ev->blob[BLOB_NAME].size < NAME_CHARS)
		return;
	assert_int_equal(c->id, 0);
	assert_int_equal(ev->id, c->last_id);
	c->id = ev->id;
	c->info = ev->blob[BLOB_NAME];
	c->name_pieces = c->pieces;
}

/* Makes the child spin in a function whose name is this character, 3,000 times. */
static void spin_in_long_name(struct child *c, unsigned character)
{
	char line[512];

	snprintf(line, sizeof(line),
		 "n = u'\\U%08x' * %d; exec(u'def ' + n + u'():\\n  while True: pass'); out = "
		 "'ready'",
		 character, NAME_CHARS);
	assert_string_equal(child_ask(c, line), "ready");
	fprintf(c->to, "exec(n + '()')\n");
	fflush(c->to);
}

static void check_long_name(const char *python, unsigned character, unsigned width)
{
	struct strbuf want = { 0 };
	struct py_function fn;
	struct bpf_link *link;
	struct child child;
	struct rig r;
	struct capture c = { .r = &r };

	assert_int_equal(child_start(&child, python), 0);
	rig_open(&r, CFG_NATIVE | CFG_PYTHON_ONLY);
	rig_load(&r);
	r.on_code = on_announced;
	r.on_blob = on_piece;
	r.ctx = &c;
	rig_analyse(&r, &child.pid, 1);
	spin_in_long_name(&child, character);
	link = rig_attach(&r, child.pid, -1);
	RIG_WAIT(ring_buffer__consume(r.rings) >= 0 && c.id);
	bpf_link__destroy(link);
	kill(child.pid, SIGKILL);
	child_stop(&child);

	assert_int_equal(c.info.width, width);
	assert_int_equal(c.info.size, NAME_CHARS * width);
	assert_int_equal(c.info.flags, 0); /* all of it, and not ASCII */
	assert_int_equal(c.name_pieces, (NAME_CHARS * width + BLOB_DATA - 1) / BLOB_DATA);
	for (int i = 0; i < NAME_CHARS; i++)
		py_utf8(&want, &character, width, width); /* little endian: its first bytes */
	assert_true(sym_python__find(symbolizer__python(r.sym), c.id, &fn));
	assert_int_equal(fn.name_len, want.len);
	assert_memory_equal(fn.name, want.s, want.len);
	rig_check_balance(&r);
	check_drained(&r, NULL, NULL);
	strbuf__free(&want);
	rig_close(&r);
}

/* A name of 3,000 characters of each width arrives whole, in pieces, before its code object. */
static void long_names_are_captured(void **state)
{
	struct pythons py = { 0 };
	const char *python = "";

	(void)state;
	pythons_find(&py);
	for (size_t i = 0; i < py.cnt; i++)
		if (strstr(py.path[i], "/python3"))
			python = py.path[i];
	if (!python[0]) {
		pythons_free(&py);
		print_message("no python3\n");
		skip();
	}
	print_message("%s\n", python);
	check_long_name(python, 0xe9, 1);    /* e acute */
	check_long_name(python, 0x434, 2);   /* Cyrillic d */
	check_long_name(python, 0x10400, 4); /* a Deseret letter */
	pythons_free(&py);
}

/* ---- nothing is left ------------------------------------------------------------------------ */

#define IDS_MAX 512

struct ids {
	uint32_t maps[IDS_MAX], progs[IDS_MAX];
	size_t map_cnt, prog_cnt;
};

/* The BPF objects that a process has open. By process: others may load and unload theirs. */
static void open_ids(pid_t pid, struct ids *out)
{
	char path[64], file[512], line[256];
	struct dirent *d;
	unsigned id;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((d = readdir(dir))) {
		FILE *f;

		snprintf(file, sizeof(file), "%s/%s", path, d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(file, "re");
		while (f && fgets(line, sizeof(line), f)) {
			if (sscanf(line, "map_id: %u", &id) == 1 && out->map_cnt < IDS_MAX)
				out->maps[out->map_cnt++] = id;
			if (sscanf(line, "prog_id: %u", &id) == 1 && out->prog_cnt < IDS_MAX)
				out->progs[out->prog_cnt++] = id;
		}
		if (f)
			fclose(f);
	}
	closedir(dir);
}

static void drop_ids(uint32_t *ids, size_t *cnt, const uint32_t *known, size_t known_cnt)
{
	size_t n = 0;

	for (size_t i = 0; i < *cnt; i++) {
		bool is_known = false;

		for (size_t k = 0; k < known_cnt; k++)
			is_known |= ids[i] == known[k];
		if (!is_known)
			ids[n++] = ids[i];
	}
	*cnt = n;
}

/* What was open before: a test that failed has closed nothing. */
static void new_ids(pid_t pid, const struct ids *before, struct ids *out)
{
	*out = (struct ids){ 0 };
	open_ids(pid, out);
	drop_ids(out->maps, &out->map_cnt, before->maps, before->map_cnt);
	drop_ids(out->progs, &out->prog_cnt, before->progs, before->prog_cnt);
}

/* The unwind tables, which only the outer map holds. */
static void inner_ids(const struct process_maps *maps, struct ids *out)
{
	for (uint32_t i = 0; i < maps->table_cap; i++) {
		uint32_t id;

		if (!bpf_map_lookup_elem(maps->tables_fd, &i, &id) && out->map_cnt < IDS_MAX)
			out->maps[out->map_cnt++] = id;
	}
}

static bool is_gone(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd == -ENOENT;
}

/* The kernel frees them some time after the last reference; a pin would be one, for ever. */
static void await_gone(const struct ids *ids)
{
	for (size_t i = 0; i < ids->map_cnt; i++)
		RIG_WAIT(is_gone(bpf_map_get_fd_by_id(ids->maps[i])));
	for (size_t i = 0; i < ids->prog_cnt; i++)
		RIG_WAIT(is_gone(bpf_prog_get_fd_by_id(ids->progs[i])));
}

static struct follow *run_follow(struct uses *clock, struct process_maps *maps)
{
	const struct follow_opts opts = {
		.object = { .flags = CFG_NATIVE | CFG_KERNEL, .bpf_stats = true },
		.processes = { .all = true },
		.watch = FOLLOW_WATCH_HALF,
		.names = true,
	};
	struct follow *f = follow__open(&opts);

	if (!f)
		return NULL;
	object__process_maps(follow__object(f), maps);
	assert_int_equal(follow__scan(f), 0);
	start_clock(clock, follow__object(f), 999);
	return f;
}

/* No program and no map outlives a run that ends as it should. */
static void close_leaves_nothing(void **state)
{
	static struct ids before, ids;
	struct process_maps maps;
	struct uses clock;
	struct follow *f;

	(void)state;
	open_ids(getpid(), &before);
	f = run_follow(&clock, &maps);
	assert_non_null(f);
	new_ids(getpid(), &before, &ids);
	assert_true(ids.prog_cnt >= 4 && ids.map_cnt >= 10);
	inner_ids(&maps, &ids);
	stop_clock(&clock);
	follow__close(f);
	await_gone(&ids);
	new_ids(getpid(), &before, &ids);
	assert_int_equal(ids.map_cnt + ids.prog_cnt, 0);
}

static void follow_body(int in, int out)
{
	struct process_maps maps;
	struct uses clock;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (run_follow(&clock, &maps) && write(out, "x", 1) == 1)
		wait_for_end(in, out);
}

/* Nor a run that is killed. */
static void kill_leaves_nothing(void **state)
{
	static struct ids before, ids;
	struct waiting w;

	(void)state;
	open_ids(getpid(), &before);
	start_waiting(&w, follow_body);
	await_byte(&w);
	new_ids(w.pid, &before, &ids);
	assert_true(ids.prog_cnt >= 4 && ids.map_cnt >= 10);
	kill_waiting(&w);
	await_gone(&ids);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_load),
		cmocka_unit_test(every_configuration_is_verified),
		cmocka_unit_test(plain_filters_decide),
		cmocka_unit_test(unknown_stacks_are_user_stacks),
		cmocka_unit_test(comm_glob_is_fnmatch),
		cmocka_unit_test_teardown(cgroup_v2_and_below, remove_groups),
		cmocka_unit_test_teardown(cgroup_v1_and_below, remove_groups),
		cmocka_unit_test(pidns_numbers_are_the_callers),
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
		cmocka_unit_test(addresses_given_out_belong_to_no_file),
		cmocka_unit_test(memory_is_not_followed),
		cmocka_unit_test(areas_of_code_are_told),
		cmocka_unit_test(areas_of_plain_programs_are_not_told),
		cmocka_unit_test(plain_executables_do_not_wake),
		cmocka_unit_test(children_of_plain_programs_are_quiet),
		cmocka_unit_test(first_sample_announces),
		cmocka_unit_test(vfork_is_told_by_its_first_sample),
		cmocka_unit_test(shared_image_is_left),
		cmocka_unit_test(flipping_loses_nothing),
		cmocka_unit_test(what_comes_while_reading_wakes_later),
		cmocka_unit_test(flip_waits_for_programs),
		cmocka_unit_test(whole_machine_is_balanced),
		cmocka_unit_test(full_tables_are_counted),
		cmocka_unit_test(full_window_asks_for_a_drain),
		cmocka_unit_test(nmi_hands_over_what_it_may_not_insert),
		cmocka_unit_test(nmi_full_ring_is_counted),
		cmocka_unit_test(unwinds_compiled_functions),
		cmocka_unit_test(unwinds_plt_calls),
		cmocka_unit_test(unwinds_signal_handlers),
		cmocka_unit_test(unwinds_alternate_stacks),
#ifdef __x86_64__
		cmocka_unit_test(unwinds_lazy_binding),
		cmocka_unit_test(generated_code_by_frame_pointer),
		cmocka_unit_test(generated_code_by_its_epilogue),
		cmocka_unit_test(generated_code_without_frame_ends),
		cmocka_unit_test(generated_leaf_has_no_wrong_caller),
#endif
		cmocka_unit_test(long_names_are_captured),
		cmocka_unit_test(close_leaves_nothing),
		cmocka_unit_test(kill_leaves_nothing),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
