/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "elf/usdt.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NT_STAPSDT 3 /* SystemTap, includes/sys/sdt.h: _SDT_NOTE_TYPE */

/* The string at *p, which ends before `end`; moves *p behind it. NULL: it does not end. */
static const char *take_string(const uint8_t **p, const uint8_t *end)
{
	const char *s = (const char *)*p;
	const uint8_t *nul = memchr(*p, 0, (size_t)(end - *p));

	if (!nul)
		return NULL;
	*p = nul + 1;
	return s;
}

/*
 * Reads the description of a note: three addresses and three strings. The addresses are those of
 * the link before a prelink moved the file; .stapsdt.base, whose address the note has too, gives
 * the distance.
 */
static int read_note(const struct elf_file *ef, const uint8_t *desc, size_t size, struct usdt *u)
{
	const uint8_t *p = desc + 24, *end = desc + size;
	struct elf_section base;
	uint64_t words[3], moved = 0;

	if (size < 24)
		return -EBADMSG;
	memcpy(words, desc, sizeof(words));
	u->provider = take_string(&p, end);
	u->name = u->provider ? take_string(&p, end) : NULL;
	u->args = u->name ? take_string(&p, end) : NULL;
	if (!u->args)
		return -EBADMSG;
	if (elf_file__section_info(ef, ".stapsdt.base", &base))
		moved = base.addr - words[1];
	u->addr = words[0] + moved;
	u->semaphore = words[2] ? words[2] + moved : 0;
	return elf_file__addr_to_off(ef, u->addr, &u->offset) ? 0 : -EBADMSG;
}

static uint64_t padded(uint64_t size)
{
	return (size + 3) & ~3ULL;
}

int usdt__each(const struct elf_file *ef, void (*fn)(void *ctx, const struct usdt *u), void *ctx)
{
	struct elf_section s;
	uint64_t at = 0;
	int cnt = 0;

	if (!elf_file__section(ef, ".note.stapsdt", &s) || !s.data)
		return 0;
	while (cnt < USDT_MAX && s.size - at >= sizeof(Elf64_Nhdr)) {
		const uint8_t *name;
		struct usdt u;
		Elf64_Nhdr n;

		memcpy(&n, s.data + at, sizeof(n));
		at += sizeof(n);
		if (padded(n.n_namesz) > s.size - at ||
		    padded(n.n_descsz) > s.size - at - padded(n.n_namesz))
			return -EBADMSG;
		name = s.data + at;
		at += padded(n.n_namesz) + padded(n.n_descsz);
		if (n.n_type != NT_STAPSDT || n.n_namesz != 8 || memcmp(name, "stapsdt", 8))
			continue;
		if (read_note(ef, name + 8, n.n_descsz, &u))
			return -EBADMSG;
		fn(ctx, &u);
		cnt++;
	}
	return cnt;
}

/*
 * Only interpreters of 3.11 have both: 3.10 has no Py_Version (CPython, Python/getversion.c), 3.12
 * has no probe "line".
 */
static bool is_line_of_311(const struct elf_file *ef, const struct usdt *u)
{
	struct elf_symbol symbol;

	return !strcmp(u->provider, "python") && !strcmp(u->name, "line") &&
	       elf_file__symbol(ef, "Py_Version", &symbol);
}

const char *usdt__why_not(const struct elf_file *ef, const struct usdt *u)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	uint8_t code[sizeof(nop5)];

	if (is_line_of_311(ef, u))
		return "to enable it can crash CPython 3.11 (cpython #98894)";
	if (!elf_file__read(ef, u->addr, code, sizeof(code)) && !memcmp(code, nop5, sizeof(nop5)))
		return "newer kernels rewrite its instruction to a call";
	return NULL;
}
