// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Parca: ProfileStoreService/WriteRaw over gRPC, which its one port also speaks without TLS. The
 * pprof file goes as it is: its addresses are offsets in files, which is what "normalized" means.
 */
#include "agent/push/push_kind.h"

#include <string.h>

#include "agent/push/winfile.h"
#include "agent/push/parca.pb-c.h"

#define PROFILE_NAME "process_cpu"

static int add_window(const struct window *w, struct push_message *m)
{
	Parca__Label labels[WINFILE_LABELS_MAX + 1], *list[WINFILE_LABELS_MAX + 1];
	Parca__LabelSet set = PARCA__LABEL_SET__INIT;
	Parca__RawSample sample = PARCA__RAW_SAMPLE__INIT, *sample_list = &sample;
	Parca__RawProfileSeries series = PARCA__RAW_PROFILE_SERIES__INIT, *one = &series;
	Parca__WriteRawRequest request = PARCA__WRITE_RAW_REQUEST__INIT;

	parca__label__init(&labels[0]);
	labels[0].name = (char *)"__name__";
	labels[0].value = (char *)PROFILE_NAME;
	list[set.n_labels++] = &labels[0];
	for (size_t i = 0; i < w->label_cnt && i < WINFILE_LABELS_MAX; i++) {
		Parca__Label *l = &labels[set.n_labels];

		if (!strncmp(w->labels[i].name, "__", 2) || !*w->labels[i].value)
			continue;
		parca__label__init(l);
		l->name = (char *)w->labels[i].name;
		l->value = (char *)w->labels[i].value;
		list[set.n_labels++] = l;
	}
	sample.raw_profile = (ProtobufCBinaryData){ w->pprof_size, (uint8_t *)w->pprof };
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

/*
 * A request is a list of series: messages one behind the other are one message with the lists of
 * all.
 */
static int encode(const struct push_config *c, const struct window *const *windows, size_t cnt,
		  struct push_message *m)
{
	int err = 0;

	(void)c;
	for (size_t i = 0; i < cnt && !err; i++)
		err = add_window(windows[i], m);
	return err;
}

const struct push_kind push_parca = {
	.name = "parca",
	.path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
	.content_type = "application/grpc+proto",
	.grpc = true,
	.many = true,
	.encode = encode,
};
