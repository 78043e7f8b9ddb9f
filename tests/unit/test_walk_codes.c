/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the walkers remember from sample to sample, on processes made by hand: places, the identity
 * of code objects, which of them were announced with which names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "walk_check.h"

/* ---- places that are known ------------------------------------------------------------------- */

static void sample_again(struct world *w)
{
	world__clear(w);
	world__sample(w);
	check_sane(w);
}

/* What was remembered for one address is asked for at another: where two share a slot. */
static void places_are_told_apart(struct world *w)
{
	struct known_place places[PLACE_SLOTS];

	memcpy(places, w->places, sizeof(places));
	for (int i = 0; i < PLACE_SLOTS; i++) {
		for (int k = 0; k < PLACE_SLOTS; k++)
			w->places[k] = places[i];
		sample_again(w);
		check(w, is_exact(w, 0));
	}
	memcpy(w->places, places, sizeof(places));
}

static void test_known_places(void **state)
{
	struct world *w =
		BUILD(CHAIN_313, ROOT, { FN_CSAVE }, { FN_EVAL, .py = 2 }, { FN_CFP }, { FN_C });

	(void)state;
	expect_built(w);
	places_are_told_apart(w);
	w->map[0].file++; /* another library is mapped where this one was */
	sample_again(w);
	for (__u32 i = 0; i < w->out->cnt; i++)
		check(w, FRAME_TAG(out_word(w, i)) != FRAME_NATIVE ||
				 NATIVE_FILE(out_word(w, i)) == TEXT_FILE + 1);
	w->map[0].end = w->map[0].start; /* something that BPF does not know yet */
	sample_again(w);
	check(w, FRAME_TAG(out_word(w, 0)) == FRAME_ANON && w->walk->flags & WALK_NATIVE_LOST);
	world__free(w);
}

static int is_recalled(const struct world *w, __u64 word)
{
	const struct recall *r = &w->walk->recall;

	for (__u32 i = 0; i < r->place_cnt && i < RECALL_SLOTS; i++)
		if (w->places[r->place[i]].word == word)
			return 1;
	return 0;
}

/* What the next sample asks for at once is where this one found its code objects and places. */
static void test_slots_are_noted(void **state)
{
	struct world *w =
		BUILD(CHAIN_313, ROOT, { FN_CSAVE }, { FN_EVAL, .py = 1 }, { FN_CFP }, { FN_C });
	const struct recall *r = &w->walk->recall;

	(void)state;
	sample_again(w); /* what is known from now on */
	sample_again(w);
	assert_int_equal(r->code_cnt, 1);
	assert_int_equal(code_slot(r->code[0])->addr, w->codes[0]);
	assert_int_equal(r->place_cnt, w->walk->native.cnt);
	for (__u32 i = 1; i < r->place_cnt; i++) /* the leaf's is another's by now: there are few */
		assert_true(is_recalled(w, w->deep[deep_at(DEEP_NATIVE, i)]));
	world__free(w);
}

/* ---- identity of code objects ---------------------------------------------------------------- */

static __u64 id_of(struct world *w, __u64 code)
{
	struct walk *k = w->walk;

	world__load(w); /* else it may have been seen in this sample */
	if (code_identify(k, code))
		return 0;
	return k->code.id;
}

