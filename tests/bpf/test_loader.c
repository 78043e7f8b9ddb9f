/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Loading the object in a thread: what is there when, and what comes of a failure. Root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/bpf.h>
#include <cmocka.h>
#include <errno.h>

#include "bpf/pyperf.h"
#include "pyperf.skel.h"
#include "user/loader.h"

static int load(void *skel)
{
	return pyperf_bpf__load(skel);
}

/* While the kernel verifies the sampler, processes are followed: maps and programs are those that it gets. */
static void all_but_the_sampler_is_there_early(void **state)
{
	struct loader *l = loader__new();
	const uint32_t tgid = 1;
	struct pyperf_bpf *skel;
	struct proc val = { .space = 1 };
	struct bpf_link *link;

	(void)state;
	assert_non_null(l);
	skel = pyperf_bpf__open();
	assert_non_null(skel);
	assert_int_equal(loader__start(l, skel->obj, load, skel), 0);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(skel->maps.procs), &tgid, &val, 0), 0);
	assert_int_equal(loader__wait_early(l), 0);
	assert_true(bpf_program__fd(skel->progs.on_fork) >= 0);
	assert_true(bpf_program__fd(skel->progs.on_unmapped_area) >= 0);
	link = bpf_program__attach(skel->progs.on_exit);
	assert_non_null(link);
	assert_int_equal(loader__wait(l), 0);
	assert_true(bpf_program__fd(skel->progs.on_cpu_sample) >= 0);
	val.space = 0;
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.procs), &tgid, &val), 0);
	assert_int_equal(val.space, 1);
	bpf_link__destroy(link);
	pyperf_bpf__destroy(skel);
	loader__free(l);
}

static int refuse(void *ctx)
{
	(void)ctx;
	return -E2BIG;
}

static void a_failure_ends_all_waiting(void **state)
{
	struct loader *l = loader__new();
	struct pyperf_bpf *skel = pyperf_bpf__open();

	(void)state;
	assert_non_null(l);
	assert_non_null(skel);
	assert_int_equal(loader__start(l, skel->obj, refuse, NULL), 0);
	assert_int_equal(loader__wait_early(l), -E2BIG);
	assert_int_equal(loader__wait(l), -E2BIG);
	pyperf_bpf__destroy(skel);
	loader__free(l);
}

/* A map that the kernel refuses: nothing is started, and there is nothing to wait for. */
static void a_map_that_cannot_be_made_is_an_error_at_once(void **state)
{
	struct loader *l = loader__new();
	struct pyperf_bpf *skel = pyperf_bpf__open();

	(void)state;
	assert_non_null(l);
	assert_non_null(skel);
	assert_int_equal(bpf_map__set_max_entries(skel->maps.counts0, 0), 0);
	assert_int_equal(loader__start(l, skel->obj, load, skel), -EINVAL);
	assert_int_equal(loader__wait(l), 0);
	pyperf_bpf__destroy(skel);
	loader__free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_but_the_sampler_is_there_early),
		cmocka_unit_test(a_failure_ends_all_waiting),
		cmocka_unit_test(a_map_that_cannot_be_made_is_an_error_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
