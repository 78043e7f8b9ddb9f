/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The copy of the kernel's types: what is copied, and what of broken files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "follow/kernelbtf.h"

#define INFO(kind, cnt) ((uint32_t)(kind) << 24 | (cnt))

static const char strs[] = "\0task_struct\0mm\0int\0other\0list";
enum { TASK = 1, MM = 13, INT = 16, OTHER = 20, LIST = 26 };

/*
 * Ids 1 to 7: int, an array of it, a struct that nobody asked for, its typedef, a pointer to that,
 * task_struct, ...
 */
static const uint32_t types[] = {
	INT,   INFO(BTF_KIND_INT, 0),	  4,  32,		      /* 1 */
	0,     INFO(BTF_KIND_ARRAY, 0),	  0,  1,   1, 4,	      /* 2: int [4] */
	OTHER, INFO(BTF_KIND_STRUCT, 1),  4,  INT, 1, 0,	      /* 3 */
	LIST,  INFO(BTF_KIND_TYPEDEF, 0), 2,			      /* 4: int [4] */
	0,     INFO(BTF_KIND_PTR, 0),	  3,			      /* 5: to struct other */
	TASK,  INFO(BTF_KIND_STRUCT, 2),  24, MM,  5, 0, LIST, 4, 64, /* 6 */
};

struct file {
	struct btf_header h;
	uint8_t types[sizeof(types)];
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

	memcpy(f.types, types, sizeof(types));
	memcpy(f.strs, strs, sizeof(strs));
	return f;
}

static int copy_of(const void *data, size_t size)
{
	char path[] = "/tmp/test_kernelbtf.XXXXXX";
	int fd = mkstemp(path), copy;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	copy = kernelbtf__open(path);
	close(fd);
	unlink(path);
	return copy;
}

/*
 * task_struct first, and what it holds behind it; the pointer leads nowhere, so struct other is not
 * there.
 */
static void wanted_types_are_copied_with_what_they_hold(void **state)
{
	struct file f = valid();
	uint32_t out[256] = { 0 };
	int fd = copy_of(&f, FILE_BYTES);
	const struct btf_header *h = (const void *)out;
	const uint32_t *t = out + sizeof(*h) / 4;
	const char *names;

	(void)state;
	assert_true(fd >= 0);
	assert_true(pread(fd, out, sizeof(out), 0) > 0);
	close(fd);
	names = (const char *)t + h->str_off;
	assert_string_equal(names + t[0], "task_struct");
	assert_string_equal(names + t[3], "mm");
	assert_string_equal(names + t[6], "list");
	assert_int_equal(t[4], 2);
	assert_int_equal(t[7], 3);
	t += 9;
	assert_int_equal(t[1], INFO(BTF_KIND_PTR, 0));
	assert_int_equal(t[2], 0);
	t += 3;
	assert_int_equal(t[1], INFO(BTF_KIND_TYPEDEF, 0));
	assert_int_equal(t[2], 4);
	t += 3;
	assert_int_equal(t[1], INFO(BTF_KIND_ARRAY, 0));
	assert_int_equal(t[3], 5);
	assert_string_equal(names + t[6], "int");
	assert_int_equal(h->type_len, (9 + 3 + 3 + 6 + 4) * 4);
}

static void broken_files_are_refused(void **state)
{
	struct file f = valid();

	(void)state;
	assert_int_equal(kernelbtf__open("/nonexistent"), -ENOENT);
	assert_int_equal(copy_of(&f, 3), -EINVAL);
	assert_int_equal(copy_of(&f, FILE_BYTES - 1), -EINVAL);
	f.h.magic = 0;
	assert_int_equal(copy_of(&f, FILE_BYTES), -EINVAL);
	f = valid();
	f.strs[sizeof(strs) - 1] = 'x'; /* no end */
	assert_int_equal(copy_of(&f, FILE_BYTES), -EINVAL);
	f = valid();
	f.types[7] = 31; /* a kind of a kernel to come */
	assert_int_equal(copy_of(&f, FILE_BYTES), -ENOTSUP);
	f = valid();
	((uint32_t *)(void *)f.types)[17] = INFO(BTF_KIND_STRUCT, 0xffff);
	assert_int_equal(copy_of(&f, FILE_BYTES), -EINVAL);
	f = valid();
	memset(f.strs, 'x', sizeof(strs) - 1); /* nothing has a name that was asked for */
	assert_int_equal(copy_of(&f, FILE_BYTES), -ENOENT);
}

/* Any one byte of it may be anything: nothing is read or written out of bounds. */
static void no_byte_breaks_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < FILE_BYTES; i++) {
		for (unsigned bit = 0; bit < 8; bit += 3) {
			struct file f = valid();
			int fd;

			((uint8_t *)&f)[i] ^= (uint8_t)(1u << bit);
			fd = copy_of(&f, FILE_BYTES);
			if (fd >= 0)
				close(fd);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wanted_types_are_copied_with_what_they_hold),
		cmocka_unit_test(broken_files_are_refused),
		cmocka_unit_test(no_byte_breaks_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