static void test_code_identity(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C });
		const struct py_layout *lay = &w->interp.layout;
		__u64 code = w->codes[1], name = get64(w, code + lay->code_name);
		__u64 file = get64(w, code + lay->code_filename);
		__u64 lines = get64(w, code + lay->code_linetable);
		__u64 chars = lay->str == PY_STR_BYTES ? lay->bytes_data : lay->str_ascii;
		__u64 id = id_of(w, code), now;

		check(w, id && id_of(w, code) == id);
		check(w, id_of(w, w->codes[2]) != id && id_of(w, code) == id);
		if (lay->code_version != PY_OFF_NONE) {
			put32(w, code + lay->code_version, 4000);
			check(w, (now = id_of(w, code)) && now != id);
			put32(w, code + lay->code_version, 0); /* numbers ran out */
			id = id_of(w, code);
		}
		/* what lies behind the objects belongs to others */
		put64(w, name + ((chars + 16 + 7) & ~7ULL), 77);
		put64(w, file + ((chars + 15 + 7) & ~7ULL), 77);
		put64(w, lines + ((lay->bytes_data + 20 + 7) & ~7ULL), 77);
		check(w, id_of(w, code) == id);
		put8(w, name + chars + 2, 'X');
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put8(w, file + chars + 14, 'X');
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put8(w, lines + lay->bytes_data + 19, 0xff);
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put64(w, lines + lay->bytes_size, 21);
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put32(w, code + lay->code_firstlineno, 4711);
		check(w, (now = id_of(w, code)) && now != id);
		world__free(w);
	}
}

/* Of functions that are announced already. */
static __u64 reads_again(struct world *w)
{
	world__sample(w);
	world__sample(w);
	return w->reads;
}

/*
 * The functions of one file share its name: up to 3.11, where names are read, it is read once a
 * sample.
 */
static void test_shared_file_name(void **state)
{
	struct world *w = BUILD(CHAIN_39, ROOT, { FN_EVAL, 10 });
	const struct py_layout *lay = &w->interp.layout;
	__u64 ten = reads_again(w);

	(void)state;
	for (int i = 1; i < 10; i++)
		put64(w, w->codes[i] + lay->code_filename,
		      get64(w, w->codes[0] + lay->code_filename));
	assert_int_equal(ten - reads_again(w), 9);
	world__free(w);
}

/* While the only interpreter makes no code object, what was seen before is not read again. */
static void test_code_epochs(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 count = w->interp_state + 56, other = heap_alloc(w, 64);
	__u64 version = w->codes[0] + w->interp.layout.code_version, id;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, count, 100);
	world__sample(w);
	id = w->walk->code.id;
	put32(w, version, 4000);
	world__sample(w);
	assert_true(id && w->walk->code.id == id);
	put64(w, count, 101);
	world__sample(w);
	assert_true(w->walk->code.id != id);
	id = w->walk->code.id;
	/* Another interpreter may have made it, or there are no numbers any more. */
	put64(w, other + 56, 101);
	put64(w, w->interp_state + w->interp.layout.interp_next, other);
	world__sample(w);
	put32(w, version, 4001);
	world__sample(w);
	assert_true(w->walk->code.id != id);
	id = w->walk->code.id;
	put64(w, w->interp_state + w->interp.layout.interp_next, 0);
	put64(w, count, 0);
	world__sample(w);
	put32(w, version, 4002);
	world__sample(w);
	assert_true(w->walk->code.id != id);
	world__free(w);
}

/* Samples the thread after another process's, when the slots are that one's. */
static __u64 id_by_row(struct world *w)
{
	memset(w->known_codes, 0, sizeof(w->known_codes));
	w->by_row = 1;
	world__sample(w);
	return w->walk->code.id;
}

static struct row_code *in_row(struct world *w, __u64 id)
{
	struct row_code *all = w->code_rows[w->row].line[0];

	for (int i = 0; i < ROW_LINES * LINE_CODES; i++)
		if (all[i].tag && (all[i].id & FRAME_PYTHON_CODE) == id)
			return &all[i];
	return NULL;
}

/*
 * A thread's row holds what it was seen with, for as long as no code object is made; another's is
 * not believed.
 */
