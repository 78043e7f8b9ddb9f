/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/tracepoints.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

#define PREFIX	  "btf_trace_"
#define TEXT_MAX  (64U << 20)
#define NAMES_MAX 65536

static int read_at(int fd, void *to, size_t size, uint64_t offset)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = pread(fd, (char *)to + at, size - at, (off_t)(offset + at));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* The names of all types, one behind the other, each with its end. */
static int read_text(struct tracepoint_names *n, int fd, size_t *size)
{
	struct btf_header h;
	int err = read_at(fd, &h, sizeof(h), 0);

	if (err)
		return err;
	if (h.magic != BTF_MAGIC || h.version != BTF_VERSION || !h.str_len || h.str_len > TEXT_MAX)
		return -EINVAL;
	n->text = malloc(h.str_len);
	if (!n->text)
		return -ENOMEM;
	*size = h.str_len;
	err = read_at(fd, n->text, h.str_len, (uint64_t)h.hdr_len + h.str_off);
	n->text[h.str_len - 1] = '\0';
	return err;
}

static int find_names(struct tracepoint_names *n, size_t size)
{
	size_t cap = 0;

	for (size_t at = 0, len; at < size; at += len + 1) {
		len = strlen(n->text + at);
		if (strncmp(n->text + at, PREFIX, strlen(PREFIX)) != 0)
			continue;
		if (ARRAY_GROW(n->names, cap, n->cnt, NAMES_MAX))
			return -ENOMEM;
		n->names[n->cnt++] = n->text + at + strlen(PREFIX);
	}
	return 0;
}

int tracepoint_names__read(struct tracepoint_names *n, const char *btf_path)
{
	int fd = open(btf_path, O_RDONLY | O_CLOEXEC), err;
	size_t size = 0;

	*n = (struct tracepoint_names){ 0 };
	if (fd < 0)
		return -errno;
	err = read_text(n, fd, &size);
	close(fd);
	return err ? err : find_names(n, size);
}

void tracepoint_names__free(struct tracepoint_names *n)
{
	free(n->names);
	free(n->text);
	*n = (struct tracepoint_names){ 0 };
}
