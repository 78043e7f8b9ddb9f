/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/sym_debugfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/foreign.h"
#include "base/log.h"

#define DEBUGLINK_CRC_SZ (1ULL << 30)  /* a larger file is not read for its checksum */
#define CRC_SPARSE_SZ	 (16ULL << 20) /* nor a larger one that is mostly holes */

/* What is looked for. */
struct wanted {
	const struct elf_file *ef;
	const char *root;
	const char *section;
};

const struct sym_debugfile_places sym_debugfile_default = { .root = DEBUG_ROOT, .fd = -1 };

static int file_crc(int fd, uint32_t *crc)
{
	struct stat st;
	uint64_t off = 0;
	uint8_t *buf;
	ssize_t n;

	if (fstat(fd, &st) || (uint64_t)st.st_size > DEBUGLINK_CRC_SZ ||
	    ((uint64_t)st.st_size > CRC_SPARSE_SZ && st.st_blocks < st.st_size / 512 / 16))
		return -EFBIG;
	buf = malloc(65536);
	if (!buf)
		return -ENOMEM;
	*crc = (uint32_t)crc32(0, NULL, 0);
	while (off <= DEBUGLINK_CRC_SZ && (n = pread(fd, buf, 65536, (off_t)off)) > 0) {
		*crc = (uint32_t)crc32(*crc, buf, (uInt)n);
		off += (uint64_t)n;
	}
	free(buf);
	return 0;
}

/*
 * Is it the debug file of this file? Equal build ids prove it, different ones refute it. Where one
 * has none, the checksum in .gnu_debuglink decides (`crc` NULL: there is no checksum).
 */
static bool is_ours(const struct elf_file *ef, const struct elf_file *debug, const uint32_t *crc)
{
	const struct elf_id *ours = elf_file__id(ef), *theirs = elf_file__id(debug);
	uint32_t found;

	if (ours->size && theirs->size)
		return ours->size == theirs->size &&
		       !memcmp(ours->bytes, theirs->bytes, ours->size);
	return crc && !file_crc(elf_file__fd(debug), &found) && found == *crc;
}

/* What is open at `fd`, which is taken over, if it is the one; else NULL and errno. */
static struct elf_file *try_fd(const struct wanted *w, int fd, const char *path,
			       const uint32_t *crc)
{
	struct elf_file *debug = elf_file__open(fd, path);

	if (!debug)
		return NULL;
	if (is_ours(w->ef, debug, crc)) {
		if (elf_file__has(debug, w->section))
			return debug;
	} else {
		log_debug("%s: not the debug file of %s", path, elf_file__path(w->ef));
	}
	elf_file__close(debug);
	errno = ENOENT;
	return NULL;
}

static struct elf_file *try_file(const struct wanted *w, const char *path, const uint32_t *crc)
{
	int fd = foreign__open(path);

	if (fd >= 0)
		return try_fd(w, fd, path, crc);
	errno = ENOENT;
	return NULL;
}

static struct elf_file *by_build_id(const struct wanted *w)
{
	char hex[2 * BUILD_ID_MAX + 1], path[PATH_MAX];

	elf_file__id_hex(w->ef, hex);
	errno = ENOENT;
	if (strlen(hex) < 4 || snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", w->root,
					hex, hex + 2) >= (int)sizeof(path))
		return NULL;
	return try_file(w, path, NULL);
}

/* .gnu_debuglink: the name of a file, NUL, padding to a multiple of four, its CRC-32. */
static bool debuglink(const struct elf_file *ef, const char **name, uint32_t *crc)
{
	struct elf_section sec;
	size_t len, at;

	if (!elf_file__section(ef, ".gnu_debuglink", &sec) || !sec.data)
		return false;
	len = strnlen((const char *)sec.data, sec.size);
	at = (len + 4) & ~(size_t)3;
	if (!len || at > sec.size || sec.size - at < sizeof(*crc) ||
	    memchr(sec.data, '/', len)) /* it must not lead out of the directory */
		return false;
	*name = (const char *)sec.data;
	memcpy(crc, sec.data + at, sizeof(*crc));
	return true;
}

static struct elf_file *by_debuglink(const struct wanted *w)
{
	const char *file = elf_file__path(w->ef), *slash = strrchr(file, '/'), *name;
	/* dir/name, dir/.debug/name, root/dir/name */
	const char *const prefix[] = { "", "", w->root }, *const sub[] = { "", ".debug/", "" };
	struct elf_file *debug = NULL;
	char path[PATH_MAX];
	uint32_t crc;

	errno = ENOENT;
	if (!slash || slash - file >= PATH_MAX || !debuglink(w->ef, &name, &crc))
		return NULL;
	for (size_t i = 0; !debug && errno != ENOMEM && i < 3; i++)
		if (snprintf(path, sizeof(path), "%s%.*s/%s%s", prefix[i], (int)(slash - file),
			     file, sub[i], name) < (int)sizeof(path))
			debug = try_file(w, path, &crc);
	return debug;
}

static struct elf_file *offered(const struct wanted *w, int fd)
{
	if (fd >= 0)
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* it may be wanted again */
	if (fd >= 0)
		return try_fd(w, fd, "the debug file in the process's root", NULL);
	errno = ENOENT;
	return NULL;
}

static struct elf_file *by_server(const struct wanted *w, struct sym_debuginfod *server)
{
	int fd = server ? sym_debuginfod__open(server, w->ef) : -ENOENT;

	if (fd >= 0)
		return try_fd(w, fd, "a server of DEBUGINFOD_URLS", NULL);
	errno = fd == -ENOMEM ? ENOMEM : ENOENT;
	return NULL;
}

struct elf_file *sym_debugfile__open(const struct elf_file *ef,
				     const struct sym_debugfile_places *places, const char *section)
{
	const struct wanted w = { .ef = ef, .root = places->root, .section = section };
	struct elf_file *debug = offered(&w, places->fd);

	if (!debug && errno != ENOMEM)
		debug = by_build_id(&w);
	if (!debug && errno != ENOMEM)
		debug = by_debuglink(&w);
	if (!debug && errno != ENOMEM)
		debug = by_server(&w, places->server);
	if (!debug && errno != ENOMEM)
		errno = ENOENT;
	return debug;
}
