/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "elf/greenlet.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ehframe.h"

#define MAX_TEXT   (1U << 20) /* the module's is some 100 KiB */
#define CALL_BYTES 5

struct text {
	const struct elf_file *ef;
	uint8_t *bytes;
	uint64_t off; /* in the file */
	size_t size;
};

struct range {
	uint64_t start, end; /* file offsets */
};

static int read_text(const struct elf_file *ef, struct text *t)
{
	uint64_t limit;

	*t = (struct text){ .ef = ef };
	if (!elf_file__text(ef, &t->off, &limit) || limit - t->off > MAX_TEXT)
		return -1;
	t->size = limit - t->off;
	t->bytes = malloc(t->size);
	if (t->bytes && !elf_file__read_at(ef, t->off, t->bytes, t->size))
		return 0;
	free(t->bytes);
	return -1;
}

/* The function that has code at a file offset, by its FDE. */
static bool function_at(const struct elf_file *ef, uint64_t off, struct range *fn)
{
	uint64_t addr, start, end;

	if (!elf_file__off_to_addr(ef, off, &addr) || !ehframe__fde_at(ef, addr, &start, &end))
		return false;
	fn->start = off - (addr - start);
	fn->end = off + (end - addr);
	return true;
}

/* add %reg, %rsp; add %reg, %rbp (greenlet's platform/switch_amd64_unix.h). */
static bool find_slp_switch(const struct text *t, uint64_t *off)
{
	for (size_t i = 0; i + 6 <= t->size; i++) {
		const uint8_t *p = t->bytes + i;

		if ((p[0] & 0xfb) == 0x48 && p[1] == 0x01 && (p[2] & 0xc7) == 0xc4 &&
		    p[3] == p[0] && p[4] == 0x01 && p[5] == p[2] + 1) {
			*off = t->off + i;
			return true;
		}
	}
	return false;
}

/* The next call of `target` from `from` on, which is not in `self`. */
static bool find_call(const struct text *t, uint64_t target, uint64_t from,
		      const struct range *self, uint64_t *off)
{
	/* An FDE, which is the file's claim, may begin outside of the text. */
	if (from < t->off || from - t->off > t->size)
		return false;
	for (size_t i = from - t->off; t->size - i >= CALL_BYTES; i++) {
		uint64_t at = t->off + i;
		int32_t rel;

		if (t->bytes[i] != 0xe8 || (at >= self->start && at < self->end))
			continue;
		memcpy(&rel, t->bytes + i + 1, sizeof(rel));
		if (at + CALL_BYTES + (uint64_t)(int64_t)rel == target) {
			*off = at;
			return true;
		}
	}
	return false;
}

/*
 * Before 2.0 g_switchstack() has two callers, g_switch() and g_initialstub(), of which the former
 * calls the latter; or one, of which the other has become a part.
 */
static bool find_initialstub(const struct text *t, const struct range *switchstack, uint64_t *off)
{
	struct range first, second;
	uint64_t call;

	if (!find_call(t, switchstack->start, t->off, switchstack, &call) ||
	    !function_at(t->ef, call, &first))
		return false;
	*off = call;
	if (!find_call(t, switchstack->start, t->off, &first, &call) ||
	    !function_at(t->ef, call, &second))
		return true;
	if (find_call(t, second.start, first.start, &second, &call) && call < first.end)
		*off = second.start;
	return true;
}

static void add(const struct elf_file *ef, struct greenlet_function *out, size_t *cnt,
		const char *const names[2], enum cfa_kind kind)
{
	struct elf_symbol sym;

	for (int i = 0; i < 2; i++) {
		if (!elf_file__symbol(ef, names[i], &sym) ||
		    !elf_file__addr_to_off(ef, sym.addr, &out[*cnt].off))
			continue;
		out[*cnt].kind = kind;
		++*cnt;
		return;
	}
}

/* Finds the functions that call slp_switch(), whose code includes `off`. */
static size_t find_callers(const struct text *t, uint64_t off, struct greenlet_function *out)
{
	struct range slp_switch, switchstack;

	if (!function_at(t->ef, off, &slp_switch) ||
	    !find_call(t, slp_switch.start, t->off, &slp_switch, &out[0].off) ||
	    !function_at(t->ef, out[0].off, &switchstack))
		return 0;
	out[0].kind = CFA_SWITCH;
	if (!find_initialstub(t, &switchstack, &out[1].off))
		return 1;
	out[1].kind = CFA_BASE;
	return 2;
}

size_t greenlet__functions(const struct elf_file *ef,
			   struct greenlet_function out[MAX_GREENLET_FUNCTIONS])
{
	static const char *const initialstub[2] = { "_ZN8greenlet12UserGreenlet13g_initialstubEPv",
						    "g_initialstub" };
	static const char *const switchstack[2] = { "_ZN8greenlet8Greenlet13g_switchstackEv",
						    "g_switchstack" };
	struct text t;
	size_t cnt = 0;

	/*
	 * Symbols are not looked up in every file: that would cost each start some tenths of a
	 * millisecond.
	 */
	if (!strstr(elf_file__path(ef), "greenlet") || elf_file__machine(ef) != EM_X86_64)
		return 0;
	add(ef, out, &cnt, initialstub, CFA_BASE);
	add(ef, out, &cnt, switchstack, CFA_SWITCH);
	if (read_text(ef, &t))
		return cnt;
	if (find_slp_switch(&t, &out[cnt].off)) {
		out[cnt++].kind = CFA_SWITCH;
		if (cnt == 1)
			cnt += find_callers(&t, out[0].off, out + 1);
	}
	free(t.bytes);
	return cnt;
}
