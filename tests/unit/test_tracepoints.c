/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The names of the kernel's tracepoints, out of its types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/btf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "follow/tracepoints.h"

static const char strs[] =
	"\0btf_trace_sched_switch\0int\0xbtf_trace_no\0btf_trace_sys_enter\0btf_trac";

struct file {
	struct btf_header h;
	uint8_t types[8];
	char strs[sizeof(strs)];
};

#define FILE_BYTES (offsetof(struct file, strs) + sizeof(strs)) /* without what the compiler adds */

static struct file valid(void)
{
	struct file f = { .h = { .magic = BTF_MAGIC,
				 .version = BTF_VERSION,
				 .hdr_len = sizeof(f.h),
				 .type_len = sizeof(f.types),
				 .str_off = sizeof(f.types),
				 .str_len = sizeof(f.strs) } };

	memcpy(f.strs, strs, sizeof(strs));
	return f;
}

static int names_of(const struct file *f, size_t size, struct tracepoint_names *out)
{
	char path[] = "/tmp/test_tracepoints.XXXXXX";
	int fd = mkstemp(path), err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, f, size), size);
	close(fd);
	err = tracepoint_names__read(out, path);
	unlink(path);
	return err;
}

static void names_begin_with_the_prefix(void **state)
{
	struct file f = valid();
	struct tracepoint_names names;

	(void)state;
	assert_int_equal(names_of(&f, FILE_BYTES, &names), 0);
	assert_int_equal(names.cnt, 2);
	assert_string_equal(names.names[0], "sched_switch");
	assert_string_equal(names.names[1], "sys_enter");
	tracepoint_names__free(&names);
}

static void broken_files_are_refused(void **state)
{
	struct tracepoint_names names;
	struct file f = valid();

	(void)state;
	assert_int_equal(names_of(&f, FILE_BYTES - 1, &names), -EIO);
	tracepoint_names__free(&names);
	assert_int_equal(names_of(&f, 8, &names), -EIO);
	tracepoint_names__free(&names);
	f.h.magic = 0;
	assert_int_equal(names_of(&f, FILE_BYTES, &names), -EINVAL);
	tracepoint_names__free(&names);
	f = valid();
	f.h.str_len = UINT32_MAX;
	assert_int_equal(names_of(&f, FILE_BYTES, &names), -EINVAL);
	tracepoint_names__free(&names);
	f = valid();
	f.strs[sizeof(strs) - 1] = 'x'; /* no end */
	assert_int_equal(names_of(&f, FILE_BYTES, &names), 0);
	assert_int_equal(names.cnt, 2);
	tracepoint_names__free(&names);
	assert_int_equal(tracepoint_names__read(&names, "/no/such/file"), -ENOENT);
	tracepoint_names__free(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_begin_with_the_prefix),
		cmocka_unit_test(broken_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
