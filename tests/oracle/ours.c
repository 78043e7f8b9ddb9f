/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "ours.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "elf/ehframe.h"
#include "elf/elf.h"
#include "process/maps_read.h"
#include "python/pyproc.h"

#include "bpf/walk_python.bpf.h"
#include "bpf/walk_native.bpf.h"
#include "bpf/merge.bpf.h"

#define MAX_FILES    1024
#define MAX_MAPPINGS 4096

struct file {
	uint32_t major, minor;
	uint64_t inode;
	char name[64];
	struct elf_file *elf; /* NULL: not one */
	struct unwind_table *table;
	struct py_binary py;
	int python; /* of py_binary__analyse() */
};

struct ours {
	pid_t pid;
	int proc_fd;
	struct exec_maps maps, old;
	struct file *files; /* file id - 1, which is also the table's index - 1 */
	uint32_t file_cnt;
	struct mapping *mappings;
	uint32_t mapping_cnt;
	const struct file *interp_file;
	struct interp interp; /* with what was learned */
	uint64_t bias;
	uint64_t stack_start; /* of the program that runs now */
	struct walk walk;
	struct known_place places[PLACE_SLOTS];
	struct stack stack;
	__u64 deep[DEEP_WORDS(STACK_DEPTH_DEFAULT)];
};

static struct ours *at_hand; /* the walkers have no argument for it */

/* ---- the seam -------------------------------------------------------------------------------- */

int read_user(void *dst, __u32 sz, uaddr_t src)
{
	struct iovec local = { .iov_base = dst, .iov_len = sz };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)src, .iov_len = sz };

	if (process_vm_readv(at_hand->pid, &local, 1, &remote, 1, 0) == (ssize_t)sz)
		return 0;
	memset(dst, 0, sz);
	return -EFAULT;
}

struct walk *the_walk(void)
{
	return &at_hand->walk;
}

struct stack *the_stack(void)
{
	return &at_hand->stack;
}

__u64 *the_deep(void)
{
	return at_hand->deep;
}

__u32 deep_parts(void)
{
	return STACK_DEPTH_DEFAULT;
}

__u32 max_frames(void)
{
	return STACK_DEPTH_DEFAULT;
}

const struct mapping *get_mapping(__u32 index)
{
	return index < at_hand->mapping_cnt ? &at_hand->mappings[index] : NULL;
}

struct known_place *the_places(void)
{
	return at_hand->places;
}

struct known_code *code_slot(__u32 index)
{
	(void)index;
	return NULL;
}

struct code_row *code_row(__u32 index)
{
	(void)index;
	return NULL;
}

void note_tstate(const struct walk *w, __u64 tstate)
{
	(void)w, (void)tstate;
}

void note_frame(const struct walk *w, __u64 frame)
{
	(void)w, (void)frame;
}

void note_seen(__u32 file)
{
	(void)file;
}

void *uw_table(__u32 index)
{
	return index && index <= at_hand->file_cnt ? at_hand->files[index - 1].table : NULL;
}

const __u32 *uw_words(void *table, __u32 word, __u32 cnt)
{
	const struct unwind_table *t = table;

	return word <= t->word_cnt && cnt <= t->word_cnt - word ? t->words + word : NULL;
}

struct interp *get_interp(__u32 index)
{
	(void)index;
	return &at_hand->interp;
}

/* Every code object is known already. */
__u64 code_lookup(__u64 addr, __u64 fingerprint)
{
	(void)addr, (void)fingerprint;
	return 1;
}

int code_insert(struct walk *w)
{
	(void)w;
	return 0;
}

__u64 code_new_id(void)
{
	return 1;
}

struct ev_blob *blob_scratch(void)
{
	return NULL;
}

struct ev_code *code_scratch(void)
{
	return NULL;
}

int blob_send(const void *data, __u32 size, int wake_now)
{
	(void)data, (void)size, (void)wake_now;
	return -EAGAIN;
}

/* ---- files and mappings ---------------------------------------------------------------------- */

static struct elf_file *open_vdso(const struct ours *o, const struct map_line *line)
{
	size_t size = line->end - line->start;
	struct iovec local = { .iov_base = malloc(size), .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)line->start, .iov_len = size };
	struct elf_file *ef = NULL;

	if (local.iov_base && process_vm_readv(o->pid, &local, 1, &remote, 1, 0) == (ssize_t)size)
		ef = elf_file__open_memory(local.iov_base, size, "[vdso]");
	free(local.iov_base);
	return ef;
}

