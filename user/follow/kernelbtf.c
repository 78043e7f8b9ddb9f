/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/kernelbtf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core_types.h" /* core_types[]: the names, in order; made from the object */

#define LAST_KIND    19 /* BTF_KIND_ENUM64; the record of a later kind has an unknown size */
#define KIND_ENUM64  19
#define KIND_DECLTAG 17

struct kernelbtf {
	const uint8_t *data; /* the whole file */
	size_t size;
	const uint8_t *types;
	const char *strs;
	uint32_t types_size, strs_size;
	/* by id */
	uint32_t *at; /* where its record begins */
	uint32_t cnt;
	uint32_t *copy; /* its id in the copy; 0: it is not there */
	/* in the copy */
	uint32_t *taken; /* ids, in order */
	uint32_t taken_cnt;
	/* what is written */
	uint8_t *out;
	char *out_strs;
	uint32_t out_size, out_strs_size;
	int err;
};

static unsigned kind_of(const struct btf_type *t)
{
	return BTF_INFO_KIND(t->info);
}

/* The size of the data after a record; negative: unknown. */
static long extra_size(const struct btf_type *t)
{
	uint32_t n = BTF_INFO_VLEN(t->info);

	switch (kind_of(t)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case KIND_DECLTAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case KIND_ENUM64:
		return (long)(n * sizeof(struct btf_member));
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return (long)(n * sizeof(struct btf_enum));
	}
	return kind_of(t) <= LAST_KIND ? 0 : -1;
}

static const struct btf_type *type_at(const struct kernelbtf *k, uint32_t id)
{
	return (const struct btf_type *)(k->types + k->at[id]);
}

static const char *name_of(const struct kernelbtf *k, uint32_t off)
{
	return off < k->strs_size ? k->strs + off : "";
}