static void test_code_rows(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 count = w->interp_state + 56, version = w->codes[0] + w->interp.layout.code_version;
	struct row_code *entry;
	__u64 id;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, count, 100);
	id = id_by_row(w);
	entry = in_row(w, id);
	assert_non_null(entry);
	put32(w, version, 4000); /* not read again */
	assert_int_equal(id_by_row(w), id);
	/* Another thread has written one half of it. */
	entry->id ^= 1ULL << ROW_ID_SHIFT;
	assert_int_not_equal(id_by_row(w), id);
	id = w->walk->code.id;
	in_row(w, id)->tag++;
	put32(w, version, 4001);
	assert_int_not_equal(id_by_row(w), id);
	id = w->walk->code.id;
	w->row = 1;
	put32(w, version, 4002);
	assert_int_not_equal(id_by_row(w), id);
	id = w->walk->code.id;
	put64(w, count, 101);
	put32(w, version, 4003);
	assert_int_not_equal(id_by_row(w), id);
	world__free(w);
}

static __u64 id_by_slot(struct world *w)
{
	w->by_row = 0;
	world__sample(w);
	return w->walk->code.id;
}

/*
 * The slots come first for the process that had the CPU before, a row behind another process; each
 * helps out.
 */
static void test_rows_and_slots(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 version = w->codes[0] + w->interp.layout.code_version, by_row, by_slot;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	by_row = id_by_row(w);
	memset(w->known_codes, 0, sizeof(w->known_codes));
	put32(w, version, 4000);
	assert_int_equal(id_by_slot(w), by_row);
	/* Which is a slot's now. */
	memset(w->code_rows, 0, sizeof(w->code_rows));
	put32(w, version, 4001);
	assert_int_equal(id_by_slot(w), by_row);
	/* And a row's again. */
	w->by_row = 1;
	world__sample(w);
	assert_int_equal(w->walk->code.id, by_row);
	assert_non_null(in_row(w, by_row));
	/* In a slot there is something else than in the row. */
	in_row(w, by_row)->tag++;
	memset(w->known_codes, 0, sizeof(w->known_codes));
	put32(w, version, 4002);
	by_slot = id_by_slot(w);
	assert_int_not_equal(by_slot, by_row);
	in_row(w, by_slot)->tag = 0;
	in_row(w, by_row)->tag--;
	assert_int_equal(id_by_slot(w), by_slot);
	w->by_row = 1;
	world__sample(w);
	assert_int_equal(w->walk->code.id, by_row);
	world__free(w);
}

/* What a slot has from a row is known for this epoch only. */
static void test_slot_from_row(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 version = w->codes[0] + w->interp.layout.code_version, id;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	id = id_by_row(w);
	memset(w->known_codes, 0, sizeof(w->known_codes));
	assert_int_equal(id_by_slot(w), id);
	put64(w, w->interp_state + 56, 101);
	assert_int_equal(id_by_slot(w), id); /* read again, and the same */
	put64(w, w->interp_state + 56, 102);
	put32(w, version, 4000);
	assert_int_not_equal(id_by_slot(w), id);
	world__free(w);
}

/* The last frame of the stack is in its row; the innermost always is. */
static int outermost_in_row(struct world *w)
{
	__u64 outermost, innermost;
	int found;

	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	id_by_row(w);
	innermost = PYTHON_CODE(w->deep[deep_at(DEEP_PY, 0)]);
	outermost = PYTHON_CODE(w->deep[deep_at(DEEP_PY, w->walk->python.cnt - 1)]);
	assert_int_not_equal(innermost, outermost);
	assert_non_null(in_row(w, innermost));
	found = in_row(w, outermost) != NULL;
	world__free(w);
	return found;
}

/* A row is of the innermost frames. */
static void test_deep_row(void **state)
{
	(void)state;
	assert_true(outermost_in_row(
		BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 }, { FN_EVAL, ROW_FRAMES - 1, ACT_RECURSE })));
	assert_false(outermost_in_row(
		BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 }, { FN_EVAL, ROW_FRAMES, ACT_RECURSE })));
}

/*
 * A full line loses one for another; who comes round in a line of one too many is found now and
 * then.
 */
