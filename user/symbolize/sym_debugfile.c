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

#include "base/log.h"

#define DEBUGLINK_CRC_SZ (1ULL << 30)  /* a larger file is not read for its checksum */
#define CRC_SPARSE_SZ	 (16ULL << 20) /* nor a larger one that is mostly holes */

/* The debug file that is searched for. */
struct wanted {
	const struct elf_file *ef;
	const struct sym_debugfile_places *places;
	const char *section;
};

const struct sym_debugfile_places sym_debugfile_default = { .root = DEBUG_ROOT,
							    .offered = { .fd = -1 } };

static int file_crc(const struct opened *f, uint32_t *crc)
{
	struct stat st;
	uint64_t off = 0;
	uint8_t *buf;
	ssize_t n;

	if (opened__stat(f, &st) || (uint64_t)st.st_size > DEBUGLINK_CRC_SZ ||
	    ((uint64_t)st.st_size > CRC_SPARSE_SZ && st.st_blocks < st.st_size / 512 / 16))
		return -EFBIG;
	buf = malloc(65536);
	if (!buf)
		return -ENOMEM;
	*crc = (uint32_t)crc32(0, NULL, 0);
	while (off <= DEBUGLINK_CRC_SZ && (n = opened__read(f, buf, 65536, off)) > 0) {
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
	return crc && !file_crc(elf_file__opened(debug), &found) && found == *crc;
}

/* `file`, which is taken over, if it is the one; else NULL and errno. */
static struct elf_file *try_opened(const struct wanted *w, struct opened file, const char *path,
				   const uint32_t *crc)
{
	struct elf_file *debug = elf_file__open_opened(&file, path);
	int err = ENOENT;

	if (!debug)
		return NULL;
	if (is_ours(w->ef, debug, crc)) {
		if (elf_file__has(debug, w->section))
			return debug;
	} else {
		log_debug("%s: not the debug file of %s", path, elf_file__path(w->ef));
		err = EBADMSG;
	}
	elf_file__close(debug);
	errno = err;
	return NULL;
}

static struct elf_file *try_file(const struct wanted *w, const char *path, const uint32_t *crc)
{
	struct opened file;

	if (!opener__path(w->places->readers, elf_file__tenant(w->ef), path, &file))
		return try_opened(w, file, path, crc);
	errno = ENOENT;
	return NULL;
}

static struct elf_file *by_build_id(const struct wanted *w)
{
	char hex[2 * BUILD_ID_MAX + 1], path[PATH_MAX];

	elf_file__id_hex(w->ef, hex);
	errno = ENOENT;
	if (strlen(hex) < 4 || snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug",
					w->places->root, hex, hex + 2) >= (int)sizeof(path))
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
	const char *const prefix[] = { "", "", w->places->root }, *const sub[] = { "", ".debug/",
										   "" };
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

static struct elf_file *offered(const struct wanted *w)
{
	struct opened file = OPENED_NONE;

	if (w->places->offered.fd >= 0)
		file = opened__dup(&w->places->offered); /* it may be wanted again */
	if (file.fd >= 0)
		return try_opened(w, file, "the debug file in the process's root", NULL);
	errno = ENOENT;
	return NULL;
}

static struct elf_file *by_server(const struct wanted *w, struct sym_debuginfod *server)
{
	int fd = server ? sym_debuginfod__open(server, w->ef) : -ENOENT;

	struct elf_file *debug = NULL;
	char hex[2 * BUILD_ID_MAX + 1];

	if (fd < 0) {
		errno = fd == -ENOMEM ? ENOMEM : ENOENT;
		return NULL;
	}
	debug = try_opened(w, opened__of(fd), "a server of DEBUGINFOD_URLS", NULL);
	/* Also one of the right build id that lacks the section: it was cut. */
	if (!debug && errno != ENOMEM) {
		elf_file__id_hex(w->ef, hex);
		log_warn("debuginfod: %s, build id %s: the file from a server of "
			 "DEBUGINFOD_URLS is not the debug file",
			 elf_file__path(w->ef), hex);
		errno = ENOENT;
	}
	return debug;
}

struct elf_file *sym_debugfile__open(const struct elf_file *ef,
				     const struct sym_debugfile_places *places, const char *section)
{
	const struct wanted w = { .ef = ef, .places = places, .section = section };
	struct elf_file *debug = offered(&w);

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