static int read_all(int fd, uint8_t *to, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = read(fd, to + at, size - at);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Linux can map the file since 6.16. */
static int load_file(struct kernelbtf *k, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;
	void *at;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(struct btf_header)) {
		close(fd);
		return -EINVAL;
	}
	k->size = (size_t)st.st_size;
	at = mmap(NULL, k->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED) {
		at = mmap(NULL, k->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
		err = at == MAP_FAILED ? -ENOMEM : read_all(fd, at, k->size);
	}
	k->data = at == MAP_FAILED ? NULL : at;
	close(fd);
	return err;
}

static int parse_header(struct kernelbtf *k)
{
	const struct btf_header *h = (const void *)k->data;
	uint64_t types = (uint64_t)h->hdr_len + h->type_off,
		 strs = (uint64_t)h->hdr_len + h->str_off;

	if (h->magic != BTF_MAGIC || h->version != BTF_VERSION || types % 4 ||
	    types + h->type_len > k->size || strs + h->str_len > k->size || !h->str_len ||
	    k->data[strs + h->str_len - 1])
		return -EINVAL;
	k->types = k->data + types;
	k->types_size = h->type_len;
	k->strs = (const char *)k->data + strs;
	k->strs_size = h->str_len;
	/* No record is smaller. Of pages that are not written nothing is there. */
	k->at = malloc((k->types_size / sizeof(struct btf_type) + 1) * sizeof(*k->at));
	return k->at ? 0 : -ENOMEM;
}

static int find_types(struct kernelbtf *k)
{
	uint32_t at = 0;

	k->at[0] = 0; /* void has no record */
	k->cnt = 1;
	while (k->types_size - at >= sizeof(struct btf_type)) {
		long extra = extra_size((const struct btf_type *)(k->types + at));

		if (extra < 0)
			return -ENOTSUP;
		k->at[k->cnt++] = at;
		at += (uint32_t)sizeof(struct btf_type);
		if ((uint64_t)extra > k->types_size - at)
			return -EINVAL;
		at += (uint32_t)extra;
	}
	k->copy = calloc(k->cnt, sizeof(*k->copy));
	k->taken = malloc(k->cnt * sizeof(*k->taken));
	return k->copy && k->taken ? 0 : -ENOMEM;
}

/* The id in the copy; for a type that is new there, the next one. */
static uint32_t take(struct kernelbtf *k, uint32_t id)
{
	if (!id || id >= k->cnt)
		return 0;
	if (!k->copy[id]) {
		k->taken[k->taken_cnt++] = id;
		k->copy[id] = k->taken_cnt;
	}
	return k->copy[id];
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

static bool is_wanted(const struct kernelbtf *k, const struct btf_type *t)
{
	unsigned kind = kind_of(t);

	if (!t->name_off || (kind != BTF_KIND_STRUCT && kind != BTF_KIND_UNION &&
			     kind != BTF_KIND_ENUM && kind != KIND_ENUM64))
		return false;
	return bsearch(name_of(k, t->name_off), core_types,
		       sizeof(core_types) / sizeof(core_types[0]), sizeof(core_types[0]),
		       compare_names);
}

static void take_wanted(struct kernelbtf *k)
{
	for (uint32_t id = 1; id < k->cnt; id++)
		if (is_wanted(k, type_at(k, id)))
			take(k, id);
}

/* There is room for as much as all names of the kernel take. */
static uint32_t put_name(struct kernelbtf *k, uint32_t off)
{
	const char *name = name_of(k, off);
	uint32_t at = k->out_strs_size, len = (uint32_t)strlen(name) + 1;

	if (len == 1)
		return 0;
	if (len > k->strs_size - at) {
		k->err = -E2BIG;
		return 0;
	}
	memcpy(k->out_strs + at, name, len);
	k->out_strs_size += len;
	return at;
}

static void put_members(struct kernelbtf *k, struct btf_member *m, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		m[i].name_off = put_name(k, m[i].name_off);
		m[i].type = take(k, m[i].type);
	}
}

/* Values of enumerations; ENUM64's have one word more. */
static void put_values(struct kernelbtf *k, uint32_t *value, uint32_t cnt, uint32_t words)
{
	for (uint32_t i = 0; i < cnt; i++)
		value[i * words] = put_name(k, value[i * words]);
}

/* Behind the record, and the type that it refers to. */
static void put_references(struct kernelbtf *k, struct btf_type *t)
{
	uint32_t n = BTF_INFO_VLEN(t->info);
	void *extra = t + 1;

	switch (kind_of(t)) {
	case BTF_KIND_ARRAY: {
		struct btf_array *a = extra;

		a->type = take(k, a->type);
		a->index_type = take(k, a->index_type);
		break;
	}
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		put_members(k, extra, n);
		break;
	case BTF_KIND_ENUM:
		put_values(k, extra, n, 2);
		break;
	case KIND_ENUM64:
		put_values(k, extra, n, 3);
		break;
	case BTF_KIND_INT:
	case BTF_KIND_FLOAT:
	case BTF_KIND_FWD:
		break;
	case BTF_KIND_PTR:
		t->type = 0;
		break;
	default: /* qualifiers and typedefs */
		t->type = take(k, t->type);
	}
}

/* With all that they contain: taken_cnt grows meanwhile. */
static int copy_types(struct kernelbtf *k)
{
	k->out = malloc(k->types_size); /* each type once, at most */
	k->out_strs = malloc(k->strs_size);
	if (!k->out || !k->out_strs)
		return -ENOMEM;
	k->out_strs[0] = '\0';
	k->out_strs_size = 1;
	for (uint32_t i = 0; i < k->taken_cnt; i++) {
		const struct btf_type *t = type_at(k, k->taken[i]);
		struct btf_type *copy = (void *)(k->out + k->out_size);
		size_t size = sizeof(*t) + (size_t)extra_size(t);

		memcpy(copy, t, size);
		copy->name_off = put_name(k, copy->name_off);
		put_references(k, copy);
		k->out_size += (uint32_t)size;
	}
	return k->err;
}

static int write_copy(const struct kernelbtf *k)
{
	const struct btf_header h = {
		.magic = BTF_MAGIC,
		.version = BTF_VERSION,
		.hdr_len = sizeof(h),
		.type_len = k->out_size,
		.str_off = k->out_size,
		.str_len = k->out_strs_size,
	};
	const struct iovec parts[] = { { (void *)&h, sizeof(h) },
				       { k->out, k->out_size },
				       { k->out_strs, k->out_strs_size } };
	ssize_t size = (ssize_t)(sizeof(h) + k->out_size + k->out_strs_size);
	int fd = memfd_create("kernel-types", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (writev(fd, parts, 3) == size)
		return fd;
	close(fd);
	return -EIO;
}

static int make_copy(struct kernelbtf *k, const char *path)
{
	int err = load_file(k, path);

	if (!err)
		err = parse_header(k);
	if (!err)
		err = find_types(k);
	if (err)
		return err;
	take_wanted(k);
	err = k->taken_cnt ? copy_types(k) : -ENOENT;
	return err ? err : write_copy(k);
}

int kernelbtf__open(const char *path)
{
	struct kernelbtf k = { 0 };
	int fd = make_copy(&k, path);

	if (k.data)
		munmap((void *)k.data, k.size);
	free(k.at);
	free(k.copy);
	free(k.taken);
	free(k.out);
	free(k.out_strs);
	return fd;
}
