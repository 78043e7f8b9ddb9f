// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/push_kind.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

struct sink {
	ProtobufCBuffer base;
	struct strbuf *to;
};

static void sink_append(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
	strbuf__add(((struct sink *)buffer)->to, data, len);
}

void push_pack(struct strbuf *to, const struct ProtobufCMessage *message)
{
	struct sink sink = { .base = { .append = sink_append }, .to = to };

	protobuf_c_message_pack_to_buffer(message, &sink.base);
}

bool push_label_is_private(const struct label *l)
{
	return !strncmp(l->name, "__", 2) || !*l->value;
}

size_t push_series_labels(const struct window *w, const char *name, struct label *out)
{
	size_t cnt = 0;

	out[cnt++] = (struct label){ .name = "__name__", .value = name };
	for (size_t i = 0; i < w->label_cnt && i < WINFILE_LABELS_MAX; i++)
		if (!push_label_is_private(&w->labels[i]))
			out[cnt++] = w->labels[i];
	return cnt;
}

int push_encode_each(const struct window *const *windows, size_t cnt, struct push_message *m,
		     int (*add)(const struct window *w, struct push_message *m))
{
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++)
		err = add(windows[i], m);
	return err;
}

void push_escape(struct strbuf *to, const char *s)
{
	/* RFC 3986, 2.3. */
	static const char unreserved[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

	for (; *s; s++) {
		if (strchr(unreserved, *s))
			strbuf__addc(to, *s);
		else
			strbuf__addf(to, "%%%02X", (unsigned char)*s);
	}
}
