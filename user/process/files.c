/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/files.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/foreign.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/tenant.h"
#include "bpf/pyperf.h"
#include "process/files_parts.h"

/* For how long file_table__is_plain() trusts a verdict: an inode may be rewritten in place. */
#define PLAIN_TRUST_NS 1000000000ULL

#define IDLE_TICKS     2 /* windows after which a file that no one needs is closed */
#define INTERP_IDLE_TICKS                                                                          \
	720 /* ... an interpreter: an hour; IDLE_TICKS when room for them is scarce */
#define INODES_KEPT	     4096
#define ROOTS_UNANSWERED_MAX 3 /* of root's processes, in a round */
#define INODE_KEEP_NS                                                                              \
	60000000000ULL /* beyond INODES_KEPT, how long one is kept that no one asks for */

enum verdict {
	VERDICT_NONE = 0,  /* not looked at, or it could not be read: ask again in the next round */
	VERDICT_OTHER = 1, /* not an ELF file of this machine */
	VERDICT_PLAIN = 2, /* ELF, no interpreter */
	VERDICT_PYTHON = 3, /* `file` is set */
};

struct inode {
	uint64_t dev, ino;
	struct inode *next; /* the same hash */
	enum verdict verdict;
	int err;		  /* of VERDICT_NONE */
	uint64_t round;		  /* in which it was last compared with its file */
	uint32_t unanswered;	  /* for this process, in that round; 0: it was answered */
	struct file_state state;  /* then */
	struct mapped_file *file; /* NULL: not open */
	bool owner;		  /* the descriptor of `file` is of this inode */
	uint64_t checked_ns;
	uint64_t generation, generation_seen; /* by perf: at the last check, and last of all */
	bool has_generation;
};

/* ---- life ----------------------------------------------------------------------------------- */

struct file_table *file_table__new(const struct file_maps *maps, struct file_sink sink)
{
	struct file_table *ft = calloc(1, sizeof(*ft));

	if (!ft)
		return NULL;
	ft->maps = *maps;
	ft->sink = sink;
	ft->round = 1;
	ft->next_id = 1;
	ft->proc_fd = -1;
	if (!ft->maps.table_budget)
		ft->maps.table_budget = TABLE_BUDGET_DEFAULT;
	ft->tables = tables__new(maps->tables_fd, maps->table_cap, maps->spare_bytes);
	ft->builder = table_builder__new();
	ft->interps = calloc(maps->interp_cap + 1, sizeof(*ft->interps));
	ft->seen = calloc(maps->seen_cap + 1, sizeof(*ft->seen));
	if (!ft->tables || !ft->interps || !ft->builder || !ft->seen) {
		file_table__free(ft);
		errno = ENOMEM;
		return NULL;
	}
	descriptors__allow(); /* files stay open */
	return ft;
}

static void free_file(struct mapped_file *file)
{
	elf_file__close(file->elf);
	free(file->py);
	free(file);
}

/* All that share a hash. */
static void free_inodes(struct inode *inode)
{
	struct inode *next;

	for (; inode; inode = next) {
		next = inode->next;
		free(inode);
	}
}

void file_table__free(struct file_table *ft)
{
	struct inode *inode;
	struct mapped_file *file;

	if (!ft)
		return;
	for (size_t at = 0; (inode = idmap__next(&ft->inodes, &at));)
		free_inodes(inode);
	for (size_t at = 0; (file = idmap__next(&ft->files, &at));)
		free_file(file);
	file_batch__drop(&ft->ahead);
	table_builder__free(ft->builder);
	tables__free(ft->tables);
	idmap__free(&ft->inodes);
	idmap__free(&ft->by_build_id);
	idmap__free(&ft->files);
	free(ft->interps);
	free(ft->seen);
	free(ft);
}

void file_table__stats(const struct file_table *ft, struct file_stats *out)
{
	const struct tables_stats *ts = tables__stats(ft->tables);

	*out = ft->stats;
	out->spare_bytes = ts->spare_bytes;
	out->spares = ts->spares;
	out->spares_used = ts->spares_used;
	out->spares_missed = ts->spares_missed;
	out->publish_waits = ts->waits;
	out->inodes = ft->inodes.cnt;
	out->last_id = ft->next_id - 1;
}

