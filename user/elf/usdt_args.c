/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "elf/usdt_args.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LEN 8 /* of a register, with its end */

#if defined(__x86_64__)
/* By DWARF number: the names for 8, 4, 2 and 1 bytes. System V ABI x86-64, figure 3.36. */
static const char registers[][4][NAME_LEN] = {
	{ "rax", "eax", "ax", "al" },	   { "rdx", "edx", "dx", "dl" },
	{ "rcx", "ecx", "cx", "cl" },	   { "rbx", "ebx", "bx", "bl" },
	{ "rsi", "esi", "si", "sil" },	   { "rdi", "edi", "di", "dil" },
	{ "rbp", "ebp", "bp", "bpl" },	   { "rsp", "esp", "sp", "spl" },
	{ "r8", "r8d", "r8w", "r8b" },	   { "r9", "r9d", "r9w", "r9b" },
	{ "r10", "r10d", "r10w", "r10b" }, { "r11", "r11d", "r11w", "r11b" },
	{ "r12", "r12d", "r12w", "r12b" }, { "r13", "r13d", "r13w", "r13b" },
	{ "r14", "r14d", "r14w", "r14b" }, { "r15", "r15d", "r15w", "r15b" },
};
#define REGISTERS (sizeof(registers) / sizeof(registers[0]))
#else
static const char registers[1][4][NAME_LEN];
#define REGISTERS 0
#endif

/* At "%rax", moves *p behind it. False: it is none that is known. */
static bool take_register(const char **p, uint8_t *reg)
{
	size_t len;

	if (**p != '%')
		return false;
	len = strspn(*p + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
	for (size_t i = 0; i < REGISTERS; i++) {
		for (size_t k = 0; k < 4; k++) {
			if (strlen(registers[i][k]) != len || memcmp(registers[i][k], *p + 1, len))
				continue;
			*p += 1 + len;
			*reg = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static bool take_number(const char **p, __s64 *n)
{
	char *end;

	errno = 0;
	*n = strtoll(*p, &end, 0);
	if (end == *p || errno)
		return false;
	*p = end;
	return true;
}

/* "(%rsp,%rax,8)", behind the displacement */
static bool take_memory(const char **p, struct probe_arg *a)
{
	__s64 scale = 1;

	a->kind = PROBE_ARG_MEMORY;
	++*p;
	if (!take_register(p, &a->reg))
		return false;
	if (**p == ',') {
		++*p;
		if (!take_register(p, &a->index))
			return false;
		if (**p == ',' && (++*p, !take_number(p, &scale)))
			return false;
	}
	if (**p != ')' || (scale != 1 && scale != 2 && scale != 4 && scale != 8))
		return false;
	a->scale = (uint8_t)scale;
	++*p;
	return true;
}

/* What stands behind the '@'. */
static int take_place(const char **p, struct probe_arg *a)
{
	bool known;

	if (**p == '$') {
		++*p;
		a->kind = PROBE_ARG_CONST;
		known = take_number(p, &a->value);
	} else if (**p == '%') {
		a->kind = PROBE_ARG_REG;
		known = take_register(p, &a->reg);
	} else if (**p == '(') {
		known = take_memory(p, a);
	} else {
		known = take_number(p, &a->value) && **p == '(' && take_memory(p, a);
	}
	return known && (!**p || **p == ' ') ? 0 : -ENOTSUP;
}

static int parse(const char *p, struct probe_arg *a)
{
	__s64 size;

	*a = (struct probe_arg){ .index = PROBE_NO_REG };
	if (!take_number(&p, &size))
		return -EINVAL;
	if (*p == 'f')
		return -ENOTSUP;
	a->is_signed = size < 0;
	size = size < 0 ? -size : size;
	if (*p != '@' || (size != 1 && size != 2 && size != 4 && size != 8))
		return -EINVAL;
	a->size = (uint8_t)size;
	p++;
	return take_place(&p, a);
}

int usdt_args__find(const char *args, uint32_t n, struct probe_arg *out)
{
	for (;;) {
		args += strspn(args, " ");
		if (!*args)
			return -ENOENT;
		if (!--n)
			return parse(args, out);
		args += strcspn(args, " ");
	}
}
