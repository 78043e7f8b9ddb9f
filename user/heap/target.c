/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/hash.h"
#include "base/readmem.h"
#include "elf/elf.h"
#include "process/maps_parse.h"
#include "process/maps_read.h"
#include "process/unsupported.h"

#define FILES_MAX	512	      /* that are looked at for an interpreter */
#define DATA_MAX	(64ULL << 20) /* bytes of an interpreter's variables */
#define DATA_CHUNK	(64U << 10)
#define DATA_RANGES_MAX 64
#define ARRAYS_MAX	64

/* ---- memory ---------------------------------------------------------------------------------- */

static int read_target(void *ctx, void *dst, size_t size, uint64_t src)
{
	const struct heap_target *t = ctx;

	return read_process((uint32_t)t->pid, dst, size, src);
}

/* Of one call the kernel reads what comes before the first word that it cannot read. */
static void gather_target(void *ctx, uint64_t *words, const uint64_t *addrs, size_t cnt)
{
	const struct heap_target *t = ctx;
	struct iovec remote[HEAP_GATHER_MAX];

	for (size_t done = 0; done < cnt; done++) {
		size_t part = cnt - done < HEAP_GATHER_MAX ? cnt - done : HEAP_GATHER_MAX;
		struct iovec local = { words + done, part * sizeof(*words) };
		ssize_t n;

		for (size_t i = 0; i < part; i++)
			remote[i] = (struct iovec){ (void *)(uintptr_t)addrs[done + i],
						    sizeof(*words) };
		n = process_vm_readv(t->pid, &local, 1, remote, part, 0);
		done += n > 0 ? (size_t)n / sizeof(*words) : 0;
		if (done < cnt)
			words[done] = 0;
	}
}

/* ---- the interpreter ------------------------------------------------------------------------- */

static int add_data(struct heap_target *t, uint64_t start, uint64_t end)
{
	struct heap_range *more;

	if (t->data_cnt == DATA_RANGES_MAX)
		return 0;
	more = realloc(t->data, (t->data_cnt + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->data = more;
	t->data[t->data_cnt++] = (struct heap_range){ start, end };
	return 0;
}

/* The segments in memory: .bss, too, which the file does not have. */
static int take_segments(struct heap_target *t, const struct elf_file *ef)
{
	size_t cnt;
	const struct elf_segment *segments = elf_file__segments(ef, &cnt);
	int err = 0;

	t->module = (struct heap_range){ UINT64_MAX, 0 };
	for (size_t i = 0; i < cnt && !err; i++) {
		uint64_t start = t->bias + segments[i].addr;
		uint64_t end = start + segments[i].mem_size;

		if (end < start)
			continue;
		if (start < t->module.start)
			t->module.start = start;
		if (end > t->module.end)
			t->module.end = end;
		if (!segments[i].exec)
			err = add_data(t, start, end);
	}
	return err;
}

static uint64_t symbol_addr(const struct heap_target *t, const struct elf_file *ef,
			    const char *name)
{
	struct elf_symbol sym;

	return elf_file__symbol(ef, name, &sym) ? t->bias + sym.addr : 0;
}

static int set_shape(struct heap_target *t, const struct elf_file *ef, char *why)
{
	const struct py_layout *l = &t->py.interp.layout;

	t->shape = (struct heap_shape){
		.version = l->version,
		.ob_type = l->ob_type,
		.gc_size = l->version <= 0x0307 ? 32 : 16,
		.str_min = l->str_ascii,
		.type_type = symbol_addr(t, ef, "PyType_Type"),
		.str_type = t->py.str_type ? t->bias + t->py.str_type : 0,
	};
	if (t->py.free_threaded) {
		snprintf(why, HEAP_WHY_LEN,
			 "a free-threaded CPython %s keeps its objects in mimalloc's pages, which "
			 "heap cannot read yet",
			 t->py.version);
		return -ENOTSUP;
	}
	if (!t->shape.type_type) {
		snprintf(why, HEAP_WHY_LEN, "its interpreter does not export PyType_Type");
		return -ENOTSUP;
	}
	return take_segments(t, ef);
}

/* From 3.13 on the layout may have to come from the process. */
static int analyse(struct heap_target *t, const struct elf_file *ef)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	int err = py_binary__analyse(ef, &t->py);

	if (err != -EAGAIN)
		return err;
	if (read_process((uint32_t)t->pid, bytes, sizeof(bytes), t->bias + t->py.runtime))
		return err;
	return py_binary__from_process(&t->py, bytes, sizeof(bytes));
}

/*
 * The mapped file itself, or the one that has its name now and is the same. A descriptor, or
 * negative errno.
 */
static int open_mapped(int proc_fd, const struct map_line *line, const char *path)
{
	char name[64];
	struct stat st;
	int path_fd, fd;

	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)line->start,
		 (unsigned long long)line->end);
	path_fd = openat(proc_fd, name, O_PATH | O_CLOEXEC);
	if (path_fd < 0) {
		path_fd = foreign__find(proc_fd, path);
		if (path_fd >= 0 && (fstat(path_fd, &st) || st.st_ino != line->inode)) {
			close(path_fd);
			return -ESTALE;
		}
	}
	if (path_fd < 0)
		return path_fd;
	fd = foreign__reopen_mapped(path_fd);
	close(path_fd);
	return fd;
}