struct mapped_file *file_table__find(const struct file_table *ft, uint32_t id)
{
	return idmap__get(&ft->files, id);
}

uint64_t file_table__list(const struct file_table *ft, struct mapped_file *file)
{
	uint64_t put_off = readers__put_off(ft->maps.readers);
	struct elf_symbol sym;

	if (file->asked_for_list)
		return file->list;
	file->asked_for_list = true;
	if (elf_file__symbol(file->elf, JIT_LIST_SYMBOL, &sym))
		file->list = sym.addr;
	elf_file__forget(file->elf);
	file->asked_for_list = readers__put_off(ft->maps.readers) == put_off;
	return file->list;
}

/* ---- opening -------------------------------------------------------------------------------- */

struct opened file_table__open(struct file_table *ft, const struct map_line *line)
{
	struct file_batch m = { .no_map_files = ft->ahead.no_map_files };
	struct opened file;

	file_batch__add(&m, line, NULL);
	file_batch__ask(&m, ft->maps.readers, ft->tgid, ft->proc_fd);
	file = m.answers[0].file;
	m.answers[0].file = OPENED_NONE;
	file_batch__drop(&m);
	return file;
}

/* The ELF file behind a mapping, of a file that is taken over; NULL and errno. */
static struct elf_file *open_elf(struct file_table *ft, struct opened *file,
				 const struct map_line *line)
{
	struct elf_file *elf;
	char *name;
	int n;

	ft->stats.opened++;
	name = malloc(line->name_len + 1);
	if (!name) {
		opened__close(file);
		errno = ENOMEM;
		return NULL;
	}
	n = map_line__path(line, name, line->name_len + 1);
	if (n < 0) {
		memcpy(name, line->name, line->name_len);
		name[line->name_len] = '\0';
	}
	elf = elf_file__open_opened(file, name);
	n = errno;
	free(name);
	errno = n;
	return elf;
}

/* ---- files ---------------------------------------------------------------------------------- */

static uint64_t identity_hash(const struct elf_file *elf)
{
	const struct elf_id *id = elf_file__id(elf);
	uint64_t h = elf_file__size(elf) ^ 0xcbf29ce484222325ULL;

	for (unsigned int i = 0; i < id->size; i++)
		h = (h ^ id->bytes[i]) * 0x100000001b3ULL;
	return h;
}

/* The file with the same build id and size, or NULL. */
static struct mapped_file *find_same(const struct file_table *ft, const struct elf_file *elf)
{
	const struct elf_id *id = elf_file__id(elf);
	struct mapped_file *file;

	if (!id->size)
		return NULL;
	for (file = idmap__get(&ft->by_build_id, identity_hash(elf)); file;
	     file = file->next_same) {
		const struct elf_id *have = elf_file__id(file->elf);

		if (have->size == id->size && !memcmp(have->bytes, id->bytes, id->size) &&
		    elf_file__size(file->elf) == elf_file__size(elf))
			return file;
	}
	return NULL;
}

/* Takes over `py`; a new file takes over `elf` as well. NULL on lack of memory or of ids. */
static struct mapped_file *add_file(struct file_table *ft, struct elf_file *elf, int python,
				    struct py_binary *py)
{
	struct mapped_file *file = calloc(1, sizeof(*file));
	uint64_t hash = identity_hash(elf);

	if (!file || ft->next_id > FRAME_NATIVE_FILE || idmap__set(&ft->files, ft->next_id, file))
		goto fail;
	*file = (struct mapped_file){ .id = ft->next_id++,
				      .elf = elf,
				      .python = python,
				      .py = py,
				      .interp = -1,
				      .last_seen = ft->tick,
				      .unused_since = ft->tick };
	if (elf_file__id(elf)->size) {
		file->next_same = idmap__get(&ft->by_build_id, hash);
		if (idmap__set(&ft->by_build_id, hash, file))
			file->next_same = NULL; /* not shared, then */
	}
	ft->stats.files++;
	if (ft->sink.add(ft->sink.ctx, file->id, elf))
		log_warn("%s: no symbols: out of memory", elf_file__path(elf));
	return file;
fail:
	free(file);
	free(py);
	return NULL;
}

