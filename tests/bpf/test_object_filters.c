/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which samples count: by process, kind of program, name, control group and pid namespace. Truth:
 * fnmatch(3), the groups and namespaces that the test makes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fnmatch.h>
#include <mntent.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "object_fixture.h"
#include "process/cgroup.h"
#include "process/pidns.h"
#include "waiting_child.h"

#define COMM "test-object_7"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_filters_decide),
		cmocka_unit_test(unknown_stacks_are_user_stacks),
		cmocka_unit_test(comm_glob_is_fnmatch),
		cmocka_unit_test_teardown(cgroup_v2_and_below, remove_groups),
		cmocka_unit_test_teardown(cgroup_v1_and_below, remove_groups),
		cmocka_unit_test(pidns_numbers_are_the_callers),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
