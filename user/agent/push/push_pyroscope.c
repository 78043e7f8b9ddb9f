// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Pyroscope: push.v1.PusherService/Push as a Connect unary call (the message is the body), and the
 * older /ingest, to which the pprof file goes as it is. Labels become labels of the series; those
 * that begin with "__" are the backend's.
 */
#include "agent/push/push_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/push/push_values.h"
#include "agent/push/winfile.h"
#include "base/clock.h"
#include "agent/push/pyroscope.pb-c.h"

#define UUID_LEN 36

/* 8-4-4-4-12 digits. */
static void make_uuid(char uuid[UUID_LEN + 1], const char *id)
{
	static const int lengths[] = { 8, 4, 4, 4, 12 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memcpy(uuid, id, (size_t)lengths[i]);
		uuid += lengths[i];
		id += lengths[i];
		*uuid++ = '-';
	}
	uuid[-1] = 0;
}

struct adding {
	const struct window *w;
	struct push_message *m;
};

static int add_value(void *ctx, const struct push_value *v)
{
	struct push_message *m = ((struct adding *)ctx)->m;
	Pyroscope__LabelPair pairs[PUSH_SERIES_LABELS], *list[PUSH_SERIES_LABELS];
	struct label labels[PUSH_SERIES_LABELS];
	Pyroscope__RawProfileSeries series = PYROSCOPE__RAW_PROFILE_SERIES__INIT, *one = &series;
	Pyroscope__RawSample sample = PYROSCOPE__RAW_SAMPLE__INIT, *sample_list = &sample;
	Pyroscope__PushRequest request = PYROSCOPE__PUSH_REQUEST__INIT;
	char uuid[UUID_LEN + 1];

	series.n_labels = push_series_labels(((struct adding *)ctx)->w, v->name, labels);
	for (size_t i = 0; i < series.n_labels; i++) {
		list[i] = &pairs[i];
		pyroscope__label_pair__init(list[i]);
		list[i]->name = (char *)labels[i].name;
		list[i]->value = (char *)labels[i].value;
	}
	make_uuid(uuid, v->id);
	sample.raw_profile = (ProtobufCBinaryData){ v->size, (uint8_t *)v->pprof };
	sample.id = uuid;
	series.labels = list;
	series.n_samples = 1;
	series.samples = &sample_list;
	request.n_series = 1;
	request.series = &one;
	push_pack(&m->body, &request.base);
	return m->body.err;
}

static int add_window(const struct window *w, struct push_message *m)
{
	struct adding a = { w, m };

	return push_values(w, add_value, &a);
}

static int encode_push(const struct push_config *c, const struct window *const *windows, size_t cnt,
		       struct push_message *m)
{
	(void)c;
	return push_encode_each(windows, cnt, m, add_window);
}

const struct push_kind push_pyroscope = {
	.name = "pyroscope",
	.path = "/push.v1.PusherService/Push",
	.content_type = "application/proto",
	.many = true,
	.encode = encode_push,
};

/* ---- /ingest --------------------------------------------------------------------------------- */

/* NAME{label=value,...}: there is no way to write what would end a part. */
static void add_part(struct strbuf *to, const char *s, const char *ends)
{
	for (; *s; s++)
		strbuf__addc(to, strchr(ends, *s) ? '_' : *s);
}

static int encode_ingest(const struct push_config *c, const struct window *const *windows,
			 size_t cnt, struct push_message *m)
{
	const struct window *w = windows[0];
	const char *service = window__label(w, "service_name");
	uint64_t start = w->start_unix_ns / NS_PER_S;
	struct strbuf name = { 0 };

	(void)c;
	(void)cnt;
	add_part(&name, service && *service ? service : "unknown", "{}=, ");
	strbuf__addc(&name, '{');
	for (size_t i = 0, cnt = 0; i < w->label_cnt; i++) {
		if (push_label_is_private(&w->labels[i]))
			continue;
		strbuf__addf(&name, "%s%s=", cnt++ ? "," : "", w->labels[i].name);
		add_part(&name, w->labels[i].value, "},");
	}
	strbuf__addc(&name, '}');
	strbuf__addz(&m->url, "?format=pprof&spyName=pyperf-bpf&units=samples&name=");
	if (!name.err)
		push_escape(&m->url, name.s);
	strbuf__addf(&m->url, "&from=%" PRIu64 "&until=%" PRIu64 "&sampleRate=%" PRIu32, start,
		     start + (uint64_t)(w->duration_ns / NS_PER_S), w->frequency_hz);
	strbuf__add(&m->body, w->pprof, w->pprof_size);
	strbuf__free(&name);
	return name.err;
}

const struct push_kind push_pyroscope_ingest = {
	.name = "pyroscope-ingest",
	.path = "/ingest",
	.content_type = "application/octet-stream",
	.vague = 422, /* all that is wrong behind its door, also "service is unavailable" */
	.encode = encode_ingest,
};
