/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/maps_parse.h"

#include <errno.h>
#include <string.h>

struct cursor {
	const char *p, *end;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* A number and the one character behind it. At most `digits_max` digits, so it cannot overflow. */
static bool take_hex(struct cursor *c, unsigned int digits_max, char behind, uint64_t *out)
{
	unsigned int n = 0;
	int d;

	for (*out = 0; c->p < c->end && (d = hex_digit(*c->p)) >= 0; c->p++, n++)
		*out = *out << 4 | (unsigned int)d;
	if (!n || n > digits_max || c->p == c->end || *c->p != behind)
		return false;
	c->p++;
	return true;
}

static bool take_decimal(struct cursor *c, uint64_t *out)
{
	const char *first = c->p;

	for (*out = 0; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
		if (__builtin_mul_overflow(*out, 10, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*c->p - '0'), out))
			return false;
	}
	return c->p > first;
}

static bool take_flag(struct cursor *c, char set, char unset, bool *out)
{
	if (c->p == c->end || (*c->p != set && *c->p != unset))
		return false;
	*out = *c->p++ == set;
	return true;
}

static bool take_blank(struct cursor *c)
{
	return c->p < c->end && *c->p++ == ' ';
}

int map_line__parse(struct map_line *line, const char *text, size_t len)
{
	struct cursor c = { text, text + len };
	uint64_t major, minor;

	*line = (struct map_line){ 0 };
	if (!take_hex(&c, 16, '-', &line->start) || !take_hex(&c, 16, ' ', &line->end) ||
	    !take_flag(&c, 'r', '-', &line->read) || !take_flag(&c, 'w', '-', &line->write) ||
	    !take_flag(&c, 'x', '-', &line->exec) || !take_flag(&c, 's', 'p', &line->shared) ||
	    !take_blank(&c) || !take_hex(&c, 16, ' ', &line->offset) ||
	    !take_hex(&c, 8, ':', &major) || !take_hex(&c, 8, ' ', &minor) ||
	    !take_decimal(&c, &line->inode) || line->start >= line->end)
		return -EINVAL;
	line->major = (uint32_t)major;
	line->minor = (uint32_t)minor;
	if (c.p < c.end && *c.p != ' ')
		return -EINVAL;
	/* Padded to a fixed column. The name begins with '/' or '[' (or a driver's own text), never
	 * with a blank.
	 */
	while (c.p < c.end && *c.p == ' ')
		c.p++;
	line->name = c.p;
	line->name_len = (size_t)(c.end - c.p);
	return 0;
}

bool maps__next(const char **text, size_t *len, const char **line, size_t *line_len)
{
	const char *newline = *len ? memchr(*text, '\n', *len) : NULL;

	if (!newline)
		return false;
	*line = *text;
	*line_len = (size_t)(newline - *text);
	*text = newline + 1;
	*len -= *line_len + 1;
	return true;
}

int map_line__path(const struct map_line *line, char *buf, size_t size)
{
	static const char gone[] = " (deleted)";
	size_t len = line->name_len, at = 0;

	if (!len || line->name[0] != '/')
		return -ENOENT;
	if (len > sizeof(gone) - 1 &&
	    !memcmp(line->name + len - (sizeof(gone) - 1), gone, sizeof(gone) - 1))
		len -= sizeof(gone) - 1;
	for (size_t i = 0; i < len; i++) {
		char c = line->name[i];

		if (c == '\\' && len - i >= 4 && !memcmp(line->name + i, "\\012", 4)) {
			c = '\n';
			i += 3;
		}
		if (at + 1 >= size)
			return -ENAMETOOLONG;
		buf[at++] = c;
	}
	buf[at] = '\0';
	return (int)at;
}

bool map_line__is_generated(const struct map_line *line)
{
	/* Anonymous, or a memfd, or /dev/zero: but not the vdso or vsyscall. */
	return line->exec && (line->name_len < 2 || memcmp(line->name, "[v", 2) != 0);
}

bool map_line__is_jitdump(const struct map_line *line)
{
	const char *name = memrchr(line->name, '/', line->name_len);
	const char *end = line->name + line->name_len;
	size_t digits = 0;

	if (!line->exec || !line->inode || !name || end - name < 5 || memcmp(name, "/jit-", 5) != 0)
		return false;
	for (name += 5; name < end && *name >= '0' && *name <= '9'; name++)
		digits++;
	return digits && end - name >= 5 && !memcmp(name, ".dump", 5);
}
