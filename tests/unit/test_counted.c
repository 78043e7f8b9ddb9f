/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Parts of waits are replaced, and their places used again, while the kernel half takes one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "bpf/counted.bpf.h"

enum { OURS = 1, OTHER };

static struct wait_counted places[2], *at[3]; /* at: by thread */
static int looks, replaced_at;

static void put(uint32_t tid, struct wait_counted *place, uint64_t out_ns, uint64_t until_ns)
{
	*place = (struct wait_counted){ .out_ns = out_ns, .until_ns = until_ns };
	at[tid] = place;
}

/* Behind this look user space replaces our part, and the other thread's comes where it was. */
struct wait_counted *counted_part(uint32_t tid)
{
	struct wait_counted *found = at[tid];

	if (++looks == replaced_at) {
		put(OURS, &places[1], 100, 300);
		put(OTHER, &places[0], 150, 300);
	}
	return found;
}

static void begin(int replaced)
{
	memset(at, 0, sizeof(at));
	looks = 0;
	replaced_at = replaced;
	put(OURS, &places[0], 100, 200);
}

static void of_this_wait_alone(void **state)
{
	(void)state;
	begin(0);
	assert_int_equal(take_part(OTHER, 100), 0);
	assert_int_equal(take_part(OURS, 99), 0);
	assert_int_equal(places[0].left_ns, 0);
	assert_int_equal(take_part(OURS, 100), 200);
	assert_int_equal(places[0].left_ns, 100);
	/* Where another part may be by now, it is still that. */
	assert_int_equal(places[0].out_ns, 100);
	assert_int_equal(places[0].until_ns, 200);
}

/* Else all of the wait would be counted, of which user space has counted the beginning. */
static void replaced_meanwhile(void **state)
{
	(void)state;
	begin(1);
	assert_int_equal(take_part(OURS, 100), 300);
	assert_int_equal(at[OURS]->left_ns, 100);
	assert_int_equal(at[OTHER]->left_ns, 0);
	assert_int_equal(take_part(OTHER, 150), 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_this_wait_alone),
		cmocka_unit_test(replaced_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
