/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of code objects on their way out of BPF: whole, in pieces, before what has them. Truth: the
 * names that an interpreter was given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "object_fixture.h"
#include "process_fixture.h"
#include "python/pylines.h"
#include "unit/pythons.h"

#define NAME_CHARS 3000

struct capture {
	struct rig *r;
	uint64_t id; /* of the code object with the long name; 0: not yet */
	struct blob_info info;
	uint64_t name_pieces; /* of its name */
	uint64_t pieces;      /* of the name that is arriving */
	uint64_t last_id;
	uint32_t next_offset;
};

static void on_piece(void *ctx, const struct ev_blob *ev, size_t size)
{
	struct capture *c = ctx;

	assert_int_equal(size, offsetof(struct ev_blob, data) + ev->size);
	assert_int_equal(sym_python__on_blob(symbolizer__python(c->r->sym), ev, size), 0);
	if (ev->kind != BLOB_NAME)
		return;
	/* Pieces of one name come in order and without a gap. */
	if (ev->id != c->last_id)
		c->pieces = c->next_offset = 0;
	assert_int_equal(ev->offset, c->next_offset);
	c->last_id = ev->id;
	c->next_offset += ev->size;
	c->pieces++;
}

static void on_announced(void *ctx, const struct ev_code *ev, size_t size)
{
	struct capture *c = ctx;
	const struct py_binary *bin = process_table__interp(c->r->pt, ev->interp);

	assert_non_null(bin);
	assert_int_equal(sym_python__on_code(symbolizer__python(c->r->sym), ev, size,
					     &bin->interp.layout, 0),
			 0);
	if (ev->blob[BLOB_NAME].size < NAME_CHARS)
		return;
	assert_int_equal(c->id, 0);
	assert_int_equal(ev->id, c->last_id);
	c->id = ev->id;
	c->info = ev->blob[BLOB_NAME];
	c->name_pieces = c->pieces;
}

/* Makes the child spin in a function whose name is this character, 3,000 times. */
static void spin_in_long_name(struct child *c, unsigned character)
{
	char line[512];

	snprintf(line, sizeof(line),
		 "n = u'\\U%08x' * %d; exec(u'def ' + n + u'():\\n  while True: pass'); out = "
		 "'ready'",
		 character, NAME_CHARS);
	assert_string_equal(child_ask(c, line), "ready");
	fprintf(c->to, "exec(n + '()')\n");
	fflush(c->to);
}

static void check_long_name(const char *python, unsigned character, unsigned width)
{
	struct strbuf want = { 0 };
	struct py_function fn;
	struct bpf_link *link;
	struct child child;
	struct rig r;
	struct capture c = { .r = &r };

	assert_int_equal(child_start(&child, python), 0);
	rig_open(&r, CFG_NATIVE | CFG_PYTHON_ONLY);
	rig_load(&r);
	r.on_code = on_announced;
	r.on_blob = on_piece;
	r.ctx = &c;
	rig_analyse(&r, &child.pid, 1);
	spin_in_long_name(&child, character);
	link = rig_attach(&r, child.pid, -1);
	RIG_WAIT(ring_buffer__consume(r.rings) >= 0 && c.id);
	bpf_link__destroy(link);
	kill(child.pid, SIGKILL);
	child_stop(&child);

	assert_int_equal(c.info.width, width);
	assert_int_equal(c.info.size, NAME_CHARS * width);
	assert_int_equal(c.info.flags, 0); /* all of it, and not ASCII */
	assert_int_equal(c.name_pieces, (NAME_CHARS * width + BLOB_DATA - 1) / BLOB_DATA);
	for (int i = 0; i < NAME_CHARS; i++)
		py_utf8(&want, &character, width, width); /* little endian: its first bytes */
	assert_true(sym_python__find(symbolizer__python(r.sym), c.id, &fn));
	assert_int_equal(fn.name_len, want.len);
	assert_memory_equal(fn.name, want.s, want.len);
	rig_check_balance(&r);
	check_drained(&r, NULL, NULL);
	strbuf__free(&want);
	rig_close(&r);
}

/* A name of 3,000 characters of each width arrives whole, in pieces, before its code object. */
static void long_names_are_captured(void **state)
{
	struct pythons py = { 0 };
	const char *python = "";

	(void)state;
	pythons_find(&py);
	for (size_t i = 0; i < py.cnt; i++)
		if (strstr(py.path[i], "/python3"))
			python = py.path[i];
	if (!python[0]) {
		pythons_free(&py);
		print_message("no python3\n");
		skip();
	}
	print_message("%s\n", python);
	check_long_name(python, 0xe9, 1);    /* e acute */
	check_long_name(python, 0x434, 2);   /* Cyrillic d */
	check_long_name(python, 0x10400, 4); /* a Deseret letter */
	pythons_free(&py);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_names_are_captured),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