static struct inode *find_inode(struct file_table *ft, uint64_t dev, uint64_t ino)
{
	struct inode *inode = idmap__get(&ft->inodes, ino ^ dev << 40);

	while (inode && (inode->dev != dev || inode->ino != ino))
		inode = inode->next;
	return inode;
}

static uint64_t make_dev(uint32_t major, uint32_t minor)
{
	return (uint64_t)major << 32 | minor;
}

static struct inode *get_inode(struct file_table *ft, const struct map_line *line)
{
	uint64_t dev = make_dev(line->major, line->minor), key = line->inode ^ dev << 40;
	struct inode *inode = find_inode(ft, dev, line->inode);

	if (inode)
		return inode;
	inode = calloc(1, sizeof(*inode));
	if (!inode)
		return NULL;
	inode->dev = dev;
	inode->ino = line->inode;
	inode->next = idmap__get(&ft->inodes, key);
	if (idmap__set(&ft->inodes, key, inode)) {
		free(inode);
		return NULL;
	}
	return inode;
}

/* By mount, not by inode: the same directory may have other things mounted below it elsewhere. */
static bool is_our_root(int proc_fd)
{
	struct statx ours, theirs;

	return !statx(AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_MNT_ID, &ours) &&
	       !statx(proc_fd, "root/", AT_STATX_DONT_SYNC, STATX_MNT_ID, &theirs) &&
	       ours.stx_mask & theirs.stx_mask & STATX_MNT_ID &&
	       ours.stx_mnt_id == theirs.stx_mnt_id;
}

/*
 * The debug file that the process's own root has, /usr/lib/debug/.build-id/xx/yyyy.debug, where
 * that is not ours: it is opened now, because the container may be gone when names are wanted.
 */
