/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/sym_builds.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define FILE_NAME    "names"
#define FILE_MAX     (64U << 20)
#define ID_SIZE	     20
#define NUMBER_BYTES 5 /* of a LEB128 number of 32 bits */

static const char magic[20] = "pyperf-bpf names\n";

struct head {
	char magic[sizeof(magic)];
	uint32_t build_cnt, name_cnt;
	uint32_t rows_sz, names_sz;
};
_Static_assert(sizeof(struct head) == 36, "as in the file");

struct build {
	uint8_t id[ID_SIZE];
	uint32_t function_cnt, first;
};
_Static_assert(sizeof(struct build) == 28, "as in the file");

struct sym_builds {
	const uint8_t *builds; /* struct build, which may not be aligned */
	const uint8_t *rows;
	const char *names;
	struct head head;
	void *mapped; /* NULL: somebody else's memory */
	size_t mapped_sz;
};

/* ---- The file ---- */

/* The parts fill the file exactly, and every name ends in it. */
static bool set_parts(struct sym_builds *b, const uint8_t *data, size_t size)
{
	uint64_t want = sizeof(b->head);

	if (size < sizeof(b->head))
		return false;
	memcpy(&b->head, data, sizeof(b->head));
	want += (uint64_t)b->head.build_cnt * sizeof(struct build);
	want += (uint64_t)b->head.rows_sz + b->head.names_sz;
	if (memcmp(b->head.magic, magic, sizeof(magic)) || want != size || !b->head.names_sz ||
	    data[size - 1])
		return false;
	b->builds = data + sizeof(b->head);
	b->rows = b->builds + b->head.build_cnt * sizeof(struct build);
	b->names = (const char *)b->rows + b->head.rows_sz;
	return true;
}

struct sym_builds *sym_builds__of(const void *data, size_t size)
{
	struct sym_builds *b = calloc(1, sizeof(*b));

	if (!b || set_parts(b, data, size))
		return b;
	free(b);
	errno = EBADMSG;
	return NULL;
}

void sym_builds__free(struct sym_builds *b)
{
	if (!b)
		return;
	if (b->mapped)
		munmap(b->mapped, b->mapped_sz);
	free(b);
}

struct sym_builds *sym_builds__open(int fd)
{
	struct sym_builds *b = NULL;
	struct stat st;
	void *data;

	if (fstat(fd, &st))
		return NULL;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > FILE_MAX) {
		errno = EBADMSG;
		return NULL;
	}
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return NULL;
	b = sym_builds__of(data, (size_t)st.st_size);
	if (!b) {
		munmap(data, (size_t)st.st_size);
		return NULL;
	}
	b->mapped = data;
	b->mapped_sz = (size_t)st.st_size;
	return b;
}

/*
 * A user who can change the file while we use it could give us wrong names, or a SIGBUS. So the
 * file must belong to root or to the owner of the program, who can do worse.
 */
static bool is_ours(int fd)
{
	struct stat file, program;

	return !fstat(fd, &file) && !stat("/proc/self/exe", &program) &&
	       (!file.st_uid || file.st_uid == program.st_uid) && !(file.st_mode & S_IWOTH);
}

static struct sym_builds *open_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err;
	struct sym_builds *b = NULL;

	if (fd < 0)
		return NULL;
	errno = EPERM;
	if (is_ours(fd))
		b = sym_builds__open(fd);
	err = errno;
	close(fd);
	if (!b)
		log_debug("%s: not used: %s", path, strerror(err));
	errno = err;
	return b;
}

struct sym_builds *sym_builds__installed(void)
{
	/* From where this program is: as built; and bin/ and libexec/pyperf-bpf/ as installed. */
	static const char *const places[] = { ".", "../share/pyperf-bpf",
					      "../../share/pyperf-bpf" };
	char self[PATH_MAX] = "", path[PATH_MAX + 64];
	struct sym_builds *b = NULL;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *dir = len > 0 ? dirname(self) : NULL;

	errno = ENOENT;
	for (size_t i = 0; dir && !b && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/" FILE_NAME, dir, places[i]);
		b = open_path(path);
	}
	return b;
}

/* ---- Rows ---- */

static int by_id(const void *id, const void *build)
{
	return memcmp(id, build, ID_SIZE); /* a build begins with its id */
}

static bool find_build(const struct sym_builds *b, const struct elf_id *id, struct build *out)
{
	const void *hit = NULL;

	if (b && id->size == ID_SIZE && b->head.build_cnt)
		hit = bsearch(id->bytes, b->builds, b->head.build_cnt, sizeof(*out), by_id);
	if (hit)
		memcpy(out, hit, sizeof(*out));
	return hit;
}

bool sym_builds__has(const struct sym_builds *b, const struct elf_id *id)
{
	struct build build;

	return find_build(b, id, &build);
}

static bool take_number(const struct sym_builds *b, uint32_t *at, uint32_t *number)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < NUMBER_BYTES && *at < b->head.rows_sz; i++) {
		uint8_t byte = b->rows[(*at)++];

		value |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (byte & 0x80)
			continue;
		*number = (uint32_t)value;
		return value <= UINT32_MAX;
	}
	return false;
}

/* The numbers of names. */
static int read_row(const struct sym_builds *b, const struct build *build, uint32_t *v)
{
	uint32_t at = build->first, number;
	int64_t name = 0;

	for (uint32_t i = 0; i < build->function_cnt; i++) {
		if (!take_number(b, &at, &number))
			return -EBADMSG;
		if (!number)
			continue;
		number--;
		name += number & 1 ? -(int64_t)(number >> 1) - 1 : (int64_t)(number >> 1);
		if (name < 0 || name >= b->head.name_cnt)
			return -EBADMSG;
		v[i] = (uint32_t)name;
	}
	return 0;
}

/* Numbers become positions. */
static int locate_names(const struct sym_builds *b, uint32_t *v, size_t cnt)
{
	uint32_t *starts, names = 0, at = 0;

	/* Each name has a byte at least. */
	if (b->head.name_cnt > b->head.names_sz)
		return -EBADMSG;
	starts = calloc((size_t)b->head.name_cnt + 1, sizeof(*starts));
	if (!starts)
		return -ENOMEM;
	for (; names < b->head.name_cnt && at < b->head.names_sz; names++) {
		starts[names] = at;
		at += (uint32_t)strlen(b->names + at) + 1;
	}
	for (size_t i = 0; i < cnt; i++)
		v[i] = starts[v[i]];
	free(starts);
	return names == b->head.name_cnt && at == b->head.names_sz && !b->names[0] ? 0 : -EBADMSG;
}

int sym_builds__row(const struct sym_builds *b, const struct elf_id *id, size_t functions,
		    struct build_row *row)
{
	struct build build;
	int err;

	*row = (struct build_row){ 0 };
	if (!find_build(b, id, &build))
		return -ENOENT;
	/* Each function has a byte at least. */
	if (!functions || build.function_cnt != functions || functions > b->head.rows_sz)
		return -EBADMSG;
	row->v = calloc(functions, sizeof(*row->v));
	if (!row->v)
		return -ENOMEM;
	err = read_row(b, &build, row->v);
	if (!err)
		err = locate_names(b, row->v, functions);
	if (err) {
		free(row->v);
		row->v = NULL;
		return err;
	}
	row->names = b->names;
	row->names_sz = b->head.names_sz;
	return 0;
}
