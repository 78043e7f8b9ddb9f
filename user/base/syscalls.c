/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/syscalls.h"

#include <asm/unistd.h>
#include <stddef.h>

static const char *const names[] = {
#include "syscall_names.h"
};

const char *syscall_name(int64_t number)
{
	if (number < 0 || (uint64_t)number >= sizeof(names) / sizeof(names[0]))
		return NULL;
	return names[number];
}
