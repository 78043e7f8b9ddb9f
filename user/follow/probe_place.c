/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/probe_place.h"

#include <bpf/bpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opener.h"
#include "bpf/arch/arch.h"
#include "elf/ehframe.h"
#include "elf/insn.h"
#include "elf/usdt.h"

/* ---- what is asked for ----------------------------------------------------------------------- */

bool probe_place__is_usdt(const struct probe_place *p)
{
	return p->name[0] != '\0';
}

static const char *kind_of(const struct probe_place *p)
{
	return probe_place__is_usdt(p) ? "usdt" : "uprobe";
}

static bool parse_offset(const char *text, uint64_t *offset)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*offset = strtoull(text, &end, 0);
	return !*end && !errno;
}

/* PATH:SYMBOL[+OFFSET] or PATH:0xOFFSET */
static bool parse_place(const char *args, struct probe_place *p)
{
	const char *colon = strrchr(args, ':');
	char *plus;

	if (args[0] != '/' || !colon || colon == args || !colon[1])
		return false;
	p->exact = true;
	memcpy(p->path, args, (size_t)(colon - args));
	if (colon[1] >= '0' && colon[1] <= '9') /* no symbol begins so */
		return parse_offset(colon + 1, &p->offset);
	snprintf(p->symbol, sizeof(p->symbol), "%s", colon + 1);
	plus = strrchr(p->symbol, '+');
	p->exact = plus && plus != p->symbol;
	if (!p->exact)
		return true;
	*plus = '\0';
	return parse_offset(plus + 1, &p->offset);
}

/* Paths have colons, too; the names of probes have none. */
static bool parse_usdt_place(const char *args, struct probe_place *p)
{
	const char *name = strrchr(args, ':'), *provider;

	if (args[0] != '/' || !name || !name[1])
		return false;
	provider = memrchr(args, ':', (size_t)(name - args));
	if (!provider || provider + 1 == name || provider == args)
		return false;
	memcpy(p->path, args, (size_t)(provider - args));
	memcpy(p->provider, provider + 1, (size_t)(name - provider - 1));
	snprintf(p->name, sizeof(p->name), "%s", name + 1);
	return true;
}

static int say_form(bool usdt, const char *text)
{
	if (usdt)
		log_err("-e usdt:%s: must be usdt:PATH:PROVIDER:NAME, with PATH from the root; "
			"`pyperf-bpf probes PATH` lists them",
			text);
	else
		log_err("-e uprobe:%s: must be uprobe:PATH:SYMBOL, uprobe:PATH:SYMBOL+OFFSET or "
			"uprobe:PATH:0xOFFSET, with PATH from the root",
			text);
	return -EINVAL;
}

int probe_place__parse(struct probe_place *p, const char *kind, const char *text)
{
	char place[PROBE_TEXT_MAX], why[PROBE_WHY_MAX];
	bool usdt = !strcmp(kind, "usdt");
	const char *colon = strrchr(text, ':'), *words;
	struct probe_rule unused;

	*p = (struct probe_place){ .exact = false };
	if (!colon || strlen(text) >= sizeof(p->text))
		return say_form(usdt, text);
	memcpy(p->text, text, strlen(text));
	/* Paths may have blanks; what stands behind the last colon has none. */
	words = colon + strcspn(colon, " ");
	snprintf(place, sizeof(place), "%.*s", (int)(words - text), text);
	if (!(usdt ? parse_usdt_place : parse_place)(place, p))
		return say_form(usdt, text);
	if (!probe_words__parse(&p->words, words, why) &&
	    (usdt || !probe_words__rule(&p->words, NULL, &unused, why)))
		return 0;
	log_err("-e %s:%s: %s", kind, text, why);
	return -EINVAL;
}

/* "libc.so.6:malloc" or "python:gc__start", or its last part alone. */
static void place_name(const struct probe_place *p, char out[PROBE_TEXT_MAX], bool part)
{
	const char *from = strrchr(p->path, '/') + 1;
	size_t skip = probe_place__is_usdt(p) ? strlen(p->path) + 1 : (size_t)(from - p->path);
	const char *words = strrchr(p->text, ':');

	if (part)
		skip = (size_t)(words - p->text) + 1;
	words += strcspn(words, " ");
	snprintf(out, PROBE_TEXT_MAX, "%.*s", (int)(words - p->text - (long)skip), p->text + skip);
}

void probe_place__name(const struct probe_place *p, char *out, size_t size)
{
	char place[PROBE_TEXT_MAX], sum[16] = "";
	const char *words = strrchr(p->text, ':');
	int room;

	words += strcspn(words, " ");
	if (p->words.sum)
		snprintf(sum, sizeof(sum), " sum arg%u", p->words.amount.number);
	for (int part = 0; part < 2; part++) {
		place_name(p, place, part);
		if (strlen(place) + strlen(words) < size) {
			snprintf(out, size, "%.*s%s", (int)size, place, words);
			return;
		}
	}
	place_name(p, place, false);
	if (strlen(place) + strlen(sum) >= size)
		place_name(p, place, true);
	room = (int)(size - strlen(sum) - 1);
	snprintf(out, size, "%.*s%s", room, place, sum);
}

