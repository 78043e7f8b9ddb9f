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
