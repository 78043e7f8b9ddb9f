/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Container ids in the shapes that the runtimes write; control groups and the pid namespace of the
 * machine, with the kernel's own answers as truth (file handles, /proc/cgroups, unshare).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/cgroup.h"
#include "process/pidns.h"
#include "process/starved.h"

#define A64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define POD "pod2b4c9a4e-8c6f-4f7e-9f0a-3c2d1e0f9a8b"

static const struct {
	const char *text;
	const char *id;
} shapes[] = {
	{ "12:memory:/docker/" A64 "\n0::/system.slice/containerd.service\n", A64 },
	{ "0::/system.slice/docker-" A64 ".scope\n", A64 },
	{ "0::/system.slice/docker-" A64 ".scope", A64 },
	{ "0::/docker/" A64 "\n", A64 },
	{ "4:cpu:/docker/" A64 "/docker/" B64 "\n0::/docker/" A64 "\n", B64 },
	{ "0::/docker/" A64 "/docker/" B64 "\n4:cpu:/docker/" A64 "\n", B64 },
	{ "0::/system.slice/docker-" A64 ".scope/kubelet/kubepods/" POD "/" B64 "\n", B64 },
	{ "11:pids:/kubepods/besteffort/" POD "/" A64 "\n", A64 },
	{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/"
	  "cri-containerd-" A64 ".scope\n",
	  A64 },
	{ "0::/system.slice/containerd.service/kubepods-besteffort-pod1.slice:cri-containerd:" A64
	  "\n",
	  A64 },
	{ "0::/kubepods.slice/kubepods-pod1.slice/crio-" A64 ".scope\n", A64 },
	{ "0::/kubepods.slice/kubepods-pod1.slice/crio-" A64 ".scope/container\n", A64 },
	{ "0::/machine.slice/libpod-" A64 ".scope/container\n", A64 },
	{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" A64 ".scope\n",
	  A64 },
	{ "0::/libpod_parent/libpod-" A64 "\n", A64 },
	{ "9:cpu:/ecs/cluster/9781c248-0edd-4cdb-9a93-f63cb662a5d3/" A64 "\n", A64 },
	{ "0::/actions_job/" A64 "\n", A64 },
	{ "0::/../../" A64 "\n", A64 }, /* seen from within another namespace */
	/* Not in a container. */
	{ "0::/machine.slice/libpod-conmon-" A64 ".scope\n", NULL },
	{ "0::/kubepods.slice/kubepods-pod1.slice/crio-conmon-" A64 ".scope\n", NULL },
	{ "0::/\n", NULL },
	{ "", NULL },
	{ "0::/user.slice/user-1000.slice/session-2.scope\n", NULL },
	{ "0::/x/0" A64 "\n", NULL }, /* 65 digits */
	{ "0::/x/123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", NULL },
	{ "0::/x" A64 "\n", NULL }, /* part of a name */
	{ "0::/" A64 "x\n", NULL },
	{ "0::/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\n", NULL },
	{ A64, NULL },
};

static void finds_container_ids(void **state)
{
	char id[CONTAINER_ID_LEN + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t len = strlen(shapes[i].text);
		char *copy = malloc(len + !len); /* of the exact size, for the sanitizer */
		int err;

		memcpy(copy, shapes[i].text, len);
		err = cgroup__container(copy, len, id);
		if (err != (shapes[i].id ? 0 : -ENOENT))
			fail_msg("%s: %d", shapes[i].text, err);
		if (shapes[i].id)
			assert_string_equal(id, shapes[i].id);
		free(copy);
	}
}

/* /proc/cgroups lists the controllers in the order of their index, up to 6.13 without a gap. */
static void knows_the_index_of_a_controller(void **state)
{
	FILE *f = fopen("/proc/cgroups", "r");
	char line[256], name[64];
	int last = -1, cnt = 0;

	(void)state;
	if (!f) {
		printf("skip: no /proc/cgroups\n");
		skip();
	}
	while (fgets(line, sizeof(line), f)) {
		int index;

		if (line[0] == '#' || sscanf(line, "%63s", name) != 1)
			continue;
		index = cgroup__subsys(name);
		assert_true(index > last);
		last = index;
		cnt++;
	}
	fclose(f);
	assert_true(cnt > 0);
	assert_int_equal(cgroup__subsys("no-such-controller"), -ENOENT);
	assert_int_equal(cgroup__subsys(""), -ENOENT);
}

/* The kernel's name of a directory in a control group file system: its 64-bit node id. */
static uint64_t node_id(const char *path)
{
	union {
		struct file_handle fh;
		char space[sizeof(struct file_handle) + 64];
	} h = { .fh.handle_bytes = 64 };
	uint64_t id;
	int mount_id;

	assert_int_equal(name_to_handle_at(AT_FDCWD, path, &h.fh, &mount_id, 0), 0);
	assert_int_equal(h.fh.handle_bytes, sizeof(id));
	memcpy(&id, h.fh.f_handle, sizeof(id));
	return id;
}

