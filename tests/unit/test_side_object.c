/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One BPF object of several sources (side_object.h), with one that has no programs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sources/side_object.h"

static struct fake {
	int opened, destroyed, open_err;
} fake;

static int fake_open(struct side_object *o, const struct world *w)
{
	side_object__begin(o, w);
	fake.opened++;
	o->skel = &fake;
	return fake.open_err;
}

static void fake_destroy(void *skel)
{
	assert_ptr_equal(skel, &fake);
	fake.destroyed++;
}

static const struct side_kind kind = { "fakes", fake_open, fake_destroy };
static const struct world world = { .cpu_cap = 1 };

static int begin(void **state)
{
	(void)state;
	fake = (struct fake){ .opened = 0 };
	return 0;
}

static void all_sources_share_one_object(void **state)
{
	struct side_shared shared = { .user_cnt = 0 };
	struct source_use first = { .type = 0 }, second = { .type = 1 };
	struct side_use a, b;

	(void)state;
	assert_int_equal(side_use__open(&first, &a, &kind, &shared, &world), 0);
	assert_int_equal(side_use__open(&second, &b, &kind, &shared, &world), 0);
	assert_int_equal(fake.opened, 1);
	assert_ptr_equal(a.shared, b.shared);

	side_use__close(&a);
	assert_int_equal(fake.destroyed, 0);
	side_use__close(&b);
	assert_int_equal(fake.destroyed, 1);

	side_use__close(&b);
	assert_int_equal(fake.destroyed, 1);
}

static void only_the_first_hands_out_what_it_counts(void **state)
{
	struct side_shared shared = { .user_cnt = 0 };
	struct source_use first = { .type = 0 }, second = { .type = 1 };
	struct side_use a, b;
	struct source_tables tables = { 1, 1 };
	uint64_t counters[CTR_CNT] = { 0 };

	(void)state;
	assert_int_equal(side_use__open(&first, &a, &kind, &shared, &world), 0);
	assert_int_equal(side_use__open(&second, &b, &kind, &shared, &world), 0);
	assert_ptr_equal(first.side, &shared.side);
	assert_null(second.side);

	/* Would ask the object, of which there is none. */
	assert_int_equal(side_source__blobs(&second), -ENOENT);
	assert_int_equal(side_source__window(&second, &tables), 0);
	assert_int_equal(tables.counts_fd, -1);
	assert_int_equal(tables.chunks_fd, -1);
	side_source__counters(&second, counters);
	side_use__close(&a);
	side_use__close(&b);
}

static void object_that_does_not_open_is_destroyed(void **state)
{
	struct side_shared shared = { .user_cnt = 0 };
	struct source_use u = { .type = 0 };
	struct side_use use, again;

	(void)state;
	fake.open_err = -EINVAL;
	assert_int_equal(side_use__open(&u, &use, &kind, &shared, &world), -EINVAL);
	side_use__close(&use);
	assert_int_equal(fake.destroyed, 1);

	fake.open_err = 0;
	assert_int_equal(side_use__open(&u, &again, &kind, &shared, &world), 0);
	assert_ptr_equal(u.side, &shared.side);
	assert_int_equal(fake.opened, 2);
	side_use__close(&again);
	assert_int_equal(fake.destroyed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_sources_share_one_object, begin),
		cmocka_unit_test_setup(only_the_first_hands_out_what_it_counts, begin),
		cmocka_unit_test_setup(object_that_does_not_open_is_destroyed, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