static struct elf_file *open_mapped(const struct ours *o, const struct map_line *line)
{
	char path[64];
	int fd;

	if (!line->inode)
		return open_vdso(o, line);
	snprintf(path, sizeof(path), "map_files/%llx-%llx", (unsigned long long)line->start,
		 (unsigned long long)line->end);
	fd = openat(o->proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : elf_file__open(fd, path);
}

static void name_file(struct file *f, const struct map_line *line)
{
	size_t from = line->name_len;

	while (from && line->name[from - 1] != '/')
		from--;
	snprintf(f->name, sizeof(f->name), "%.*s", (int)(line->name_len - from), line->name + from);
}

/* The id of the file behind a mapping; 0: none. */
static uint32_t file_of(struct ours *o, const struct map_line *line)
{
	bool vdso = line->name_len == 6 && !memcmp(line->name, "[vdso]", 6);
	struct file *f;

	if (!line->inode && !vdso)
		return 0;
	for (uint32_t i = 0; i < o->file_cnt; i++) {
		f = &o->files[i];
		if (f->inode == line->inode && f->major == line->major && f->minor == line->minor)
			return i + 1;
	}
	if (o->file_cnt == MAX_FILES)
		return 0;
	f = &o->files[o->file_cnt];
	*f = (struct file){ .major = line->major, .minor = line->minor, .inode = line->inode };
	f->python = -ENOENT;
	name_file(f, line);
	f->elf = open_mapped(o, line);
	if (f->elf) {
		f->table = unwind_table__build(f->elf);
		f->python = vdso ? -ENOENT : py_binary__analyse(f->elf, &f->py);
	}
	return ++o->file_cnt;
}

static int read_target(const struct ours *o, void *dst, size_t size, uint64_t src)
{
	struct iovec local = { .iov_base = dst, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)src, .iov_len = size };

	return process_vm_readv(o->pid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

/* Takes the file as the process's interpreter when it is one. */
static void try_interp(struct ours *o, struct file *f, const struct map_line *line)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	uint64_t addr, bias;

	if (o->interp_file || !f->elf || !elf_file__off_to_addr(f->elf, line->offset, &addr))
		return;
	bias = line->start - addr;
	if (f->python == -EAGAIN && !read_target(o, bytes, sizeof(bytes), bias + f->py.runtime))
		f->python = py_binary__from_process(&f->py, bytes, sizeof(bytes));
	if (f->python)
		return;
	o->interp_file = f;
	o->interp = f->py.interp;
	o->bias = bias;
}

static void take_mappings(struct ours *o)
{
	o->mapping_cnt = 0;
	for (size_t i = 0; i < o->maps.cnt && o->mapping_cnt < MAX_MAPPINGS; i++) {
		const struct map_line *line = &o->maps.lines[i];
		uint32_t file = file_of(o, line);
		struct file *f = file ? &o->files[file - 1] : NULL;

		o->mappings[o->mapping_cnt++] =
			(struct mapping){ .start = line->start,
					  .end = line->end,
					  .offset = line->offset,
					  .file = file,
					  .table = f && f->table ? file : 0 };
		if (f)
			try_interp(o, f, line);
	}
}

/* Field 28 of proc_pid_stat(5); 0: not known. The name, field 2, may hold anything. */
static uint64_t read_stack_start(const struct ours *o)
{
	int fd = openat(o->proc_fd, "stat", O_RDONLY | O_CLOEXEC);
	char text[1024], *at;
	ssize_t len;

	if (fd < 0)
		return 0;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len < 0 ? 0 : len] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 28; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static bool same_maps(const struct exec_maps *a, const struct exec_maps *b)
{
	if (a->cnt != b->cnt)
		return false;
	for (size_t i = 0; i < a->cnt; i++) {
		if (a->lines[i].start != b->lines[i].start || a->lines[i].end != b->lines[i].end ||
		    a->lines[i].offset != b->lines[i].offset ||
		    a->lines[i].inode != b->lines[i].inode)
			return false;
	}
	return true;
}

int ours__refresh(struct ours *o)
{
	struct exec_maps last = o->old;
	int err;

	o->old = o->maps;
	o->maps = last;
	err = exec_maps__read(&o->maps, o->proc_fd);
	if (err)
		return err;
	if (same_maps(&o->maps, &o->old) && o->interp_file)
		return 0;
	take_mappings(o);
	o->stack_start = read_stack_start(o);
	return 1;
}

/* ---- walking --------------------------------------------------------------------------------- */

static void begin_walk(struct ours *o, const struct user_regs_struct *r)
{
	struct walk *w = &o->walk;
	const __u64 regs[GREG_CNT] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
				       r->rbp, r->rsp, r->r8,  r->r9,  r->r10, r->r11,
				       r->r12, r->r13, r->r14, r->r15 };