static void test_full_line(void **state)
{
	struct row_code line[LINE_CODES] = {};
	struct walk w = {};
	__u32 found = 0;

	(void)state;
	for (__u64 i = 1; i <= LINE_CODES; i++) {
		w.code.id = i;
		add_to_row(&w, line, i << 36 | i);
	}
	for (__u64 i = 1; i <= LINE_CODES; i++) {
		assert_true(find_in_row(&w, line, i << 36 | i));
		assert_int_equal(w.code.id, i);
	}
	for (w.cache.sample = 0; w.cache.sample < 100; w.cache.sample++)
		for (__u64 i = 1; i <= LINE_CODES + 1; i++) {
			w.code.id = i;
			if (find_in_row(&w, line, i << 36 | i))
				found++;
			else
				add_to_row(&w, line, i << 36 | i);
			assert_true(find_in_row(&w, line, i << 36 | i));
			assert_int_equal(w.code.id, i);
		}
	assert_true(found > 100);
	/* Those of an old epoch go. */
	for (w.cache.sample = 0; w.cache.sample < 100; w.cache.sample++)
		for (__u64 i = 11; i < 11 + LINE_CODES; i++)
			if (!find_in_row(&w, line, i << 36 | i))
				add_to_row(&w, line, i << 36 | i);
	for (__u64 i = 11; i < 11 + LINE_CODES; i++)
		assert_true(find_in_row(&w, line, i << 36 | i));
}

/* An epoch of one count of the interpreter and of user space is never that of another. */
static void test_epochs_differ(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 epochs[64];

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	for (__u32 i = 0; i < 64; i++) {
		put64(w, w->interp_state + 56, 100 + i % 8);
		w->code_epoch = i / 8;
		world__sample(w);
		epochs[i] = w->walk->cache.epoch;
		assert_true(epochs[i] & EPOCH_HASH);
		for (__u32 k = 0; k < i; k++)
			assert_int_not_equal(epochs[i], epochs[k]);
	}
	world__free(w);
}

/* Names that found no room are announced again, though no code object was made. */
static void test_epoch_of_the_unannounced(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	w->ring_full = 1;
	world__sample(w);
	assert_int_equal(w->seen_cnt, 0);
	w->ring_full = 0;
	world__sample(w);
	assert_int_equal(w->seen_cnt, 1);
	world__free(w);
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct seen_code *announced(struct world *w, __u64 code)
{
	__u64 id = id_of(w, code);

	check(w, id);
	return world__seen(w, id);
}

static void test_names(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C });
		struct seen_code *s = announced(w, w->codes[4]);

		check(w, s->size[BLOB_NAME] == 16);
		check(w, !memcmp(s->data[BLOB_NAME], "module.function4", 16));
		check(w, !memcmp(s->data[BLOB_FILENAME], "/app/module4.py", 15));
		check(w, s->size[BLOB_LINETABLE] == 20);
		check(w, s->ev.firstlineno == 14 && s->ev.tgid == 4711 && s->ev.space == 5);
		check(w, s->ev.blob[BLOB_NAME].flags == (c == CHAIN_27 ? BLOB_PY2 : BLOB_ASCII));
		check(w, s->ev.blob[BLOB_NAME].size == 16 && s->ev.blob[BLOB_NAME].width == 1);
		check(w,
		      s->ev.blob[BLOB_LINETABLE].size == 20 && !s->ev.blob[BLOB_LINETABLE].flags);
		world__free(w);
	}
}

