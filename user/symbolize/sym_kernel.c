/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernel addresses -> names. The kernel is asked for the addresses that occur (ksym.h) where it
 * shows them in kallsyms and lets us. What it does not name there, and all where it cannot be
 * asked, is looked up in the list:
 *
 *	ffffffff812a3b40 T vfs_read
 *	ffffffffc0401000 t nf_hook_slow	[nf_tables]
 *
 * Of several symbols at one address both ways give the first in the list, as the kernel's own stack
 * traces do.
 *
 * kallsyms has no sizes. A function ends where the next symbol of any kind begins, so what is not
 * text is remembered while the file is read, as the end of the function in front of it. Behind the
 * last function of a module, or of the kernel, lies memory that may hold code without a symbol (JIT
 * code of BPF programs): there a function ends at the latest one page behind the page it begins in.
 */
#include "symbolize/symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "symbolize/ksym.h"

#define KALLSYMS	"/proc/kallsyms"
#define SYMBOLS_MAX	(8U << 20)
#define NAMES_MAX	(256U << 20)
#define FUNCTION_MAX	(4U << 20)
#define KERNEL_PAGE	4096U
#define MODULE_NAME_MAX 64
#define READ_SZ		(64 * 1024)
#define SHOWN_LINES	2048 /* more than variables of each CPU stand in front of the text */

struct function {
	uint64_t addr;
	uint32_t name; /* in names; 0: a boundary, not a function */
	uint32_t size; /* while reading: place among its neighbours << 24 | number of the module */
};

struct sym_kernel {
	struct function *functions; /* ascending, disjoint */
	size_t cnt, cap;
	char *names; /* NUL-terminated, one after the other; the first is "" */
	size_t names_sz, names_cap;
	struct ksym *ask; /* or NULL, when the list is there at once */
	bool listed;	  /* the list was read, or cannot be */
};

/* State of reading the file. */
struct kallsyms_reader {
	struct sym_kernel *k;
	char module[MODULE_NAME_MAX]; /* "" is the kernel itself */
	uint32_t module_nr;	      /* symbols of one module are neighbours in the file */
	uint32_t last_name;	      /* in k->names, 0: none */
	size_t text_cnt;
	bool nonzero; /* an address of text was not zero */
};

struct line {
	uint64_t addr;
	char type;
	const char *name;
	size_t name_len;
	const char *module;
	size_t module_len;
};

