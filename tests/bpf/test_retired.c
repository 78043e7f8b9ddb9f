/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the kernel has of processes that have ended makes room. Truth: our own count of what was put
 * there; the kernel's refusal of what finds no room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <unistd.h>

#include "bpf/trace.h"
#include "trace/retired.h"

#define ROOM	  16384 /* more than two steps */
#define FUNCTIONS 1500
#define PROCESSES 200

static uint64_t taken;

static void take(void *ctx, const void *value)
{
	(void)ctx;
	taken += ((const struct trace_count *)value)->calls;
}

static pid_t owner(const void *key, const void *value)
{
	(void)key;
	return (pid_t)((const struct trace_count *)value)->tgid;
}

static int make_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);

	return bpf_map_create(BPF_MAP_TYPE_HASH, "codes", sizeof(struct trace_key),
			      sizeof(struct trace_count), ROOM, &opts);
}

/* What a process calls. False: there is no room. */
static bool call_functions(int fd, uint32_t pid)
{
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		struct trace_key key = { .addr = i, .fingerprint = pid };
		struct trace_count count = { .calls = 1, .tgid = pid };

		if (bpf_map_update_elem(fd, &key, &count, BPF_NOEXIST))
			return false;
	}
	return true;
}

static uint32_t cnt_of(int fd, uint32_t pid)
{
	struct trace_key key, *last = NULL;
	uint32_t cnt = 0;

	while (!bpf_map_get_next_key(fd, last, &key)) {
		cnt += key.fingerprint == pid;
		last = &key;
	}
	return cnt;
}

/* Many short processes, one after the other, beside one that stays. */
static void makes_room(void **state)
{
	struct retired r = { .fd = make_map(),
			     .key_size = sizeof(struct trace_key),
			     .value_size = sizeof(struct trace_count),
			     .owner = owner,
			     .take = take };
	uint32_t pid = 2;

	(void)state;
	assert_true(r.fd >= 0);
	assert_false(retired__waits(&r));
	assert_true(call_functions(r.fd, 1));
	for (; pid < 2 + PROCESSES; pid++) {
		if (!call_functions(r.fd, pid))
			fail_msg("process %u finds no room", pid);
		retired__add(&r, (pid_t)pid);
		for (int i = 0; i < 3; i++)
			assert_int_equal(retired__step(&r), 0);
	}
	while (retired__waits(&r))
		assert_int_equal(retired__step(&r), 0);
	assert_int_equal(taken, PROCESSES * FUNCTIONS);
	assert_int_equal(cnt_of(r.fd, 1), FUNCTIONS);
	assert_int_equal(cnt_of(r.fd, pid - 1), 0);
	retired__free(&r);
	close(r.fd);
}

/* A number that is another process's by now has what that has called, and nothing else. */
static void number_that_comes_back(void **state)
{
	struct retired r = { .fd = make_map(),
			     .key_size = sizeof(struct trace_key),
			     .value_size = sizeof(struct trace_count),
			     .owner = owner };

	(void)state;
	for (uint32_t pid = 1; pid < 9; pid++) {
		assert_true(call_functions(r.fd, pid));
		retired__add(&r, (pid_t)pid);
	}
	assert_int_equal(retired__step(&r), 0);
	assert_true(retired__waits(&r)); /* it has not seen all of them */
	retired__add(&r, 4);		 /* again, in this round */
	assert_int_equal(retired__finish(&r, 3), 0);
	assert_int_equal(retired__finish(&r, 4), 0);
	assert_int_equal(cnt_of(r.fd, 3) + cnt_of(r.fd, 4), 0);
	assert_true(call_functions(r.fd, 3));
	while (retired__waits(&r))
		assert_int_equal(retired__step(&r), 0);
	assert_int_equal(cnt_of(r.fd, 3), FUNCTIONS);
	assert_int_equal(cnt_of(r.fd, 5), 0);
	retired__free(&r);
	close(r.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes_room),
		cmocka_unit_test(number_that_comes_back),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
