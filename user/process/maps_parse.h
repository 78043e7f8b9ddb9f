/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MAPS_PARSE_H
#define PYPERF_MAPS_PARSE_H
/*
 * Parses lines of /proc/PID/maps:
 *
 *	7f30a6a28000-7f30a6b7d000 r-xp 00028000 fe:00 1234      /usr/lib/libc.so.6
 *
 * The observed process chooses the name. The kernel writes a newline in it as \012 and appends "
 * (deleted)" to a name that is gone, but escapes neither a backslash nor a name that itself ends
 * so. So a name is only a hint, and device and inode alone identify the file.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_line {
	uint64_t start, end, offset;
	uint64_t inode;
	uint32_t major, minor;
	bool read, write, exec, shared;
	const char *name; /* borrowed from the text, not terminated; may be empty */
	size_t name_len;
};

/* Parses one line, without its newline. 0 or -EINVAL. */
int map_line__parse(struct map_line *line, const char *text, size_t len);

/*
 * Takes the next line off [*text, *text + *len). False: no complete line is left (the kernel
 * terminates every line, so the rest is damage).
 */
bool maps__next(const char **text, size_t *len, const char **line, size_t *line_len);

/*
 * The name without the kernel's suffix and escapes, as a path below /proc/PID/root. Returns its
 * length, or -ENOENT (not an absolute path), -ENAMETOOLONG. `buf` is terminated.
 */
int map_line__path(const struct map_line *line, char *buf, size_t size);

/*
 * For a mapping that is not of an ELF file: may it hold generated code? Is it a jitdump, which the
 * process maps so that profilers find it?
 */
bool map_line__is_generated(const struct map_line *line);
bool map_line__is_jitdump(const struct map_line *line);

#endif /* PYPERF_MAPS_PARSE_H */