/* ---- One line ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *parse_hex(const char *p, const char *end, uint64_t *value)
{
	const char *first = p;
	int digit;

	*value = 0;
	for (; p < end && p - first < 16 && (digit = hex_digit(*p)) >= 0; p++)
		*value = *value << 4 | (uint64_t)digit;
	return p == first ? NULL : p;
}

static const char *skip_word(const char *p, const char *end)
{
	while (p < end && *p != ' ' && *p != '\t' && *p != '\0')
		p++;
	return p;
}

/* Parses a line of kallsyms. False: not such a line. */
static bool parse_line(const char *p, const char *end, struct line *line)
{
	*line = (struct line){ 0 };
	p = parse_hex(p, end, &line->addr);
	if (!p || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return false;
	line->type = p[1];
	line->name = p + 3;
	p = skip_word(line->name, end);
	line->name_len = (size_t)(p - line->name);
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (p < end && *p == '[') {
		line->module = p + 1;
		p = skip_word(p, end);
		if (p[-1] != ']')
			return false;
		line->module_len = (size_t)(p - 1 - line->module);
	}
	return p == end && line->name_len && line->name_len < SYM_NAME_MAX &&
	       line->module_len < MODULE_NAME_MAX;
}

/* ---- The table ---- */

static void enter_module(struct kallsyms_reader *r, const struct line *line)
{
	if (strlen(r->module) == line->module_len &&
	    !memcmp(r->module, line->module ? line->module : "", line->module_len))
		return;
	memcpy(r->module, line->module ? line->module : "", line->module_len);
	r->module[line->module_len] = '\0';
	r->module_nr = (r->module_nr + 1) & 0xffffff;
}

/* "name" or "name [module]"; its position, or 0 when there is no room. */
static uint32_t add_name(struct sym_kernel *k, const struct line *line)
{
	size_t more = line->name_len + 1 + (line->module_len ? line->module_len + 3 : 0);
	char *p;

	if (array_grow(&k->names, &k->names_cap, k->names_sz, more, 1, NAMES_MAX))
		return 0;
	p = memcpy(k->names + k->names_sz, line->name, line->name_len);
	p += line->name_len;
	if (line->module_len) {
		*p++ = ' ';
		*p++ = '[';
		p = memcpy(p, line->module, line->module_len);
		p += line->module_len;
		*p++ = ']';
	}
	*p = '\0';
	k->names_sz += more;
	return (uint32_t)(k->names_sz - more);
}

/*
 * The newest name, or the place in the one before where the same is written already: in front of
 * nearly every foo there is a __pfx_foo (padding of the function, since Linux 6.2).
 */
static uint32_t share_tail(struct kallsyms_reader *r, uint32_t name)
{
	struct sym_kernel *k = r->k;
	size_t len = k->names_sz - name, before = name - r->last_name;

	if (r->last_name && len < before && !memcmp(k->names + name - len, k->names + name, len)) {
		k->names_sz = name;
		return name - (uint32_t)len;
	}
	r->last_name = name;
	return name;
}

static bool is_text(const struct line *line)
{
	/* $x and $d are the mapping symbols of Arm, .L are labels of the assembler. */
	return strchr("tTwW", line->type) && line->name[0] != '$' &&
	       (line->name_len < 2 || memcmp(line->name, ".L", 2) != 0);
}

/* The number of preceding symbols with the same address. */
static uint32_t place_among(const struct sym_kernel *k, uint64_t addr)
{
	const struct function *last = k->cnt ? &k->functions[k->cnt - 1] : NULL;
	uint32_t place = last && last->addr == addr ? (last->size >> 24) + 1 : 0;

	return place < 255 ? place : 255;
}

static int add_line(struct kallsyms_reader *r, const struct line *line)
{
	struct sym_kernel *k = r->k;
	struct function f = { .addr = line->addr };
	uint32_t place = 0;

	/* 'a' is no address but a number. */
	if (!line->type || strchr("aA", line->type))
		return 0;
	enter_module(r, line);
	if (is_text(line)) {
		f.name = add_name(k, line);
		if (!f.name)
			return -ENOMEM;
		f.name = share_tail(r, f.name);
		place = place_among(k, line->addr);
		r->text_cnt++;
		r->nonzero |= line->addr != 0;
	}
	f.size = place << 24 | r->module_nr;
	if (ARRAY_GROW(k->functions, k->cap, k->cnt, SYMBOLS_MAX))
		return -ENOMEM;
	k->functions[k->cnt++] = f;
	return 0;
}

static int read_lines(struct kallsyms_reader *r, int fd, char *buf)
{
	size_t have = 0;
	bool overlong = false; /* in the middle of a line that does not fit */

	for (;;) {
		ssize_t n = read(fd, buf + have, READ_SZ - have);
		char *p = buf, *nl;
		struct line line;
		int err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		have += (size_t)n;
		while ((nl = memchr(p, '\n', have - (size_t)(p - buf)))) {
			err = !overlong && parse_line(p, nl, &line) ? add_line(r, &line) : 0;
			if (err)
				return err;
			overlong = false;
			p = nl + 1;
		}
		have -= (size_t)(p - buf);
		memmove(buf, p, have);
		if (have == READ_SZ) {
			overlong = true;
			have = 0;
		}
	}
}

static int by_address(const void *a_, const void *b_)
{
	const struct function *a = a_, *b = b_;
	uint32_t a_place = a->size >> 24, b_place = b->size >> 24;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (!a->name != !b->name)
		return a->name ? -1 : 1;
	if (a_place != b_place)
		return a_place < b_place ? -1 : 1;
	return (a->name > b->name) - (a->name < b->name); /* as they were read */
}

static uint32_t function_size(const struct function *f, const struct function *next)
{
	uint64_t size = FUNCTION_MAX;

	if (next && next->addr - f->addr < size)
		size = next->addr - f->addr;
	if (!next || ((next->size ^ f->size) & 0xffffff)) {
		uint64_t limit = 2 * KERNEL_PAGE - f->addr % KERNEL_PAGE;

		size = size < limit ? size : limit;
	}
	return (uint32_t)size;
}

/* One function per address, with sizes; boundaries are dropped. */
static void finish(struct sym_kernel *k)
{
	size_t unique = 0, kept = 0;
	void *smaller;

	qsort(k->functions, k->cnt, sizeof(*k->functions), by_address);
	for (size_t i = 0; i < k->cnt; i++)
		if (!unique || k->functions[i].addr != k->functions[unique - 1].addr)
			k->functions[unique++] = k->functions[i];
	for (size_t i = 0; i < unique; i++) {
		struct function f = k->functions[i];

		if (!f.name)
			continue;
		f.size = function_size(&f, i + 1 < unique ? &k->functions[i + 1] : NULL);
		k->functions[kept++] = f;
	}
	k->cnt = kept;
	smaller = realloc(k->functions, kept * sizeof(*k->functions));
	if (smaller)
		k->functions = smaller;
	smaller = realloc(k->names, k->names_sz);
	if (smaller)
		k->names = smaller;
}

static int load(struct sym_kernel *k, int fd)
{
	struct kallsyms_reader r = { .k = k };
	char *buf = malloc(READ_SZ);
	int err = -ENOMEM;

	if (!buf || ARRAY_GROW(k->names, k->names_cap, 0, NAMES_MAX))
		goto out;
	k->names[k->names_sz++] = '\0';
	err = read_lines(&r, fd, buf);
	if (err)
		goto out;
	if (!r.text_cnt)
		err = -ENODATA;
	else if (!r.nonzero)
		err = -EPERM;
	else
		finish(k);
out:
	free(buf);
	return err;
}

static int load_list(struct sym_kernel *k, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	k->listed = true;
	if (fd < 0)
		return -errno;
	err = load(k, fd);
	close(fd);
	if (err)
		k->cnt = 0;
	return err;
}

/* ---- Without the list ---- */

/* The beginning of the list holds an address of text that is not zero: it is shown to us. */
static bool shows_addresses(void)
{
	FILE *f = fopen(KALLSYMS, "re");
	bool shown = false;
	char text[256];
	struct line line;

	for (int i = 0; f && !shown && i < SHOWN_LINES && fgets(text, sizeof(text), f); i++)
		shown = parse_line(text, text + strcspn(text, "\n"), &line) && is_text(&line) &&
			line.addr;
	if (f)
		fclose(f);
	return shown;
}

struct sym_kernel *sym_kernel__open(const char *path)
{
	struct sym_kernel *k = calloc(1, sizeof(*k));
	int err = 0;

	if (!k)
		return NULL;
	if (!path && shows_addresses())
		k->ask = ksym__open();
	if (!k->ask)
		err = load_list(k, path ? path : KALLSYMS);
	if (err) {
		sym_kernel__close(k);
		errno = -err;
		return NULL;
	}
	return k;
}

void sym_kernel__close(struct sym_kernel *k)
{
	if (!k)
		return;
	ksym__close(k->ask);
	free(k->functions);
	free(k->names);
	free(k);
}

static const char *find_in_list(const struct sym_kernel *k, uint64_t addr, uint64_t *offset)
{
	size_t low = 0, high = k->cnt; /* the answer is in [low - 1, high) */
	const struct function *f;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (k->functions[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	f = &k->functions[low - 1];
	if (addr - f->addr >= f->size)
		return NULL;
	if (offset)
		*offset = addr - f->addr;
	return k->names + f->name;
}

const char *sym_kernel__find(struct sym_kernel *k, uint64_t addr, uint64_t *offset)
{
	const char *name = k->ask ? ksym__find(k->ask, addr, offset) : NULL;

	if (name)
		return name;
	if (!k->listed) /* a trampoline of ftrace, for example */
		load_list(k, KALLSYMS);
	return find_in_list(k, addr, offset);
}
