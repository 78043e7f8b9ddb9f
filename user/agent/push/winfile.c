// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/winfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MAGIC	  0x0131766e69577970ULL /* "pyWinv1\1" where it is read as it was written */
#define HEX	  "0123456789abcdef"
#define CRC_START offsetof(struct head, label_cnt)

/* In the byte order of the machine; another order has another magic. */
struct head {
	uint64_t magic;
	uint32_t crc; /* of all behind it */
	uint32_t label_cnt;
	uint64_t start_unix_ns, duration_ns, samples;
	uint32_t frequency_hz;
	uint32_t labels_size;
	uint64_t pprof_size;
	char id[WINDOW_ID_LEN];
};

_Static_assert(sizeof(struct head) == 88, "no padding: all of it is written");

static bool is_id(const char *id)
{
	return strspn(id, HEX) == WINDOW_ID_LEN && !id[WINDOW_ID_LEN];
}

static int labels_size(const struct window *w, uint32_t *size)
{
	size_t sum = 0;

	if (w->label_cnt > WINFILE_LABELS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < w->label_cnt; i++) {
		if (!window_label__valid(w->labels[i].name))
			return -EINVAL;
		sum += strlen(w->labels[i].name) + strlen(w->labels[i].value) + 2;
		if (sum > WINFILE_LABELS_MAX_SIZE)
			return -EINVAL;
	}
	*size = (uint32_t)sum;
	return 0;
}

static uint32_t checksum(const char *data, size_t size)
{
	return (uint32_t)crc32_z(0, (const Bytef *)data + CRC_START, size - CRC_START);
}

int winfile__pack(const struct window *w, struct strbuf *out)
{
	struct head h = {
		.magic = MAGIC,
		.label_cnt = (uint32_t)w->label_cnt,
		.start_unix_ns = w->start_unix_ns,
		.duration_ns = w->duration_ns,
		.samples = w->samples,
		.frequency_hz = w->frequency_hz,
		.pprof_size = w->pprof_size,
	};
	size_t first = out->len;

	if (!is_id(w->id) || !w->pprof_size || w->pprof_size > WINFILE_PPROF_MAX_SIZE ||
	    labels_size(w, &h.labels_size))
		return -EINVAL;
	memcpy(h.id, w->id, sizeof(h.id));
	strbuf__add(out, &h, sizeof(h));
	for (size_t i = 0; i < w->label_cnt; i++) {
		strbuf__add(out, w->labels[i].name, strlen(w->labels[i].name) + 1);
		strbuf__add(out, w->labels[i].value, strlen(w->labels[i].value) + 1);
	}
	strbuf__add(out, w->pprof, w->pprof_size);
	if (!out->err) {
		h.crc = checksum(out->s + first, out->len - first);
		memcpy(out->s + first + offsetof(struct head, crc), &h.crc, sizeof(h.crc));
	}
	return 0;
}

/* The string at *s, which ends before `end`; moves *s behind it. NULL: it does not end. */
static const char *next_string(const char **s, const char *end)
{
	const char *string = *s, *nul = memchr(string, 0, (size_t)(end - string));

	if (!nul)
		return NULL;
	*s = nul + 1;
	return string;
}

static int unpack_labels(struct winfile *f, uint32_t cnt, const char *s, const char *end)
{
	for (uint32_t i = 0; i < cnt; i++) {
		struct label *l = &f->labels[i];

		l->name = next_string(&s, end);
		l->value = l->name ? next_string(&s, end) : NULL;
		if (!l->value || !window_label__valid(l->name))
			return -EBADMSG;
	}
	return s == end ? 0 : -EBADMSG;
}

/* `size`: of the data that is there, of the `whole`. */
static int unpack(struct winfile *f, const void *data, size_t size, uint64_t whole)
{
	const char *labels = (const char *)data + sizeof(struct head);
	struct head h;

	if (size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (h.magic != MAGIC || h.label_cnt > WINFILE_LABELS_MAX ||
	    h.labels_size > WINFILE_LABELS_MAX_SIZE || !h.pprof_size ||
	    h.pprof_size > WINFILE_PPROF_MAX_SIZE ||
	    whole != sizeof(h) + h.labels_size + h.pprof_size || size < sizeof(h) + h.labels_size)
		return -EBADMSG;
	f->w = (struct window){
		.start_unix_ns = h.start_unix_ns,
		.duration_ns = h.duration_ns,
		.labels = f->labels,
		.label_cnt = h.label_cnt,
		.samples = h.samples,
		.frequency_hz = h.frequency_hz,
		.pprof = size == whole ? labels + h.labels_size : NULL,
		.pprof_size = h.pprof_size,
	};
	memcpy(f->w.id, h.id, sizeof(h.id));
	if (!is_id(f->w.id))
		return -EBADMSG;
	return unpack_labels(f, h.label_cnt, labels, labels + h.labels_size);
}

static bool is_as_written(const void *data, size_t size)
{
	struct head h;

	if (size < sizeof(h))
		return false;
	memcpy(&h, data, sizeof(h));
	return h.crc == checksum(data, size);
}

int winfile__unpack(struct winfile *f, void *data, size_t size)
{
	int err;

	f->data = data;
	err = is_as_written(data, size) ? unpack(f, data, size, size) : -EBADMSG;
	if (err)
		winfile__free(f);
	return err;
}

int winfile__peek(struct winfile *f, const void *data, size_t size, uint64_t whole)
{
	f->data = NULL;
	return unpack(f, data, size < whole ? size : whole, whole);
}

void winfile__free(struct winfile *f)
{
	free(f->data);
	f->data = NULL;
}
