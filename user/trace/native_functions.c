/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/native_functions.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "elf/ehframe.h"
#include "elf/insn.h"
#include "profile/profile.h"
#include "symbolize/symbolize.h"

#define FUNCTION_BYTES_MAX (1U << 20) /* of code that is looked at */
#define FUNCTIONS_MAX	   65536
/* Where a function begins, the stack pointer is at the return address: x86-64. */
#define ENTRY_CFA	   NATIVE_RA_BELOW

struct finder {
	struct native_functions *fs;
	const struct elf_file *ef;
	const struct unwind_table *rows;
	uint8_t *code; /* of one function */
};

/* ---- where functions begin and end ----------------------------------------------------------- */

/* The CFA as a distance to the stack pointer. False: it is not known that way. */
static bool cfa_off_at(const struct finder *f, uint64_t addr, uint32_t *off)
{
	struct unwind_rule r;
	uint64_t offset;

	if (!elf_file__addr_to_off(f->ef, addr, &offset) ||
	    !unwind_table__find(f->rows, offset, &r) ||
	    (r.cfa_kind != CFA_REG && r.cfa_kind < CFA_BASE) || r.cfa_reg != ARCH_REG_SP ||
	    r.cfa_off < ENTRY_CFA)
		return false;
	*off = (uint32_t)r.cfa_off;
	return true;
}

static bool is_return(const uint8_t *code, size_t size)
{
	static const uint8_t ret = 0xc3, ret_n = 0xc2, rep = 0xf3, bnd = 0xf2;

	if (size > 1 && (code[0] == rep || code[0] == bnd))
		code++;
	return code[0] == ret || code[0] == ret_n;
}

static int add_spot(const struct finder *f, uint64_t addr, uint32_t cfa_off, bool is_end,
		    bool emulated)
{
	struct native_functions *fs = f->fs;
	struct native_spot s = { .function = (uint32_t)fs->cnt,
				 .cfa_off = cfa_off,
				 .is_end = is_end,
				 .emulated = emulated };

	if (!elf_file__addr_to_off(f->ef, addr, &s.offset))
		return 0;
	if (ARRAY_GROW(fs->spots, fs->spot_cap, fs->spot_cnt, SIZE_MAX))
		return -ENOMEM;
	fs->spots[fs->spot_cnt++] = s;
	return 0;
}

/* What one pass over the code of a function finds. */
struct pass {
	uint64_t start, end;
	uint64_t entry; /* the first emulated instruction before any branch; 0: none */
	uint32_t entry_off;
	uint64_t joined; /* the lowest target of its branches into itself */
	bool straight;	 /* no branch came yet */
	bool first_emulated;
};

static int take_insn(const struct finder *f, struct pass *p, uint64_t at, const uint8_t *code,
		     const struct insn *insn)
{
	uint32_t off;

	if (at == p->start)
		p->first_emulated = insn->emulated;
	if (p->straight && !p->entry && insn->emulated && cfa_off_at(f, at, &off)) {
		p->entry = at;
		p->entry_off = off;
	}
	if (insn->direct && insn->target > p->start && insn->target < p->end &&
	    insn->target < p->joined)
		p->joined = insn->target;
	if (insn->direct || insn->ends)
		p->straight = false;
	/* At any `ret` the stack pointer is at the return address. */
	return is_return(code, insn->size) ? add_spot(f, at, ENTRY_CFA, true, false) : 0;
}