/* ---- where it is in the file ----------------------------------------------------------------- */

/*
 * Behind the instruction that marks a function's entry: it has no effect, and the kernel executes
 * it out of line, which is some fifty times as dear as what it can emulate, as it does the push
 * behind it.
 */
static uint64_t skip_landing(const struct elf_file *ef, uint64_t addr)
{
	char code[sizeof(ARCH_LANDING) - 1];

	if (elf_file__read(ef, addr, code, sizeof(code)) ||
	    memcmp(code, ARCH_LANDING, sizeof(code)) != 0)
		return addr;
	return addr + sizeof(code);
}

/* The instruction at an address of code: -EINVAL if its bytes are none, or there are no bytes. */
static int insn_at(const struct elf_file *ef, uint64_t addr, struct insn *insn)
{
	uint8_t code[INSN_MAX];

	if (elf_file__machine(ef) == EM_X86_64)
		return insn__at(ef, addr, code, insn);
	*insn = (struct insn){ .size = 4 };
	return 0;
}

/* Of a symbol without a size, as assembler leaves it. Nobody writes functions that are larger. */
#define FUNCTION_MAX (4U << 20)

/*
 * Does an instruction begin at `addr`? A breakpoint within one changes it, and what the process
 * computes. It is known by decoding from `start`, where the function of `size` bytes begins. NULL,
 * or why not.
 */
static const char *why_no_insn(const struct elf_file *ef, uint64_t start, uint64_t size,
			       uint64_t addr)
{
	struct insn insn;
	uint64_t at = start;

	if (addr < start || addr - start >= (size ? size : FUNCTION_MAX))
		return "it is not in that function";
	for (;;) {
		if (insn_at(ef, at, &insn))
			return "the instructions before it, or there, cannot be decoded";
		if (at == addr)
			return NULL;
		at += insn.size;
		if (at > addr)
			return "it is within an instruction: a breakpoint would change what the "
			       "process computes";
	}
}

/* The same for a place that no symbol names: its function is known by its unwind information. */
static const char *why_no_insn_at_offset(const struct elf_file *ef, uint64_t offset)
{
	uint64_t addr, start, end;

	if (!elf_file__off_to_addr(ef, offset, &addr))
		return "it is not code";
	if (!ehframe__fde_at(ef, addr, &start, &end))
		return "no unwind information covers it: nothing tells where its instructions "
		       "begin";
	return why_no_insn(ef, start, end - start, addr);
}

static int say_no_insn(const struct probe_place *p, const char *why)
{
	if (!why)
		return 0;
	log_err("-e %s:%s: %s", kind_of(p), p->text, why);
	return -EINVAL;
}

static int find_symbol(const struct elf_file *ef, const struct probe_place *p, uint64_t *offset)
{
	const char *path = elf_file__path(ef);
	struct elf_symbol symbol;
	uint64_t addr;

	if (!elf_file__symbol(ef, p->symbol, &symbol)) {
		log_err("-e uprobe: %s has no symbol %s", path, p->symbol);
		return -ENOENT;
	}
	addr = p->exact ? symbol.addr + p->offset : skip_landing(ef, symbol.addr);
	if (elf_file__addr_to_off(ef, addr, offset))
		return say_no_insn(p, why_no_insn(ef, symbol.addr, symbol.size, addr));
	log_err("-e uprobe: %s of %s is not code", p->symbol, path);
	return -EINVAL;
}

static int find_uprobe(const struct probe_place *p, struct probe_spots *s)
{
	char why[PROBE_WHY_MAX];
	int err = 0;

	s->cnt = 1;
	s->at[0].offset = p->offset;
	if (p->symbol[0])
		err = find_symbol(s->ef, p, &s->at[0].offset);
	else
		err = say_no_insn(p, why_no_insn_at_offset(s->ef, p->offset));
	if (err)
		return err;
	err = probe_words__rule(&p->words, NULL, &s->at[0].rule, why);
	if (err)
		log_err("-e uprobe:%s: %s", p->text, why);
	return err;
}

/* ---- static probes --------------------------------------------------------------------------- */

struct search {
	const struct probe_place *place;
	struct probe_spots *spots;
	const char *why_not;
	char why[PROBE_WHY_MAX];
	int err;
};

static void take_location(void *ctx, const struct usdt *found)
{
	struct search *l = ctx;
	struct probe_spots *s = l->spots;
	struct probe_spot *at = &s->at[s->cnt];

	if (strcmp(found->provider, l->place->provider) || strcmp(found->name, l->place->name) ||
	    s->cnt == PROBE_SPOTS || l->err)
		return;
	*at = (struct probe_spot){ .offset = found->offset };
	if (!l->why_not)
		l->why_not = usdt__why_not(s->ef, found);
	if (!l->why_not) /* the notes of a file say what their writer likes */
		l->why_not = why_no_insn_at_offset(s->ef, found->offset);
	if (found->semaphore && !elf_file__addr_to_off(s->ef, found->semaphore, &at->semaphore) &&
	    !l->why_not)
		l->why_not = "its semaphore is not in the file";
	l->err = probe_words__rule(&l->place->words, found->args, &at->rule, l->why);
	s->cnt++;
}