static void offer_debug_file(struct file_table *ft, struct mapped_file *file)
{
	char hex[2 * BUILD_ID_MAX + 1], path[128];
	struct opened debug;
	int err;

	file->debug_put_off = false;

	elf_file__id_hex(file->elf, hex);
	if (strlen(hex) < 4 || elf_file__has(file->elf, ".debug_info") || is_our_root(ft->proc_fd))
		return;
	snprintf(path, sizeof(path), "usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	err = opener__find(ft->maps.readers, ft->tgid, ft->proc_fd, path, &debug);
	file->debug_put_off = err == -EBUSY;
	if (!err)
		ft->sink.offer_debug(ft->sink.ctx, file->id, debug);
}

/*
 * Sets the verdict of an inode from its file, which is taken over. `keep`: keep the file even if it
 * is not an interpreter.
 */
static void judge(struct file_table *ft, struct inode *inode, struct file_answer *a,
		  const struct map_line *line, bool keep)
{
	uint64_t put_off = readers__put_off(ft->maps.readers);
	struct py_binary *py = NULL;
	struct elf_file *elf = NULL;
	int python;

	announce_long_work(ft);
	errno = -a->open_err;
	if (a->file.fd >= 0)
		elf = open_elf(ft, &a->file, line);
	inode->verdict = VERDICT_NONE;
	inode->err = -ENOMEM;
	if (!elf) {
		inode->err = -errno;
		if ((errno == ENOEXEC || errno == EBADMSG) &&
		    readers__put_off(ft->maps.readers) == put_off)
			inode->verdict = VERDICT_OTHER;
		return;
	}
	inode->file = find_same(ft, elf);
	if (inode->file) {
		inode->verdict = inode->file->py ? VERDICT_PYTHON : VERDICT_PLAIN;
		goto out;
	}
	py = calloc(1, sizeof(*py));
	if (!py)
		goto out;
	python = py_binary__analyse(elf, py);
	elf_file__forget(elf); /* anyone can map files whose tables are large */
	if (readers__put_off(ft->maps.readers) != put_off) { /* not all of it was read */
		free(py);
		goto out;
	}
	if (python != 0 && python != -ENOTSUP && python != -EAGAIN) {
		free(py);
		py = NULL;
		if (python == -ENOMEM)
			goto out;
		inode->verdict = VERDICT_PLAIN;
		if (!keep)
			goto out;
	}
	inode->file = add_file(ft, elf, python, py);
	if (!inode->file) {
		inode->verdict = VERDICT_NONE;
		goto out;
	}
	inode->verdict = py ? VERDICT_PYTHON : VERDICT_PLAIN;
	inode->owner = true;
	return; /* the file has `elf` now */
out:
	elf_file__close(elf);
}

/* Is the verdict enough, if the file has not changed? */
static bool is_judged(const struct inode *inode, bool keep)
{
	return inode->verdict != VERDICT_NONE &&
	       (!keep || inode->file || inode->verdict != VERDICT_PLAIN);
}

/* Our own descriptor keeps the inode from being reused: no path to walk. */
static bool is_as_judged(const struct inode *inode)
{
	struct file_state now;
	struct stat st;

	if (!inode->owner || foreign__stat(elf_file__fd(inode->file->elf), &st))
		return false;
	now = file_batch__state(&st);
	return file_batch__same(&now, &inode->state);
}

static void note_checked(struct file_table *ft, struct inode *inode)
{
	inode->round = ft->round;
	inode->unanswered = 0;
	inode->checked_ns = now_ns();
	inode->generation = inode->generation_seen;
}

static bool is_roots(const struct file_table *ft)
{
	return tenant__is_roots(tenant__of_process(ft->tgid));
}

/*
 * One question is about many files. If there was no answer for one process, another one may still
 * map those files that are not to blame. Root's processes ask seldom: each of them may wait for
 * seconds for a disk of all of them, while other users are refused soon.
 */
static bool may_answer_now(const struct file_table *ft, const struct inode *inode)
{
	return inode->unanswered && inode->unanswered != ft->tgid &&
	       (ft->roots_unanswered < ROOTS_UNANSWERED_MAX || !is_roots(ft));
}

static bool is_checked(const struct file_table *ft, const struct inode *inode, bool keep)
{
	return inode->round == ft->round && !may_answer_now(ft, inode) &&
	       (!keep || inode->file || inode->verdict != VERDICT_PLAIN);
}

static bool is_no_answer(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY || err == -ECHILD;
}

static void note_error(struct file_table *ft, struct inode *inode, int err)
{
	/* Keeps the verdict: the file's name may be gone, but it is still mapped. */
	if (inode->verdict == VERDICT_NONE && err == -ENOEXEC)
		inode->verdict = VERDICT_OTHER;
	inode->err = err;
	if (err == -ESTALE) /* another process may have it still */
		return;
	inode->round = ft->round;
	inode->unanswered = is_no_answer(err) ? ft->tgid : 0;
	if (is_no_answer(err) && !ft->counted_unanswered) {
		ft->counted_unanswered = true;
		ft->roots_unanswered += is_roots(ft);
	}
}

/*
 * Asks for the file of a mapping, and in the same question for the unknown files of the process's
 * later mappings, because a question takes longer than a file.
 */
static struct file_answer *ask_for(struct file_table *ft, const struct map_line *line,
				   const struct inode *inode, bool keep)
{
	const struct map_line *end = ft->lines + ft->line_cnt;
	struct file_answer *a = file_batch__find(&ft->ahead, line);

	if (a && !a->used)
		return a;
	file_batch__drop(&ft->ahead);
	file_batch__add(&ft->ahead, line, is_judged(inode, keep) ? &inode->state : NULL);
	if (line < ft->lines || line >= end)
		end = line;
	for (uint64_t last = line->inode; line + 1 < end; line++) {
		if (!line[1].inode || line[1].inode == last ||
		    find_inode(ft, make_dev(line[1].major, line[1].minor), line[1].inode))
			continue;
		last = line[1].inode;
		if (!file_batch__add(&ft->ahead, &line[1], NULL))
			break;
	}
	file_batch__ask(&ft->ahead, ft->maps.readers, ft->tgid, ft->proc_fd);
	return &ft->ahead.answers[0];
}

/*
 * The inode of a mapping with a verdict on its present contents; with its file open, if `keep`.
 * NULL: no memory.
 */
static struct inode *judged(struct file_table *ft, const struct map_line *line, bool keep)
{
	struct inode *inode = get_inode(ft, line);
	struct file_answer *a;

	if (!inode || is_checked(ft, inode, keep))
		return inode;
	if (is_judged(inode, keep) && is_as_judged(inode)) {
		if (inode->file->debug_put_off)
			offer_debug_file(ft, inode->file);
		note_checked(ft, inode);
		return inode;
	}
	a = ask_for(ft, line, inode, keep);
	a->used = true;
	if (a->err) {
		note_error(ft, inode, a->err);
		return inode;
	}
	if (!is_judged(inode, keep) || !file_batch__same(&inode->state, &a->now)) {
		inode->file = NULL;
		inode->owner = false;
		judge(ft, inode, a, line, keep);
		if (inode->owner)
			offer_debug_file(ft, inode->file);
		inode->state = a->now;
	}
	note_checked(ft, inode);
	return inode;
}

static struct inode *look_up(struct file_table *ft, const struct map_line *line, bool keep)
{
	struct inode *inode = judged(ft, line, keep);

	if (inode && inode->verdict == VERDICT_NONE && is_no_answer(inode->err))
		ft->unanswered = true;
	return inode;
}

void file_table__enter(struct file_table *ft, uint32_t tgid, int proc_fd,
		       const struct map_line *lines, size_t cnt)
{
	file_batch__drop(&ft->ahead);
	ft->tgid = tgid;
	ft->proc_fd = proc_fd;
	ft->lines = lines;
	ft->line_cnt = cnt;
	ft->unanswered = false;
	ft->counted_unanswered = false;
}

bool file_table__unanswered(const struct file_table *ft)
{
	return ft->unanswered;
}

void file_table__leave(struct file_table *ft)
{
	file_table__enter(ft, 0, -1, NULL, 0);
}

int file_table__is_python(struct file_table *ft, const struct map_line *line)
{
	struct inode *inode;

	if (!line->inode)
		return 0;
	inode = look_up(ft, line, false);
	if (!inode)
		return -ENOMEM;
	return inode->verdict == VERDICT_NONE ? inode->err : inode->verdict == VERDICT_PYTHON;
}

bool file_table__is_plain(struct file_table *ft, uint32_t major, uint32_t minor, uint64_t ino,
			  uint64_t generation, uint64_t now)
{
	struct inode *inode;

	if (!ino)
		return true;
	inode = find_inode(ft, make_dev(major, minor), ino);
	if (!inode)
		return false;
	if (!inode->has_generation || inode->generation_seen != generation) {
		inode->generation_seen = generation;
		inode->has_generation = true;
		return false;
	}
	return inode->generation == generation && now < inode->checked_ns + PLAIN_TRUST_NS &&
	       (inode->verdict == VERDICT_PLAIN || inode->verdict == VERDICT_OTHER);
}

/* ---- the vdso ------------------------------------------------------------------------------- */

/* Size of our own vdso by /proc/self/maps; 0: none. */
static uint64_t own_vdso_size(uint64_t start)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct map_line line;
	uint64_t size = 0;
	char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	while (f && !size && (n = getline(&text, &cap, f)) > 0) {
		if (!map_line__parse(&line, text, (size_t)n - 1) && line.start == start)
			size = line.end - line.start;
	}
	free(text);
	if (f)
		fclose(f);
	return size;
}

