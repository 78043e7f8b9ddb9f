/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/uses.h"

int uses__open(struct uses *u, const struct sample_spec *spec, const struct world *w)
{
	int err = 0;

	for (u->cnt = 0; u->cnt < spec->source_cnt && !err; u->cnt++) {
		struct source_use *use = &u->by[u->cnt];
		const struct value_type *type = &spec->sources[u->cnt].source->type;
		bool clock = value_type__is_clock(type) || value_type__is_time(type);

		*use = (struct source_use){
			.spec = spec->sources[u->cnt],
			.type = u->cnt,
			.frequency_hz = spec->frequency_hz,
			.period = clock ? 0 : spec->period,
			.least_ns = spec->wait_min_ns,
			.slowed = 1,
		};
		err = use->spec.source->open(use, w);
	}
	return err;
}

void uses__close(struct uses *u)
{
	uses__stop(u);
	for (uint32_t i = 0; i < u->cnt; i++)
		u->by[i].spec.source->close(&u->by[i]);
	*u = (struct uses){ 0 };
}

int uses__start(struct uses *u)
{
	int err = 0;

	u->started = true;
	for (uint32_t i = 0; i < u->cnt && !err; i++)
		err = u->by[i].spec.source->start(&u->by[i]);
	if (err)
		uses__stop(u);
	return err;
}

uint32_t uses__blobs(const struct uses *u, int fds[SAMPLED_MAX])
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < u->cnt; i++) {
		const struct source *s = u->by[i].spec.source;
		int fd = s->blobs ? s->blobs(&u->by[i]) : -1;

		if (fd >= 0)
			fds[cnt++] = fd;
	}
	return cnt;
}

void uses__counters(const struct uses *u, uint64_t counters[CTR_CNT])
{
	for (uint32_t i = 0; i < u->cnt; i++)
		if (u->by[i].spec.source->counters)
			u->by[i].spec.source->counters(&u->by[i], counters);
}

void uses__stop(struct uses *u)
{
	for (uint32_t i = 0; i < u->cnt && u->started; i++)
		u->by[i].spec.source->stop(&u->by[i]);
	u->started = false;
}

/* Sets the rate of the first `*end` sources. 0, or the first error, at which `*end` stops. */
static int set_rate(struct uses *u, uint32_t *end, uint32_t frequency_hz, uint32_t slowed)
{
	uint32_t cnt = *end;

	for (*end = 0; *end < cnt; (*end)++) {
		struct source_use *use = &u->by[*end];
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

int uses__set_rate(struct uses *u, uint32_t frequency_hz, uint32_t slowed)
{
	uint32_t old_hz = u->by[0].frequency_hz, old_slowed = u->by[0].slowed, end = u->cnt;
	int err = set_rate(u, &end, frequency_hz, slowed);

	if (!err)
		return 0;
	end++; /* part of the one that failed was changed, too */
	set_rate(u, &end, old_hz, old_slowed);
	return err;
}

int uses__cpus(struct uses *u, const bool *online)
{
	int first = 0;

	for (uint32_t i = 0; i < u->cnt && u->started; i++) {
		const struct source *s = u->by[i].spec.source;
		int err = s->cpus ? s->cpus(&u->by[i], online) : 0;

		first = first ? first : err;
	}
	return first;
}