static int find_usdt(const struct probe_place *p, struct probe_spots *s)
{
	struct search l = { .place = p, .spots = s };

	usdt__each(s->ef, take_location, &l);
	if (!s->cnt) {
		log_err("-e usdt:%s: no such probe; `pyperf-bpf probes PATH` lists them", p->text);
		return -ENOENT;
	}
	if (l.why_not) {
		log_err("-e usdt:%s: %s", p->text, l.why_not);
		return -EPERM;
	}
	if (l.err)
		log_err("-e usdt:%s: %s", p->text, l.why);
	return l.err;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The file that the process finds by that path, which others may have put there. */
static int find_file(struct readers *rs, const char *path, pid_t pid, struct opened *file)
{
	int proc_fd = opener__proc_dir((uint32_t)pid), err;

	if (proc_fd < 0)
		return proc_fd;
	err = opener__find_followed(rs, (uint32_t)pid, proc_fd, path, file);
	close(proc_fd);
	return err;
}

static int open_ours(const char *path, struct opened *file)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	*file = opened__of(fd);
	return fd < 0 ? -errno : 0;
}

/* NULL after a message, and errno. */
static struct elf_file *open_file(const struct probe_place *place, struct readers *rs, pid_t pid)
{
	struct opened file = OPENED_NONE;
	struct elf_file *ef = NULL;
	char whose[32] = "";
	int err = pid > 0 ? find_file(rs, place->path, pid, &file) : open_ours(place->path, &file);

	if (!err) {
		ef = elf_file__open_opened(&file, place->path);
		err = ef ? 0 : -errno;
	}
	if (pid > 0)
		snprintf(whose, sizeof(whose), " of process %d", pid);
	if (err)
		log_err("-e %s: %s%s: %s", kind_of(place), place->path, whose, strerror(-err));
	errno = -err;
	return ef;
}

struct probe_spots *probe_place__find(const struct probe_place *p, struct readers *rs, pid_t pid)
{
	struct probe_spots *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		log_no_memory();
		errno = ENOMEM;
		return NULL;
	}
	s->ef = open_file(p, rs, pid);
	err = s->ef ? 0 : -errno;
	if (!err)
		err = probe_place__is_usdt(p) ? find_usdt(p, s) : find_uprobe(p, s);
	for (size_t i = 0; i < s->cnt && !err; i++)
		s->at[i].emulated = uprobe__emulates(s->ef, s->at[i].offset);
	if (!err)
		return s;
	probe_spots__free(s);
	errno = -err;
	return NULL;
}

void probe_spots__free(struct probe_spots *s)
{
	if (!s)
		return;
	elf_file__close(s->ef);
	free(s);
}

/* ---- breakpoints ----------------------------------------------------------------------------- */

uint32_t probe_set__number(const struct probe_set *s, uint32_t type, size_t spot)
{
	return type * PROBE_SPOTS + (s->cookies ? (uint32_t)spot : 0);
}

/* Without cookies a program knows the probe alone, and so one rule. */
static int check_rules(const struct probe_set *s, const struct probe_place *place,
		       const struct probe_spots *spots)
{
	for (size_t i = 1; i < spots->cnt && !s->cookies; i++) {
		if (!memcmp(&spots->at[0].rule, &spots->at[i].rule, sizeof(spots->at[0].rule)))
			continue;
		log_err("-e usdt:%s: its arguments are not at one place, which needs Linux 5.15",
			place->text);
		return -ENOTSUP;
	}
	return 0;
}

int probe_set__add(struct probe_set *s, const struct probe_place *place,
		   const struct probe_spots *spots, uint32_t type, pid_t pid, int prog_fd)
{
	int err = check_rules(s, place, spots);

	for (size_t i = 0; i < spots->cnt && !err; i++) {
		const struct probe_spot *at = &spots->at[i];
		uint32_t number = probe_set__number(s, type, i);
		const struct uprobe_spot spot = { .offset = at->offset,
						  .semaphore = at->semaphore,
						  .cookie =
							  s->cookies ? number : UPROBE_NO_COOKIE };

		/* Its rule is there before it can be hit. */
		if (bpf_map_update_elem(s->rules_fd, &number, &at->rule, BPF_ANY)) {
			err = -errno;
			log_err("-e %s:%s: its filter: %s", kind_of(place), place->text,
				strerror(-err));
			return err;
		}
		err = uprobe_list__add(&s->breakpoints, pid, elf_file__fd(spots->ef), &spot,
				       prog_fd);
		if (err)
			log_err("-e %s:%s: at 0x%" PRIx64 " of the file: %s%s", kind_of(place),
				place->text, at->offset, strerror(-err), uprobe__remedy(err));
	}
	return err;
}
