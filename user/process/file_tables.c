/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unwind tables of files, within their budget. See files.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/setting.h"
#include "elf/ehframe.h"
#include "process/files_parts.h"

#define ROOM_SHARE 32 /* of the budget is made free at once */

bool file_tables__is_cold(const struct file_table *ft, const struct mapped_file *file)
{
	return file->table_state == TABLE_READY && file->last_seen + 1 < ft->tick &&
	       tables__usable(ft->tables, file->table) > 0;
}

static bool may_give_way(const struct file_table *ft, const struct mapped_file *file)
{
	if (file->users)
		return file_tables__is_cold(ft, file);
	return file->table_state == TABLE_READY && tables__usable(ft->tables, file->table) > 0;
}

/* Files in no image before all others, the longest unused of both first. */
static int by_use(const void *a_, const void *b_)
{
	const struct mapped_file *a = *(struct mapped_file *const *)a_;
	const struct mapped_file *b = *(struct mapped_file *const *)b_;
	uint64_t a_use = a->users ? a->last_seen : a->last_used;
	uint64_t b_use = b->users ? b->last_seen : b->last_used;

	if (!a->users != !b->users)
		return a->users ? 1 : -1;
	return (a_use > b_use) - (a_use < b_use);
}

/*
 * The files whose tables may be evicted, in this order. The caller frees the list; NULL: no memory.
 */
static struct mapped_file **candidates(const struct file_table *ft, size_t *cnt)
{
	struct mapped_file **list = malloc((ft->files.cnt + 1) * sizeof(struct mapped_file *)),
			   *file;

	*cnt = 0;
	for (size_t at = 0; list && (file = idmap__next(&ft->files, &at));) {
		if (may_give_way(ft, file))
			list[(*cnt)++] = file;
	}
	if (list)
		qsort(list, *cnt, sizeof(struct mapped_file *), by_use);
	return list;
}

/*
 * The images that name a table which is leaving have it no more. In place: BPF reads the member at
 * once, and a walk that has it still finds the table until the kernel has waited for it.
 */
static void unname_tables(struct file_table *ft, const bool *leaving)
{
	for (uint32_t i = 0; ft->maps.mappings && i < ft->maps.mapping_cap; i++) {
		struct mapping *m = &ft->maps.mappings[i];

		if (m->table && leaving[m->table])
			m->table = 0;
	}
}

void file_tables__drop(struct file_table *ft, struct mapped_file *file, enum table_state state)
{
	tables__remove(ft->tables, file->table);
	ft->stats.table_bytes -= file->table_bytes;
	ft->stats.tables--;
	file->table = 0;
	file->table_bytes = 0;
	file->table_state = state;
}

static bool has_room(const struct file_table *ft, uint64_t bytes)
{
	return ft->stats.table_bytes + bytes <= ft->maps.table_budget && !tables__full(ft->tables);
}

static void evict(struct file_table *ft, struct mapped_file **files, size_t cnt)
{
	bool *leaving = calloc((size_t)ft->maps.table_cap + 1, sizeof(*leaving)), in_use = false;

	for (size_t i = 0; leaving && i < cnt; i++) {
		leaving[files[i]->table] = true;
		in_use |= files[i]->users != 0;
	}
	if (in_use)
		unname_tables(ft, leaving);
	for (size_t i = 0; leaving && i < cnt; i++) {
		file_tables__drop(ft, files[i], files[i]->users ? TABLE_EVICTED : TABLE_UNTRIED);
		ft->stats.tables_evicted++;
	}
	free(leaving);
}

/*
 * Evicts tables, which no image refers to after that. Their memory is free when the kernel has
 * waited for the programs that may still read it, so for a moment there is more than the budget.
 * All mappings are searched, so somewhat more room is made than requested: with a budget that is
 * always full, not for each table.
 */
static bool make_room(struct file_table *ft, uint64_t bytes)
{
	uint64_t budget = ft->maps.table_budget, used = ft->stats.table_bytes;
	uint64_t wanted = bytes + budget / ROOM_SHARE;
	size_t cnt, n = 0, least;
	struct mapped_file **list;

	if (bytes > budget)
		return false;
	if (has_room(ft, bytes))
		return true;
	least = tables__full(ft->tables) ? ft->maps.table_cap / ROOM_SHARE : 0;
	list = candidates(ft, &cnt);
	for (; list && n < cnt && (used + wanted > budget || n < least); n++)
		used -= list[n]->table_bytes;
	if (used + bytes <= budget) /* else all of it would be for nothing */
		evict(ft, list, n);
	free(list);
	return has_room(ft, bytes);
}