/* The vdso is in no file. All 64-bit processes have the same one, so ours is used. */
static struct mapped_file *get_vdso(struct file_table *ft)
{
	uint64_t start = getauxval(AT_SYSINFO_EHDR);
	struct elf_file *elf;

	if (ft->vdso_tried)
		return ft->vdso;
	ft->vdso_tried = true;
	ft->vdso_size = start ? own_vdso_size(start) : 0;
	if (!ft->vdso_size)
		return NULL;
	elf = elf_file__open_memory((const void *)(uintptr_t)start, ft->vdso_size, "[vdso]");
	if (!elf)
		return NULL;
	ft->vdso = add_file(ft, elf, -ENOENT, NULL);
	if (!ft->vdso)
		elf_file__close(elf);
	return ft->vdso;
}

static bool is_vdso(const struct map_line *line)
{
	return line->name_len == 6 && !memcmp(line->name, "[vdso]", 6);
}

/* ---- windows -------------------------------------------------------------------------------- */

/*
 * A file shares its flag with files whose ids differ by a multiple of the map's size, so an unused
 * file may count as used. A flag that is set meanwhile belongs to the next window.
 */
static void take_seen(struct file_table *ft)
{
	for (uint32_t i = 0; ft->maps.seen && i < ft->maps.seen_cap; i++)
		ft->seen[i] = ft->maps.seen[i] &&
			      __atomic_exchange_n(&ft->maps.seen[i], 0, __ATOMIC_RELAXED);
}

