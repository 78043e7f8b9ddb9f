/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fields of the kernel are as wide as the programs think: BTF relocation finds where a field is,
 * but what is read there has the width of our declaration (bpf/kernel_types.bpf.h). Runs in the
 * guests of scripts/test-vm, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "bpf/pyperf.h"
#include "pyperf.skel.h"
#include "threads.skel.h"

/* Read as wide as they are (BPF_CORE_READ_BITFIELD_PROBED), or without BTF relocation. */
static const struct {
	const char *type, *member;
} any_width[] = {
	{ "task_struct", "on_cpu" },
	{ "pt_regs", "cs" },
	{ "pt_regs", "ss" },
};

static const struct btf_type *strip(const struct btf *btf, __u32 id)
{
	const struct btf_type *t = btf__type_by_id(btf, id);

	while (btf_is_mod(t) || btf_is_typedef(t))
		t = btf__type_by_id(btf, t->type);
	return t;
}

static int is_scalar(const struct btf_type *t)
{
	return btf_is_int(t) || btf_is_any_enum(t) || btf_is_ptr(t);
}

static __u32 width(const struct btf_type *t)
{
	return btf_is_ptr(t) ? sizeof(__u64) : t->size;
}

/* Looks into members without a name, too. NULL: there is none. */
static const struct btf_type *find_member(const struct btf *btf, const struct btf_type *t,
					  const char *name)
{
	const struct btf_member *m = btf_members(t);
	const struct btf_type *found = NULL;

	for (int i = 0; i < btf_vlen(t) && !found; i++, m++) {
		const struct btf_type *type = strip(btf, m->type);
		const char *its = btf__name_by_offset(btf, m->name_off);

		if (!strcmp(its, name))
			found = type;
		else if (!*its && btf_is_composite(type))
			found = find_member(btf, type, name);
	}
	return found;
}

static int may_differ(const char *type, const char *member)
{
	for (size_t i = 0; i < sizeof(any_width) / sizeof(any_width[0]); i++)
		if (!strcmp(type, any_width[i].type) && !strcmp(member, any_width[i].member))
			return 1;
	return 0;
}

/*
 * Compares one type of ours, "name" or "name___what", with the kernel's. The number of fields
 * compared.
 */
static int compare(const struct btf *ours, const struct btf_type *t, const struct btf *kernel)
{
	const struct btf_member *m = btf_members(t);
	const char *end, *name = btf__name_by_offset(ours, t->name_off);
	char type[128];
	int id, cnt = 0;

	end = strstr(name, "___");
	snprintf(type, sizeof(type), "%.*s", (int)(end ? end - name : (long)strlen(name)), name);
	id = *type ? btf__find_by_name_kind(kernel, type, BTF_KIND_STRUCT) : -1;
	if (id < 0)
		return 0;
	for (int i = 0; i < btf_vlen(t); i++, m++) {
		const char *member = btf__name_by_offset(ours, m->name_off);
		const struct btf_type *mine = strip(ours, m->type), *theirs;

		theirs = find_member(kernel, btf__type_by_id(kernel, (__u32)id), member);
		if (!theirs || !is_scalar(mine) || may_differ(type, member))
			continue;
		if (!is_scalar(theirs) || width(mine) != width(theirs))
			fail_msg("%s.%s: %u bytes, in this kernel %u", type, member, width(mine),
				 width(theirs));
		cnt++;
	}
	return cnt;
}

static int compare_object(const void *elf, size_t size)
{
	struct btf *kernel = btf__load_vmlinux_btf(), *ours;
	int fd = memfd_create("object", MFD_CLOEXEC), cnt = 0;
	char path[32];

	assert_non_null(kernel);
	assert_true(fd >= 0 && write(fd, elf, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ours = btf__parse_elf(path, NULL);
	assert_non_null(ours);
	for (__u32 i = 1; i < btf__type_cnt(ours); i++) {
		const struct btf_type *t = btf__type_by_id(ours, i);

		if (btf_is_struct(t))
			cnt += compare(ours, t, kernel);
	}
	btf__free(ours);
	btf__free(kernel);
	close(fd);
	return cnt;
}

static void sampler(void **state)
{
	size_t size;
	const void *elf = pyperf_bpf__elf_bytes(&size);

	(void)state;
	assert_true(compare_object(elf, size) > 15);
}

static void threads(void **state)
{
	size_t size;
	const void *elf = threads_bpf__elf_bytes(&size);

	(void)state;
	assert_true(compare_object(elf, size) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sampler),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
