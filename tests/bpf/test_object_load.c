/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The BPF object comes and goes: each of its configurations passes the verifier of this kernel, far
 * below its limit, and nothing outlives a run. Truth: the kernel's own statistics and ids.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "clock_fixture.h"
#include "follow/follow.h"
#include "object_fixture.h"
#include "waiting_child.h"

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

/* ---- stacks --------------------------------------------------------------------------------- */

static bool has_tail_call(const struct bpf_program *prog)
{
	const struct bpf_insn *insns = bpf_program__insns(prog);

	for (size_t i = 0; i < bpf_program__insn_cnt(prog); i++)
		if (insns[i].code == (BPF_JMP | BPF_CALL) && !insns[i].src_reg &&
		    insns[i].imm == BPF_FUNC_tail_call)
			return true;
	return false;
}

/* The programs at breakpoints in the object. */
static size_t check_stacks(const char *path)
{
	struct bpf_object *obj = bpf_object__open_file(path, NULL);
	struct bpf_program *prog;
	size_t cnt = 0;

	assert_non_null(obj);
	bpf_object__for_each_program(prog, obj)
	{
		if (strcmp(bpf_program__section_name(prog), "uprobe"))
			continue;
		if (!has_tail_call(prog))
			fail_msg("%s: %s: KEEP_OWN_STACK (bpf/own_stack.bpf.h) is missing", path,
				 bpf_program__name(prog));
		cnt++;
	}
	bpf_object__close(obj);
	return cnt;
}

/*
 * No program at a breakpoint shares its stack with the next thread of the CPU: where the kernel is
 * preemptible and gives private stacks, one call in a thousand forked children went wrong.
 */
static void programs_at_breakpoints_keep_their_stacks(void **state)
{
	size_t cnt = 0;
	glob_t found;

	(void)state;
	assert_int_equal(glob(".output/*.bpf.o", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		cnt += check_stacks(found.gl_pathv[i]);
	globfree(&found);
	assert_true(cnt >= 10);
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

static struct follow *run_follow(struct source_set *clock, struct process_maps *maps)
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
	struct source_set clock;
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
	struct source_set clock;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_load),
		cmocka_unit_test(every_configuration_is_verified),
		cmocka_unit_test(programs_at_breakpoints_keep_their_stacks),
		cmocka_unit_test(close_leaves_nothing),
		cmocka_unit_test(kill_leaves_nothing),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