/* 0: it is the interpreter; -ENOENT: it is none; else negative errno and a reason. */
static int try_file(struct heap_target *t, const struct map_line *line, char *why)
{
	char path[PATH_MAX];
	struct elf_file *ef;
	uint64_t addr;
	int err = map_line__path(line, path, sizeof(path)), fd;

	fd = err < 0 ? err : open_mapped(t->proc_fd, line, path);
	ef = fd < 0 ? NULL : elf_file__open(fd, path);
	if (!ef)
		return -ENOENT;
	err = -ENOENT;
	if (elf_file__off_to_addr(ef, line->offset, &addr)) {
		t->bias = line->start - addr;
		err = analyse(t, ef);
	}
	if (err == -ENOTSUP)
		snprintf(why, HEAP_WHY_LEN, "CPython %s in %.128s: %s", t->py.version, path,
			 t->py.why_not ? t->py.why_not : "it is not supported");
	else if (!err)
		err = set_shape(t, ef, why);
	elf_file__close(ef);
	return err;
}

static int find_interpreter(struct heap_target *t, char *why)
{
	const char *rest, *raw;
	size_t len, raw_len;
	uint64_t inode = 0;
	struct map_line line;
	unsigned files = 0;
	int err = read_proc(t->proc_fd, "maps", &t->text);

	if (err) {
		snprintf(why, HEAP_WHY_LEN,
			 "its mappings cannot be read: %s (needs CAP_SYS_PTRACE)", strerror(-err));
		return err;
	}
	rest = t->text.s;
	len = t->text.len;
	while (files < FILES_MAX && maps__next(&rest, &len, &raw, &raw_len)) {
		if (map_line__parse(&line, raw, raw_len) || !line.exec || !line.inode ||
		    line.inode == inode)
			continue;
		inode = line.inode;
		files++;
		err = try_file(t, &line, why);
		if (err != -ENOENT)
			return err;
	}
	if (!unsupported__explain(t->pid, why))
		snprintf(why, HEAP_WHY_LEN, "it is not Python");
	return -ENOENT;
}

static void read_comm(struct heap_target *t)
{
	struct strbuf safe = { 0 };
	size_t len;

	if (!read_proc(t->proc_fd, "comm", &t->text) && t->text.len) {
		len = t->text.len - (t->text.s[t->text.len - 1] == '\n');
		str_sanitise(&safe, t->text.s, len, 16);
	}
	snprintf(t->comm, sizeof(t->comm), "%s", safe.err || !safe.s ? "?" : safe.s);
	strbuf__free(&safe);
}

int heap_target__open(struct heap_target *t, pid_t pid, char why[HEAP_WHY_LEN])
{
	char path[32];
	uint8_t probe;
	int err;

	*t = (struct heap_target){ .pid = pid };
	t->mem = (struct heap_mem){ t, read_target, gather_target };
	snprintf(path, sizeof(path), "/proc/%d", pid);
	t->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->proc_fd < 0) {
		err = -errno;
		snprintf(why, HEAP_WHY_LEN, "there is no such process");
		return err;
	}
	read_comm(t);
	err = find_interpreter(t, why);
	if (!err)
		err = t->mem.read(t, &probe, 1, t->shape.type_type);
	else
		return err;
	if (err)
		snprintf(why, HEAP_WHY_LEN,
			 "its memory cannot be read: %s (needs CAP_SYS_PTRACE, and "
			 "kernel.yama.ptrace_scope below 3)",
			 strerror(-err));
	return err;
}

void heap_target__close(struct heap_target *t)
{
	if (t->proc_fd > 0)
		close(t->proc_fd);
	strbuf__free(&t->text);
	free(t->data);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static bool is_known(const uint64_t *arrays, size_t cnt, uint64_t addr)
{
	for (size_t i = 0; i < cnt; i++)
		if (arrays[i] == addr)
			return true;
	return false;
}

/* The array is on the heap: what points into the interpreter's file does not point to one. */
static bool can_be_array(const struct heap_target *t, uint64_t addr)
{
	return addr % 8 == 0 && addr >= 4096 && addr < 1ULL << 47 &&
	       (addr < t->module.start || addr >= t->module.end);
}

static int search(const struct heap_target *t, struct heap_scan *s, const uint8_t *bytes,
		  size_t size, uint64_t *arrays, size_t *cnt)
{
	int err = 0;

	for (size_t at = 0; at + 8 <= size && *cnt < ARRAYS_MAX && err != -ENOMEM; at += 8) {
		uint64_t word = heap_word(bytes + at);

		if (!can_be_array(t, word) || is_known(arrays, *cnt, word))
			continue;
		err = heap_scan__add_array(s, word);
		if (!err)
			arrays[(*cnt)++] = word;
	}
	return err == -ENOMEM ? err : 0;
}

int heap_target__find_arenas(const struct heap_target *t, struct heap_scan *s)
{
	uint8_t *bytes = malloc(DATA_CHUNK);
	uint64_t arrays[ARRAYS_MAX], budget = DATA_MAX;
	size_t cnt = 0;
	int err = bytes ? 0 : -ENOMEM;

	s->module = t->module;
	for (size_t i = 0; i < t->data_cnt; i++) {
		for (uint64_t at = t->data[i].start; at < t->data[i].end && !err && budget;) {
			uint64_t left = t->data[i].end - at, part = DATA_CHUNK - at % DATA_CHUNK;

			part = part < left ? part : left;
			part = part < budget ? part : budget;
			if (!t->mem.read(t->mem.ctx, bytes, part, at))
				err = search(t, s, bytes + (-at & 7), part - (-at & 7), arrays,
					     &cnt);
			at += part;
			budget -= part;
		}
	}
	free(bytes);
	return err ? err : (int)cnt;
}