static int take_function(const struct finder *f, const struct fde_range *r)
{
	struct pass p = {
		.start = r->start, .end = r->end, .joined = UINT64_MAX, .straight = true
	};
	size_t size = r->end - r->start, at = 0, first = f->fs->spot_cnt;
	struct native_functions *fs = f->fs;
	struct insn insn;
	uint32_t off;
	int err = 0;

	if (!size || size > FUNCTION_BYTES_MAX || !cfa_off_at(f, r->start, &off) ||
	    off != ENTRY_CFA || elf_file__read(f->ef, r->start, f->code, size))
		return 0;
	while (at < size && !err && !insn__decode(f->code + at, size - at, r->start + at, &insn)) {
		err = take_insn(f, &p, r->start + at, f->code + at, &insn);
		at += insn.size;
	}
	/* Not a function that can be followed: there are bytes that are no instructions. */
	if (at < size) {
		fs->spot_cnt = first;
		return err;
	}
	if (p.entry && p.joined > p.entry)
		err = err ? err : add_spot(f, p.entry, p.entry_off, false, true);
	else
		err = err ? err : add_spot(f, r->start, ENTRY_CFA, false, p.first_emulated);
	if (!err && ARRAY_GROW(fs->all, fs->cap, fs->cnt, FUNCTIONS_MAX))
		err = fs->cnt == FUNCTIONS_MAX ? -E2BIG : -ENOMEM;
	if (!err)
		fs->all[fs->cnt++] = (struct native_function){ .start = r->start, .end = r->end };
	return err;
}

int native_functions__find(struct native_functions *fs, const struct elf_file *ef)
{
	struct finder f = { .fs = fs, .ef = ef };
	struct unwind_table *rows;
	struct fde_range *ranges = NULL;
	size_t cnt = 0;
	int err;

	*fs = (struct native_functions){ 0 };
	if (elf_file__machine(ef) != EM_X86_64)
		return -ENOTSUP;
	rows = unwind_table__build(ef);
	err = rows ? ehframe__ranges(ef, &ranges, &cnt) : -errno;
	f.rows = rows;
	f.code = malloc(FUNCTION_BYTES_MAX);
	if (!f.code)
		err = -ENOMEM;
	for (size_t i = 0; i < cnt && !err; i++)
		err = take_function(&f, &ranges[i]);
	free(f.code);
	free(ranges);
	unwind_table__free(rows);
	elf_file__forget(ef);
	return err;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Of a profile in which each function has a stack of its own. */
static int name_all(struct native_functions *fs, const struct elf_file *ef, struct symbolizer *sym,
		    struct profile *p)
{
	const struct symbolize_opts o = { 0 };
	const uint32_t file = 1;
	int proc = profile__add_proc(p, &(struct profile_proc){ .tgid = 1 });
	int err = proc < 0 ? proc : symbolizer__add_file(sym, file, ef);
	uint64_t offset;

	for (size_t i = 0; i < fs->cnt && !err; i++) {
		uint64_t word;

		if (!elf_file__addr_to_off(ef, fs->all[i].start, &offset))
			return -EINVAL;
		word = NATIVE_WORD(file, offset);
		if (profile__add_stack(p, (uint32_t)proc, 0, &word, 1, 1) < 0)
			return -ENOMEM;
	}
	err = err ? err : symbolizer__run(sym, p, &o);
	/* Stacks stay in the order in which they were added. */
	for (size_t i = 0; i < fs->cnt && !err; i++) {
		const struct sym *s = &p->syms[p->frame_syms[p->stacks[i].first]];

		fs->all[i].name = strdup(profile__str(p, s->func));
		err = fs->all[i].name ? 0 : -ENOMEM;
	}
	return err;
}

int native_functions__name(struct native_functions *fs, const struct elf_file *ef,
			   struct readers *rs)
{
	struct symbolizer *sym = symbolizer__new(rs);
	struct profile *p = profile__new();
	int err = sym && p ? name_all(fs, ef, sym, p) : -ENOMEM;

	profile__free(p);
	symbolizer__free(sym);
	return err;
}

size_t native_functions__by_name(const struct native_functions *fs, const struct elf_file *ef,
				 const char *name)
{
	struct elf_symbol symbol;
	bool found = elf_file__symbol(ef, name, &symbol);

	for (size_t i = 0; i < fs->cnt; i++)
		if (found ? fs->all[i].start == symbol.addr : !strcmp(fs->all[i].name, name))
			return i;
	return SIZE_MAX;
}

void native_functions__free(struct native_functions *fs)
{
	for (size_t i = 0; i < fs->cnt; i++)
		free(fs->all[i].name);
	free(fs->all);
	free(fs->spots);
	*fs = (struct native_functions){ 0 };
}
