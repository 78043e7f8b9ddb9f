/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Mangled names -> names for people, by libiberty.
 *
 * Names come from the symbol tables of foreign files. What bounds the work: the length of the name,
 * libiberty's own limit on recursion (DMGL_NO_RECURSE_LIMIT stays off), and a limit on the output:
 * a name of 100 bytes can refer back to its own parts so that its demangled form has 2^40.
 */
#include "symbolize/symbolize.h"

#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>

#define OUTPUT_MAX (64 * 1024)

struct output {
	struct strbuf *b;
	size_t start; /* length of b before */
	jmp_buf too_long;
};

static void cut(struct strbuf *b, size_t len)
{
	if (b->len > len) {
		b->len = len;
		b->s[len] = '\0';
	}
}

static void add_piece(const char *s, size_t len, void *opaque)
{
	struct output *out = opaque;

	if (len > OUTPUT_MAX - (out->b->len - out->start))
		/*
		 * The callback cannot ask for an end, and going on silently could take years.
		 * Leaving this way loses at most a small buffer of a Rust name in Punycode: all
		 * else is on the stack.
		 */
		longjmp(out->too_long, 1);
	strbuf__add(out->b, s, len);
}

static bool demangle(struct strbuf *b, const char *mangled)
{
	const int cpp = DMGL_PARAMS | DMGL_ANSI;
	struct output out = { .b = b, .start = b->len };
	bool ok;

	if (setjmp(out.too_long))
		return false;
	/* Legacy Rust names are well-formed C++ names too, so Rust comes first. */
	ok = rust_demangle_callback(mangled, 0, add_piece, &out);
	if (!ok) {
		cut(b, out.start); /* what was printed before the error showed */
		ok = cplus_demangle_v3_callback(mangled, cpp, add_piece, &out);
	}
	return ok && b->len > out.start;
}

void sym_demangle(struct strbuf *b, const char *mangled)
{
	size_t len = strnlen(mangled, SYM_NAME_MAX + 1);
	size_t start = b->len;

	if (len <= SYM_NAME_MAX && mangled[0] == '_' && (mangled[1] == 'Z' || mangled[1] == 'R') &&
	    demangle(b, mangled))
		return;
	cut(b, start);
	strbuf__add(b, mangled, len <= SYM_NAME_MAX ? len : SYM_NAME_MAX);
}