	reset_walk(w);
	memcpy(w->native.regs, regs, sizeof(regs));
	w->native.pc = r->rip;
	w->native.sp = r->rsp;
	w->native.fp = r->rbp;
	w->thread.tp = r->fs_base;
	w->thread.stack_start = o->stack_start;
	w->native.exact_pc = 1;
	w->thread.tgid = w->thread.tid = (uint32_t)o->pid;
	w->image.map_first = 0;
	w->image.map_cnt = o->mapping_cnt;
	w->place.map.start = w->place.map.end = 0;
	w->image.has_python = !!o->interp_file;
	if (!w->image.has_python)
		return;
	w->interp = o->interp;
	w->image.bias = o->bias;
	w->interp.interp_head += o->bias;
	w->interp.code_type += o->bias;
	for (int i = 0; i < MAX_EVAL_RANGES; i++) {
		if (!w->interp.eval[i].end)
			continue;
		w->interp.eval[i].start += o->bias;
		w->interp.eval[i].end += o->bias;
	}
}

void ours__walk(struct ours *o, const struct user_regs_struct *regs, struct our_stack *out)
{
	struct walk *w = &o->walk;

	at_hand = o;
	begin_walk(o, regs);
	o->stack.cnt = o->stack.cut = 0;
	if (w->image.has_python) {
		scan_thread_states(0);
		walk_python(w);
	}
	walk_native(0);
	out->cnt = w->native.cnt;
	for (__u32 i = 0; i < w->native.cnt; i++)
		out->native[i] = o->deep[deep_at(DEEP_NATIVE, i)];
	out->whole = w->flags & WALK_NATIVE_END;
	out->jumped = w->flags & WALK_SHIM_JUMP;
	out->marker = w->flags & WALK_NATIVE_LOST ? w->native.marker : 0;
	merge(0);
	out->python_cnt = w->python.cnt;
	out->merged_cnt = o->stack.cnt;
	memcpy(out->merged, o->deep + deep_frame(0), o->stack.cnt * sizeof(out->merged[0]));
}

uint64_t ours__word(const struct ours *o, uint64_t addr)
{
	for (uint32_t i = 0; i < o->mapping_cnt; i++) {
		const struct mapping *m = &o->mappings[i];

		if (addr >= m->start && addr < m->end && m->file)
			return NATIVE_WORD(m->file, addr - m->start + m->offset);
	}
	return FRAME_WORD(FRAME_ANON, addr);
}

bool ours__executable(const struct ours *o, uint64_t addr)
{
	for (size_t i = 0; i < o->maps.cnt; i++) {
		if (addr >= o->maps.lines[i].start && addr < o->maps.lines[i].end)
			return true;
	}
	return false;
}

bool ours__in_eval(const struct ours *o, uint64_t addr)
{
	for (int i = 0; o->interp_file && i < MAX_EVAL_RANGES; i++) {
		if (addr - o->bias >= o->interp.eval[i].start &&
		    addr - o->bias < o->interp.eval[i].end)
			return true;
	}
	return false;
}

const char *ours__file(const struct ours *o, uint64_t word)
{
	uint32_t file = FRAME_TAG(word) == FRAME_NATIVE ? NATIVE_FILE(word) : 0;

	return file && file <= o->file_cnt ? o->files[file - 1].name : "?";
}

/* ---- the object ------------------------------------------------------------------------------ */

struct ours *ours__new(pid_t pid)
{
	struct ours *o = calloc(1, sizeof(*o));
	char path[32];

	if (!o)
		return NULL;
	o->pid = pid;
	o->files = calloc(MAX_FILES, sizeof(*o->files));
	o->mappings = calloc(MAX_MAPPINGS, sizeof(*o->mappings));
	snprintf(path, sizeof(path), "/proc/%d", pid);
	o->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->files && o->mappings && o->proc_fd >= 0)
		return o;
	ours__free(o);
	return NULL;
}

void ours__free(struct ours *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->file_cnt; i++) {
		unwind_table__free(o->files[i].table);
		elf_file__close(o->files[i].elf);
	}
	exec_maps__free(&o->maps);
	exec_maps__free(&o->old);
	free(o->files);
	free(o->mappings);
	if (o->proc_fd >= 0)
		close(o->proc_fd);
	free(o);
}
