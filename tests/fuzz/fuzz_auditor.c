/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any ELF file as an interpreter whose audit events are wanted; the seeds are fuzz_auditor.S. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "elf/ehframe.h"
#include "elf/elf.h"
#include "trace/auditor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A breakpoint is set there. */
static void begins_function(const struct elf_file *ef, uint64_t addr)
{
	uint64_t start, end;

	if (!ehframe__fde_at(ef, addr, &start, &end) || start != addr)
		abort();
}

static void check(const struct elf_file *ef, const struct auditor *a)
{
	if (a->hidden_cnt > AUDITOR_HIDDEN_MAX || (a->hidden_cnt && (!a->inner || !a->complete)))
		abort();
	if (a->inner)
		begins_function(ef, a->raise);
	for (size_t i = 0; i < a->hidden_cnt; i++) {
		begins_function(ef, a->hidden[i]);
		for (size_t k = 0; k < i; k++)
			if (a->hidden[k] == a->hidden[i])
				abort();
	}
	if (a->python)
		begins_function(ef, a->python);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file *ef = elf_file__open_memory(data, size, "/usr/bin/python3.12");
	struct auditor a;

	if (!ef)
		return 0;
	if (!auditor__find(ef, &a))
		check(ef, &a);
	elf_file__close(ef);
	return 0;
}
