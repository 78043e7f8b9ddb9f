/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Loading the object in a thread: what is there when, and what comes of a failure. Root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/bpf.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bpf/pyperf.h"
#include "pyperf.skel.h"
#include "user/base/loader.h"
#include "user/base/rights.h"
#include "user/follow/kernelbtf.h"

/*
 * While the kernel verifies the sampler, processes are followed: maps and programs are those that
 * it gets.
 */
static void all_but_the_sampler_is_there_early(void **state)
{
	struct loader *l = loader__new(-1);
	const uint32_t tgid = 1;
	struct pyperf_bpf *skel;
	struct proc val = { .space = 1 };

	(void)state;
	assert_non_null(l);
	skel = pyperf_bpf__open_opts(loader__opts(l));
	assert_non_null(skel);
	assert_int_equal(loader__start(l, skel->skeleton, true), 0);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(skel->maps.procs), &tgid, &val, 0), 0);
	assert_int_equal(loader__wait_early(l), 0);
	assert_true(bpf_program__fd(skel->progs.on_fork) >= 0);
	assert_true(bpf_program__fd(skel->progs.on_unmapped_area) >= 0);
	assert_int_equal(loader__attach(l, skel->progs.on_exit), 0);
	assert_int_equal(loader__wait(l), 0);
	assert_true(bpf_program__fd(skel->progs.on_cpu_sample) >= 0);
	val.space = 0;
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.procs), &tgid, &val), 0);
	assert_int_equal(val.space, 1);
	loader__free(l);
	pyperf_bpf__destroy(skel);
}

static void a_failure_ends_all_waiting(void **state)
{
	struct loader *l = loader__new(-1);
	struct pyperf_bpf *skel = pyperf_bpf__open();
	int err;

	(void)state;
	assert_non_null(l);
	assert_non_null(skel);
	/* Its context is none of this type. */
	assert_int_equal(bpf_program__set_type(skel->progs.on_fork, BPF_PROG_TYPE_SOCKET_FILTER),
			 0);
	assert_int_equal(loader__start(l, skel->skeleton, true), 0);
	err = loader__wait_early(l);
	assert_true(err < 0);
	assert_int_equal(loader__wait(l), err);
	assert_int_equal(loader__wait(l), err);
	loader__free(l);
	pyperf_bpf__destroy(skel);
}

/* A map that the kernel refuses: nothing is started, and there is nothing to wait for. */
static void a_map_that_cannot_be_made_is_an_error_at_once(void **state)
{
	struct loader *l = loader__new(-1);
	struct pyperf_bpf *skel = pyperf_bpf__open();

	(void)state;
	assert_non_null(l);
	assert_non_null(skel);
	assert_int_equal(bpf_map__set_max_entries(skel->maps.counts0, 0), 0);
	assert_int_equal(loader__start(l, skel->skeleton, true), -EINVAL);
	assert_int_equal(loader__wait(l), 0);
	loader__free(l);
	pyperf_bpf__destroy(skel);
}

/* The kernel's hash of a program's instructions, before it puts in the addresses of maps. */
static void get_tag(const struct bpf_program *prog, uint8_t tag[BPF_TAG_SIZE])
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size), 0);
	memcpy(tag, info.tag, BPF_TAG_SIZE);
}

/*
 * What a start costs is mostly what the kernel verifies: some 41,000 instructions on 6.18, 52,000
 * on 6.1. A branch in a loop can double that without a sign.
 */
#define VERIFIED_MAX 65000

static void little_is_left_to_the_verifier(void **state)
{
	struct pyperf_bpf *skel = pyperf_bpf__open_and_load();
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	(void)state;
	assert_non_null(skel);
	assert_int_equal(
		bpf_obj_get_info_by_fd(bpf_program__fd(skel->progs.on_cpu_sample), &info, &size),
		0);
	assert_in_range(info.verified_insns, 0, VERIFIED_MAX); /* 0: not told before 5.16 */
	pyperf_bpf__destroy(skel);
}

/* What is relocated by the copied types is what libbpf makes of all types of the kernel. */
static void copied_types_give_the_same_programs(void **state)
{
	int fd = kernelbtf__open(BTF_PATH);
	char path[64];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = path);
	struct pyperf_bpf *ours, *libbpfs = pyperf_bpf__open_and_load();
	struct bpf_program *prog;

	(void)state;
	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ours = pyperf_bpf__open_opts(&opts);
	assert_non_null(ours);
	assert_non_null(libbpfs);
	assert_int_equal(pyperf_bpf__load(ours), 0);
	bpf_object__for_each_program(prog, ours->obj)
	{
		uint8_t tag[BPF_TAG_SIZE], wanted[BPF_TAG_SIZE];

		get_tag(prog, tag);
		get_tag(bpf_object__find_program_by_name(libbpfs->obj, bpf_program__name(prog)),
			wanted);
		assert_memory_equal(tag, wanted, sizeof(tag));
	}
	pyperf_bpf__destroy(libbpfs);
	pyperf_bpf__destroy(ours);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_but_the_sampler_is_there_early),
		cmocka_unit_test(a_failure_ends_all_waiting),
		cmocka_unit_test(a_map_that_cannot_be_made_is_an_error_at_once),
		cmocka_unit_test(little_is_left_to_the_verifier),
		cmocka_unit_test(copied_types_give_the_same_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
