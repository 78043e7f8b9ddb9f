/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/source_set.h"

int source_set__open(struct source_set *set, const struct sample_spec *spec, const struct world *w)
{
	int err = 0;

	for (set->cnt = 0; set->cnt < spec->source_cnt && !err; set->cnt++) {
		struct source_use *use = &set->by[set->cnt];
		const struct value_type *type = &spec->sources[set->cnt].source->type;
		bool clock = value_type__is_clock(type) || value_type__is_time(type);

		*use = (struct source_use){
			.spec = spec->sources[set->cnt],
			.type = set->cnt,
			.frequency_hz = spec->frequency_hz,
			.period = clock ? 0 : spec->period,
			.least_ns = spec->wait_min_ns,
			.slowed = 1,
		};
		err = use->spec.source->open(use, w);
	}
	return err;
}

void source_set__close(struct source_set *set)
{
	source_set__stop(set);
	for (uint32_t i = 0; i < set->cnt; i++)
		set->by[i].spec.source->close(&set->by[i]);
	*set = (struct source_set){ 0 };
}

int source_set__start(struct source_set *set)
{
	int err = 0;

	set->started = true;
	for (uint32_t i = 0; i < set->cnt && !err; i++)
		err = set->by[i].spec.source->start(&set->by[i]);
	if (err)
		source_set__stop(set);
	return err;
}

uint32_t source_set__blobs(const struct source_set *set, int fds[SAMPLED_MAX])
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < set->cnt; i++) {
		const struct source *s = set->by[i].spec.source;
		int fd = s->blobs ? s->blobs(&set->by[i]) : -1;

		if (fd >= 0)
			fds[cnt++] = fd;
	}
	return cnt;
}

void source_set__counters(const struct source_set *set, uint64_t counters[CTR_CNT])
{
	for (uint32_t i = 0; i < set->cnt; i++)
		if (set->by[i].spec.source->counters)
			set->by[i].spec.source->counters(&set->by[i], counters);
}

void source_set__stop(struct source_set *set)
{
	for (uint32_t i = 0; i < set->cnt && set->started; i++)
		set->by[i].spec.source->stop(&set->by[i]);
	set->started = false;
}

/* Sets the rate of the first `*end` sources. 0, or the first error, at which `*end` stops. */
static int set_rate(struct source_set *set, uint32_t *end, uint32_t frequency_hz, uint32_t slowed)
{
	uint32_t cnt = *end;

	for (*end = 0; *end < cnt; (*end)++) {
		struct source_use *use = &set->by[*end];
		int err = 0;

		use->frequency_hz = frequency_hz;
		use->slowed = slowed;
		if (use->spec.source->set_rate)
			err = use->spec.source->set_rate(use);
		if (err)
			return err;
	}
	return 0;
}

int source_set__set_rate(struct source_set *set, uint32_t frequency_hz, uint32_t slowed)
{
	uint32_t old_hz = set->by[0].frequency_hz, old_slowed = set->by[0].slowed, end = set->cnt;
	int err = set_rate(set, &end, frequency_hz, slowed);

	if (!err)
		return 0;
	end++; /* part of the one that failed was changed, too */
	set_rate(set, &end, old_hz, old_slowed);
	return err;
}

int source_set__cpus(struct source_set *set, const bool *online)
{
	int first = 0;

	for (uint32_t i = 0; i < set->cnt && set->started; i++) {
		const struct source *s = set->by[i].spec.source;
		int err = s->cpus ? s->cpus(&set->by[i], online) : 0;

		first = first ? first : err;
	}
	return first;
}