/* A mounted hierarchy that we can make a group in: its mount point; v2: of that kind. */
static bool find_hierarchy(bool v2, char *mount, size_t size, char *options, size_t options_size)
{
	FILE *f = fopen("/proc/self/mounts", "r");
	char type[64], point[256], opts[256], line[2048];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %255s %63s %255s", point, type, opts) != 3 ||
		    strcmp(type, v2 ? "cgroup2" : "cgroup") || strstr(opts, "name=") ||
		    access(point, W_OK))
			continue;
		snprintf(mount, size, "%s", point);
		snprintf(options, options_size, "%s", opts);
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

static void resolve_in(bool v2)
{
	char mount[256], options[256], dir[512], name[64], why[256] = "?";
	struct cgroup cg;
	int err;

	if (geteuid() || !find_hierarchy(v2, mount, sizeof(mount), options, sizeof(options))) {
		printf("skip: no writable control group hierarchy v%d\n", v2 ? 2 : 1);
		skip();
	}
	snprintf(name, sizeof(name), "pyperf-test-%d", getpid());
	snprintf(dir, sizeof(dir), "%s/%s", mount, name);
	assert_int_equal(mkdir(dir, 0755), 0);
	err = cgroup__resolve(dir, &cg, why, sizeof(why));
	assert_int_equal(err, 0);
	assert_string_equal(why, "");
	assert_true(cg.id == node_id(dir));
	if (v2)
		assert_int_equal(cg.subsys, -1);
	else
		assert_true(cg.subsys >= 0 && cg.subsys < 32);
	/* By its name below the root, with and without a slash. */
	cg.id = 0;
	assert_int_equal(cgroup__resolve(name, &cg, why, sizeof(why)), 0);
	assert_true(cg.id == node_id(dir));
	cg.id = 0;
	assert_int_equal(cgroup__resolve(strrchr(dir, '/'), &cg, why, sizeof(why)), 0);
	assert_true(cg.id == node_id(dir));
	rmdir(dir);
	assert_int_equal(cgroup__resolve(dir, &cg, why, sizeof(why)), -ENOENT);
	assert_true(why[0]);
}

static void resolves_v2(void **state)
{
	(void)state;
	resolve_in(true);
}

static void resolves_v1(void **state)
{
	(void)state;
	resolve_in(false);
}

static void refuses_what_is_no_group(void **state)
{
	struct cgroup cg;
	char why[256];

	(void)state;
	assert_int_equal(cgroup__resolve("/etc", &cg, why, sizeof(why)), -ENOENT);
	assert_int_equal(cgroup__resolve("/proc/self/maps", &cg, why, sizeof(why)), -ENOENT);
	assert_int_equal(cgroup__resolve("no/such/group", &cg, why, sizeof(why)), -ENOENT);
	assert_true(why[0]);
}

static void knows_its_pid_namespace(void **state)
{
	struct pidns ns;
	struct stat st;
	int status;
	pid_t pid;

	(void)state;
	if (pidns__level_by_bpf() < 0) {
		printf("skip: cannot run BPF programs\n");
		skip();
	}
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(pidns__self(&ns), 0);
	assert_true(ns.inum == (uint32_t)st.st_ino);
	assert_int_equal(pidns__level_by_bpf(), ns.level);
	assert_true(pidns__is_initial(&ns) == (ns.level == 0));

	/* One level down. */
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(77);
		pid = fork();
		if (!pid)
			_exit(pidns__level_by_bpf() == (int)ns.level + 1 ? 0 : 1);
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

/* Of v2 and of v1; what is no number is 0. */
static void reads_what_a_limit_stopped(void **state)
{
	struct starved s = { 0 }, then = { 0 };

	(void)state;
	starved__parse("usage_usec 9\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2000\n", &s);
	assert_int_equal(s.periods, 40);
	assert_int_equal(s.stopped, 10);
	assert_int_equal(s.throttled_ns, 2000000);
	assert_int_equal(starved__throttled(&then, &s, 1000000000), 2000000);
	/* Several CPUs are added up: not more than the stopped periods. */
	s.throttled_ns = 5000000000;
	assert_int_equal(starved__throttled(&then, &s, 1000000000), 250000000);
	/* The group is another one now. */
	assert_int_equal(starved__throttled(&s, &then, 1000000000), 0);
	s = (struct starved){ 0 };
	starved__parse("nr_periods 4\nnr_throttled 1\nthrottled_time 2000\nnr_bursts x\n", &s);
	assert_int_equal(s.throttled_ns, 2000);
	assert_true(starved__read(getpid(), &s));
	assert_false(starved__read(INT32_MAX, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_container_ids),
		cmocka_unit_test(knows_the_index_of_a_controller),
		cmocka_unit_test(resolves_v2),
		cmocka_unit_test(resolves_v1),
		cmocka_unit_test(refuses_what_is_no_group),
		cmocka_unit_test(reads_what_a_limit_stopped),
		cmocka_unit_test(knows_its_pid_namespace),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