static void test_string_kinds(void **state)
{
	static __u32 text[3000];

	(void)state;
	for (__u32 i = 0; i < 3000; i++)
		text[i] = i * 2654435761U;
	for (int c = 0; c < CHAIN_27; c++)
		for (__u32 kind = 1; kind <= 4; kind *= 2)
			for (__u32 cnt = 0; cnt <= 3000; cnt += cnt < 4 ? 1 : 749) {
				struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C });
				__u64 code = w->codes[4], name;
				struct seen_code *s;

				name = make_str(w, text, cnt, kind, 0);
				set_code(w, code, name, name, get64(w, code + 136), 3, 999);
				put64(w, code + w->interp.layout.code_filename,
				      get64(w, w->codes[5] + w->interp.layout.code_filename));
				s = announced(w, code);
				check(w, s->size[BLOB_NAME] == cnt * kind);
				check(w, s->ev.blob[BLOB_NAME].size == cnt * kind);
				check(w, s->ev.blob[BLOB_NAME].width == kind);
				check(w, !s->ev.blob[BLOB_NAME].flags);
				check(w, !cnt || !memcmp(s->data[BLOB_NAME], text, cnt * kind));
				world__free(w);
			}
}

static void check_missing(struct world *w, __u32 kind)
{
	struct seen_code *s = announced(w, w->codes[4]);

	for (__u32 k = 0; k < BLOB_CNT; k++)
		check(w, !!(s->ev.blob[k].flags & BLOB_MISSING) == (k == kind));
	world__free(w);
}

static void test_missing_names(void **state)
{
	struct world *w;

	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		const struct py_layout lay = world__layout((enum chain_case)c);
		__u64 long_name;

		w = BUILD((enum chain_case)c, ROOT, { FN_C });
		world__hole(w, get64(w, w->codes[4] + lay.code_filename) + 16, 8);
		check_missing(w, BLOB_FILENAME);
		w = BUILD((enum chain_case)c, ROOT, { FN_C });
		world__hole(w, get64(w, w->codes[4] + lay.code_linetable) + lay.bytes_data + 8, 8);
		check_missing(w, BLOB_LINETABLE);
		w = BUILD((enum chain_case)c, ROOT, { FN_C }); /* longer than the pieces allow */
		long_name = get64(w, w->codes[4] + 136);
		put64(w, long_name + lay.bytes_size, MAX_BLOB_PIECES * BLOB_DATA + 1);
		check_missing(w, BLOB_LINETABLE);
		w = BUILD((enum chain_case)c, ROOT, { FN_C }); /* absurd */
		put64(w, get64(w, w->codes[4] + 136) + lay.bytes_size, ~0ULL);
		check_missing(w, BLOB_LINETABLE);
	}
	w = BUILD(CHAIN_312, ROOT, { FN_C }); /* not compact: the characters are elsewhere */
	put32(w, get64(w, w->codes[4] + 120) + 32, 1 << 2 | 1 << 6);
	check_missing(w, BLOB_NAME);
	w = BUILD(CHAIN_312, ROOT, { FN_C }); /* no such kind */
	put32(w, get64(w, w->codes[4] + 120) + 32, 3 << 2 | 1 << 5 | 1 << 6);
	check_missing(w, BLOB_NAME);
}

/* What could not be announced is announced at its next sight. */
static void test_ring_full(void **state)
{
	struct world *w = BUILD(CHAIN_312, ROOT, { FN_EVAL, 1 });

	(void)state;
	w->ring_full = 1;
	world__sample(w);
	assert_int_equal(w->seen_cnt, 0);
	w->ring_full = 0;
	expect_built(w);
	world__free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_places),
		cmocka_unit_test(test_slots_are_noted),
		cmocka_unit_test(test_code_identity),
		cmocka_unit_test(test_shared_file_name),
		cmocka_unit_test(test_code_epochs),
		cmocka_unit_test(test_code_rows),
		cmocka_unit_test(test_rows_and_slots),
		cmocka_unit_test(test_slot_from_row),
		cmocka_unit_test(test_deep_row),
		cmocka_unit_test(test_epochs_differ),
		cmocka_unit_test(test_full_line),
		cmocka_unit_test(test_epoch_of_the_unannounced),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_string_kinds),
		cmocka_unit_test(test_missing_names),
		cmocka_unit_test(test_ring_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
