/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_KIND_H
#define PYPERF_AGENT_PUSH_KIND_H
/*
 * What one kind of backend wants: a window becomes the address and the body of a request. No
 * network here, so encoders are tested by what they write.
 *
 *	push_put.c	  the pprof file, PUT to an address made of a template
 *	push_pyroscope.c  push.v1.PusherService/Push, and /ingest
 *	push_parca.c	  ProfileStoreService/WriteRaw over gRPC
 *	push_otlp.c	  ProfilesService/Export, over HTTP and over gRPC
 */
#include <stdbool.h>
#include <stddef.h>

#include "agent/push/push.h"
#include "agent/push/winfile.h"
#include "base/str.h"

struct push_message {
	struct strbuf url;  /* whole */
	struct strbuf body; /* not compressed and not framed: push_http.c does that */
};

struct push_kind {
	const char *name;
	const char *path; /* is put behind the url; NULL: encode() makes the address */
	const char *content_type;
	bool put;  /* PUT, not POST */
	bool grpc; /* framed, over HTTP/2 */
	int vague; /* a status that the backend also gives for trouble of its own; 0: none */
	/* compress the body unless told otherwise: what holds a pprof file is that already */
	bool gzip;
	bool many; /* one request may hold several windows, as there are several services */
	/*
	 * Without `many`, of one window. 0, -EINVAL: a window cannot be put into this format (after
	 * a message), or -ENOMEM.
	 */
	int (*encode)(const struct push_config *c, const struct window *const *windows, size_t cnt,
		      struct push_message *m);
	/*
	 * Looks into the body of a success. -EINVAL: it says that the window was refused, and `why`
	 * (which is empty and must be made safe by whoever shows it) says why. NULL: there is
	 * nothing to see.
	 */
	int (*check)(const void *body, size_t size, struct strbuf *why);
};

extern const struct push_kind push_put, push_pyroscope, push_pyroscope_ingest, push_parca,
	push_otlp, push_otlp_grpc;

/* NULL: no such kind. */
const struct push_kind *push_kind__find(const char *name);

/*
 * The labels of a series, for backends with Prometheus' data model: `name` as __name__, then labels
 * of the window, except empty ones and those that begin with "__", which are the backend's. `out`
 * has room for PUSH_SERIES_LABELS; the texts are borrowed. Returns how many there are.
 */
#define PUSH_SERIES_LABELS (WINFILE_LABELS_MAX + 1)
size_t push_series_labels(const struct window *w, const char *name, struct label *out);
/* Is a label left out of it? */
bool push_label_is_private(const struct label *l);
/*
 * Encodes windows into a message that is a list of series: messages one behind the other are one
 * message with the lists of all. 0 or the first error of `add`.
 */
int push_encode_each(const struct window *const *windows, size_t cnt, struct push_message *m,
		     int (*add)(const struct window *w, struct push_message *m));

/* Appends a protobuf message. */
struct ProtobufCMessage;
void push_pack(struct strbuf *to, const struct ProtobufCMessage *message);
/* Appends `s` as a part of a path or a query: all but unreserved characters as %XX. */
void push_escape(struct strbuf *to, const char *s);

#endif /* PYPERF_AGENT_PUSH_KIND_H */