static bool was_seen(const struct file_table *ft, const struct mapped_file *file)
{
	return !ft->maps.seen || ft->seen[file->id % ft->maps.seen_cap];
}

/* Bytes of tables that are cold now. */
static uint64_t cold_bytes(const struct file_table *ft)
{
	const struct mapped_file *file;
	uint64_t bytes = 0;

	for (size_t at = 0; (file = idmap__next(&ft->files, &at));)
		bytes += file_tables__is_cold(ft, file) ? file->table_bytes : 0;
	return bytes;
}

/* A program that starts every now and then should find its interpreter known. */
static uint64_t idle_ticks(const struct file_table *ft, const struct mapped_file *file)
{
	bool scarce = 2 * ft->stats.interps > ft->maps.interp_cap;

	return file->py && !scarce ? INTERP_IDLE_TICKS : IDLE_TICKS;
}

static bool is_idle(const struct file_table *ft, struct mapped_file *file)
{
	bool borrowed = file->borrowed;

	file->borrowed = false;
	if (file->users || file->named_at || borrowed || file == ft->vdso) {
		file->unused_since = ft->tick;
		return false;
	}
	/* The builder and the filler of tables have to be done with it. */
	return file->unused_since + idle_ticks(ft, file) <= ft->tick &&
	       file->table_state != TABLE_BUILDING &&
	       (file->table_state != TABLE_READY || tables__usable(ft->tables, file->table) > 0);
}

void file_table__borrow(struct file_table *ft, uint32_t id)
{
	struct mapped_file *file = file_table__find(ft, id);

	if (file)
		file->borrowed = true;
}

void file_table__forget_names(struct file_table *ft)
{
	struct mapped_file *file;

	for (size_t at = 0; (file = idmap__next(&ft->files, &at));) {
		if (file->named_at < ft->tick)
			file->named_at = 0;
	}
}

static void forget_by_build_id(struct file_table *ft, const struct mapped_file *file)
{
	uint64_t hash = identity_hash(file->elf);
	struct mapped_file *at = idmap__get(&ft->by_build_id, hash);

	if (at == file) {
		idmap__remove(&ft->by_build_id, hash);
		if (file->next_same)
			idmap__set(&ft->by_build_id, hash, file->next_same);
		return;
	}
	for (; at; at = at->next_same) {
		if (at->next_same == file)
			at->next_same = file->next_same;
	}
}

/*
 * Inodes are a cache of verdicts: if there are many, those not used lately are forgotten, and so
 * are those of released files.
 */
static void forget_inodes(struct file_table *ft, bool released)
{
	bool many = ft->inodes.cnt > INODES_KEPT;
	uint64_t old = now_ns() - INODE_KEEP_NS;
	struct inode *inode, *next, *kept;
	struct idmap fresh = { 0 };

	if (!released && !many)
		return;
	for (size_t at = 0; (inode = idmap__next(&ft->inodes, &at));) {
		uint64_t key = inode->ino ^ inode->dev << 40;

		for (kept = NULL; inode; inode = next) {
			next = inode->next;
			if ((inode->file && inode->file->leaving) ||
			    (many && !inode->owner && inode->checked_ns < old)) {
				free(inode);
				continue;
			}
			inode->next = kept;
			kept = inode;
		}
		if (kept && idmap__set(&fresh, key, kept))
			free_inodes(kept);
	}
	idmap__free(&ft->inodes);
	ft->inodes = fresh;
}

static void release_file(struct file_table *ft, struct mapped_file *file)
{
	if (file->table_state == TABLE_READY)
		file_tables__drop(ft, file, TABLE_UNTRIED);
	if (file->interp >= 0) {
		ft->interps[file->interp] = NULL;
		ft->stats.interps--;
		ft->interp_shares.taken--;
		ft->interp_shares.of[file->interp_slot]--;
	}
	forget_by_build_id(ft, file);
	ft->sink.remove(ft->sink.ctx, file->id);
	idmap__remove(&ft->files, file->id);
	free_file(file);
	ft->stats.released++;
}