static void refuse_table(struct file_table *ft, struct mapped_file *file, uint64_t bytes)
{
	file->table_state = TABLE_REFUSED;
	file->refused_at = ft->room_made;
	file->refused_bytes = bytes;
	ft->stats.tables_refused++;
	if (!ft->warned_budget)
		log_warn("unwind tables: %" PRIu64 " MiB are not enough for the running programs: "
			 "native stacks will end early (see %s)",
			 ft->maps.table_budget >> 20,
			 setting_name("--table-memory", "'table-memory ='"));
	ft->warned_budget = true;
}

static void add_table(struct file_table *ft, struct mapped_file *file, const struct unwind_table *t)
{
	uint64_t bytes = t->word_cnt * sizeof(*t->words), spare;
	int index;

	if (!make_room(ft, bytes)) {
		refuse_table(ft, file, bytes);
		return;
	}
	/* A spare is larger than what it is used for: not when that breaks the budget. */
	spare = tables__spare_bytes(ft->tables, t->word_cnt);
	index = tables__add(ft->tables, t->words, t->word_cnt, spare && has_room(ft, spare),
			    &bytes);
	if (index < 0) {
		log_warn("%s: unwind table: %s", elf_file__path(file->elf), strerror(-index));
		file->table_state = TABLE_NONE;
		return;
	}
	file->table = (uint32_t)index;
	file->table_bytes = bytes;
	file->table_state = TABLE_READY;
	ft->stats.tables++;
	ft->stats.tables_built++;
	ft->stats.table_bytes += bytes;
}

/* `t` may be NULL, with errno. `put_off`: it is built again. */
static void take_table(struct file_table *ft, struct mapped_file *file, struct unwind_table *t,
		       uint64_t took_ns, bool put_off)
{
	ft->stats.table_ns += took_ns;
	if (put_off) {
		file->table_state = TABLE_UNTRIED;
		unwind_table__free(t);
		return;
	}
	if (!t || t->word_cnt < UW_CHUNK_WORDS) {
		log_debug("%s: no unwind table: %s", elf_file__path(file->elf), strerror(errno));
		file->table_state = TABLE_NONE;
	} else {
		add_table(ft, file, t);
		log_debug("%s: unwind table of %zu KiB built in %llu us", elf_file__path(file->elf),
			  t->word_cnt * sizeof(*t->words) / 1024,
			  (unsigned long long)took_ns / 1000);
	}
	unwind_table__free(t);
}

static bool is_big(const struct mapped_file *file)
{
	struct elf_section s;
	uint64_t size = 0;

	if (elf_file__fd(file->elf) < 0) /* the vdso */
		return false;
	if (elf_file__eh_frame_info(file->elf, &s))
		size += s.size;
	if (elf_file__section_info(file->elf, ".debug_frame", &s))
		size += s.size;
	return size > BIG_FRAME_INFO;
}

static void build_table(struct file_table *ft, struct mapped_file *file)
{
	uint64_t start = now_ns(), put_off = readers__put_off(ft->maps.readers);
	struct unwind_table *t;

	announce_long_work(ft);
	if (is_big(file) && !table_builder__add(ft->builder, file->id, file->elf)) {
		file->table_state = TABLE_BUILDING;
		return;
	}
	t = unwind_table__build(file->elf);
	take_table(ft, file, t, now_ns() - start, readers__put_off(ft->maps.readers) != put_off);
	elf_file__forget(file->elf);
}

static void collect_built(struct file_table *ft)
{
	struct builder_result r;
	struct mapped_file *file;

	while (table_builder__take(ft->builder, &r)) {
		file = file_table__find(ft, r.id);
		errno = ENODATA;
		if (file)
			take_table(ft, file, r.table, r.took_ns, r.put_off);
		else
			unwind_table__free(r.table);
	}
}

void file_table__begin(struct file_table *ft)
{
	ft->round++;
	ft->roots_unanswered = 0;
	tables__collect(ft->tables);
	collect_built(ft);
}

bool file_table__wants_table(const struct file_table *ft, const struct mapped_file *file)
{
	return file->table_state == TABLE_UNTRIED ||
	       (file->table_state == TABLE_REFUSED && file->refused_at != ft->room_made);
}

void file_table__build(struct file_table *ft, struct mapped_file *file)
{
	file->last_used = ++ft->use_clock;
	if (file_table__wants_table(ft, file))
		build_table(ft, file);
}

uint32_t file_table__index(struct file_table *ft, struct mapped_file *file, bool *coming)
{
	int usable;

	*coming = file->table_state == TABLE_BUILDING;
	if (file->table_state != TABLE_READY)
		return 0;
	usable = tables__usable(ft->tables, file->table);
	if (usable < 0)
		file_tables__drop(ft, file, TABLE_NONE);
	*coming = !usable;
	return usable > 0 ? file->table : 0;
}

int file_table__publish(struct file_table *ft)
{
	uint64_t start = now_ns();
	int err = tables__flush(ft->tables);

	ft->stats.publish_ns += now_ns() - start;
	return err;
}

int file_table__go_live(struct file_table *ft)
{
	return tables__go_live(ft->tables);
}
