// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Parca: ProfileStoreService/WriteRaw over gRPC, which its one port also speaks without TLS. The
 * addresses of the pprof file are offsets in files, which is what "normalized" means.
 */
#include "agent/push/push_kind.h"

#include "agent/push/parca.pb-c.h"
#include "agent/push/push_values.h"

struct adding {
	const struct window *w;
	struct push_message *m;
};

static int add_value(void *ctx, const struct push_value *v)
{
	struct push_message *m = ((struct adding *)ctx)->m;
	Parca__Label messages[PUSH_SERIES_LABELS], *list[PUSH_SERIES_LABELS];
	struct label labels[PUSH_SERIES_LABELS];
	Parca__LabelSet set = PARCA__LABEL_SET__INIT;
	Parca__RawSample sample = PARCA__RAW_SAMPLE__INIT, *sample_list = &sample;
	Parca__RawProfileSeries series = PARCA__RAW_PROFILE_SERIES__INIT, *one = &series;
	Parca__WriteRawRequest request = PARCA__WRITE_RAW_REQUEST__INIT;

	set.n_labels = push_series_labels(((struct adding *)ctx)->w, v->name, labels);
	for (size_t i = 0; i < set.n_labels; i++) {
		list[i] = &messages[i];
		parca__label__init(list[i]);
		list[i]->name = (char *)labels[i].name;
		list[i]->value = (char *)labels[i].value;
	}
	sample.raw_profile = (ProtobufCBinaryData){ v->size, (uint8_t *)v->pprof };
	set.labels = list;
	series.labels = &set;
	series.n_samples = 1;
	series.samples = &sample_list;
	request.n_series = 1;
	request.series = &one;
	request.normalized = true;
	push_pack(&m->body, &request.base);
	return m->body.err;
}

static int add_window(const struct window *w, struct push_message *m)
{
	struct adding a = { w, m };

	return push_values(w, add_value, &a);
}

static int encode(const struct push_config *c, const struct window *const *windows, size_t cnt,
		  struct push_message *m)
{
	(void)c;
	return push_encode_each(windows, cnt, m, add_window);
}

const struct push_kind push_parca = {
	.name = "parca",
	.path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
	.content_type = "application/grpc+proto",
	.grpc = true,
	.many = true,
	.encode = encode,
};