/* All that are leaving. */
static void release_files(struct file_table *ft, size_t cnt)
{
	struct mapped_file **list = cnt ? malloc(cnt * sizeof(*list)) : NULL, *file;
	size_t n = 0;

	for (size_t at = 0; (file = idmap__next(&ft->files, &at));) {
		if (!file->leaving)
			continue;
		if (list)
			list[n++] = file;
		else
			file->leaving = false; /* without memory: the next time */
	}
	forget_inodes(ft, n);
	while (n)
		release_file(ft, list[--n]);
	free(list);
}

bool file_table__tick(struct file_table *ft)
{
	uint64_t cold = cold_bytes(ft), used;
	struct mapped_file *file;
	size_t leaving = 0;
	bool wanted = false;

	ft->tick++;
	take_seen(ft);
	used = ft->stats.table_bytes - cold;
	for (size_t at = 0; (file = idmap__next(&ft->files, &at));) {
		bool seen = was_seen(ft, file);

		if (seen) {
			file->last_seen = ft->tick;
			file->named_at = ft->tick;
		}
		if (is_idle(ft, file)) {
			file->leaving = true;
			leaving++;
		} else if (seen && file->users &&
			   (file->table_state == TABLE_EVICTED ||
			    (file->table_state == TABLE_REFUSED &&
			     used + file->refused_bytes <= ft->maps.table_budget))) {
			file->table_state = TABLE_UNTRIED;
			wanted = true;
		}
	}
	release_files(ft, leaving);
	return wanted;
}

/* ---- use ------------------------------------------------------------------------------------ */

struct mapped_file *file_table__get(struct file_table *ft, const struct map_line *line)
{
	struct mapped_file *file = NULL;
	struct inode *inode;

	if (line->inode) {
		inode = look_up(ft, line, true);
		if (inode && inode->verdict == VERDICT_NONE)
			ft->stats.unreadable++;
		file = inode ? inode->file : NULL;
	} else if (is_vdso(line)) {
		file = get_vdso(ft);
		if (file && line->end - line->start != ft->vdso_size)
			file = NULL; /* of a 32-bit process */
	}
	if (file)
		file->users++;
	return file;
}

void file_table__hold(struct mapped_file *file)
{
	file->users++;
}

void file_table__put(struct file_table *ft, struct mapped_file *file)
{
	if (--file->users == 0 && file->table_state == TABLE_READY)
		ft->room_made++;
}

int file_table__add_interp(struct file_table *ft, struct mapped_file *file)
{
	struct shares *s = &ft->interp_shares;
	uint32_t index = 0, slot;

	if (file->interp >= 0)
		return 0;
	slot = tenant__slot(ft->tgid);
	if (!SHARE_HAS_ROOM(s, slot, ft->maps.interp_cap))
		return -ENOSPC;
	while (index < ft->maps.interp_cap && ft->interps[index])
		index++;
	if (index == ft->maps.interp_cap)
		return -ENOSPC;
	/* Once: BPF adds to the entry what it learns. */
	if (bpf_map_update_elem(ft->maps.interps_fd, &index, &file->py->interp, BPF_ANY))
		return -errno;
	file->interp = (int32_t)index;
	file->interp_slot = slot;
	ft->interps[index] = file;
	ft->stats.interps++;
	s->taken++;
	s->of[slot]++;
	return 0;
}

void file_table__update_interp(const struct file_table *ft, const struct mapped_file *file)
{
	uint16_t codes = file->py->interp.layout.interp_codes;
	uint32_t index = (uint32_t)file->interp;
	struct interp now;

	if (file->interp < 0 || bpf_map_lookup_elem(ft->maps.interps_fd, &index, &now) ||
	    now.layout.interp_codes == codes)
		return;
	now.layout.interp_codes = codes; /* what BPF learns meanwhile it learns again */
	bpf_map_update_elem(ft->maps.interps_fd, &index, &now, BPF_ANY);
}

struct mapped_file *file_table__interp(const struct file_table *ft, uint32_t index)
{
	return index < ft->maps.interp_cap ? ft->interps[index] : NULL;
}
