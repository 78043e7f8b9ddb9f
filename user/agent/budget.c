/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/budget.h"

#include <inttypes.h>

#include "base/log.h"

void budget__init(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz)
{
	*b = (struct budget){ 0 };
	budget__set(b, limits, frequency_hz);
}

void budget__set(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz)
{
	b->limits = *limits;
	b->frequency_cfg = b->frequency_hz = frequency_hz;
	b->stacks = limits->stacks;
	b->stretch = 1;
	b->last_hz = 0;
	b->model_periods = 0;
	b->calm_cpu = b->calm_memory = 0;
	b->give_back = false;
}

/* ---- processor ------------------------------------------------------------------------------- */

/* Cost of a period, in percent of a CPU. */
struct cost {
	double all, samples, limit;
};

static uint32_t floor_hz(const struct budget *b)
{
	return b->frequency_cfg < BUDGET_HZ_MIN ? b->frequency_cfg : BUDGET_HZ_MIN;
}

/*
 * Computes the cost of one Hz from this period and the last one, if only their frequencies differed
 * as far as we know.
 */
static void learn(struct budget *b, const struct cost *c)
{
	double hz = b->frequency_hz, most = c->samples / hz;

	b->model_periods -= b->model_periods > 0;
	if (b->last_hz && b->last_hz != b->frequency_hz) {
		b->per_hz = (b->last_samples - c->samples) / ((double)b->last_hz - hz);
		b->model_periods = BUDGET_MODEL;
	}
	/* The load may have changed: keep it between nothing and the whole cost. */
	b->per_hz = b->per_hz < 0 ? 0 : b->per_hz > most ? most : b->per_hz;
	b->last_hz = b->frequency_hz;
	b->last_samples = c->samples;
}

/* The cost of one Hz, or the most that it can be. */
static double per_hz(const struct budget *b, const struct cost *c)
{
	return b->model_periods ? b->per_hz : c->samples / b->frequency_hz;
}

static uint32_t higher(const struct budget *b)
{
	uint32_t hz = b->frequency_hz * 3 / 2;

	if (hz == b->frequency_hz)
		hz++;
	return hz < b->frequency_cfg ? hz : b->frequency_cfg;
}

/* The frequency that fits, as measured; before a measurement, a third less. */
static uint32_t lower(const struct budget *b, const struct cost *c)
{
	double fits = b->frequency_hz * 2 / 3;

	if (b->model_periods && b->per_hz > 0)
		fits = b->frequency_hz - (c->all - 0.9 * c->limit) / b->per_hz;
	if (fits < floor_hz(b))
		return floor_hz(b);
	return fits < b->frequency_hz ? (uint32_t)fits : b->frequency_hz;
}

static void slow_down(struct budget *b, const struct cost *c)
{
	uint32_t hz = lower(b, c);

	b->said_cpu = false;
	log_warn("%.2f%% of a CPU is more than the budget of %g%%: from %" PRIu32
		 " down to %" PRIu32 " Hz",
		 c->all, c->limit, b->frequency_hz, hz);
	b->frequency_hz = hz;
}

static void speed_up(struct budget *b)
{
	uint32_t hz = higher(b);

	b->calm_cpu = 0;
	log_info("the CPU budget of %g%% has room: from %" PRIu32 " up to %" PRIu32 " Hz",
		 b->limits.cpu_percent, b->frequency_hz, hz);
	b->frequency_hz = hz;
}

static void set_stretch(struct budget *b, uint32_t stretch)
{
	b->stretch = stretch;
	b->calm_cpu = 0;
	b->last_hz = 0;
}

/* Lowering the frequency has not helped, so it is not the cause. */
static bool was_in_vain(const struct budget *b, const struct cost *c)
{
	double at_cfg = c->all + b->per_hz * (b->frequency_cfg - b->frequency_hz);

	return b->model_periods && b->frequency_hz < b->frequency_cfg &&
	       b->per_hz * b->frequency_cfg < (at_cfg - c->limit) / 2;
}

static void say_no_help(struct budget *b, const struct cost *c)
{
	if (b->said_cpu)
		return;
	b->said_cpu = true;
	if (b->frequency_hz == floor_hz(b) && per_hz(b, c) * b->frequency_hz > c->all / 2)
		log_warn(
			"%.2f%% of a CPU is more than the budget of %g%%, and the frequency cannot "
			"be lower than %" PRIu32 " Hz",
			c->all, c->limit, b->frequency_hz);
	else
		log_warn("%.2f%% of a CPU is more than the budget of %g%%, most of it to follow "
			 "processes that start and end: neither a lower frequency nor longer "
			 "windows would help",
			 c->all, c->limit);
}

static void take_action(struct budget *b, const struct cost *c)
{
	double excess = c->all - c->limit, slope = per_hz(b, c);
	/* Cost of each window: names, encoding, storing. */
	double fixed = b->model_periods ? c->samples - slope * b->frequency_hz : c->samples;

	if (was_in_vain(b, c)) {
		log_warn("%.2f%% of a CPU is more than the budget of %g%%, of which sampling takes "
			 "%.2f%%: from %" PRIu32 " back up to %" PRIu32 " Hz",
			 c->all, c->limit, slope * b->frequency_hz, b->frequency_hz,
			 b->frequency_cfg);
		b->frequency_hz = b->frequency_cfg;
	} else if (b->frequency_hz > floor_hz(b) && slope * b->frequency_hz >= excess / 2) {
		slow_down(b, c);
	} else if (b->stretch < BUDGET_STRETCH_MAX && fixed >= excess / 4) {
		set_stretch(b, b->stretch * 2);
		log_warn("%.2f%% of a CPU is more than the budget of %g%%, and sampling is not the "
			 "cause: windows become %" PRIu32 " times as long",
			 c->all, c->limit, b->stretch);
	} else {
		say_no_help(b, c);
	}
}

/* ---- users ----------------------------------------------------------------------------------- */

#define USER_FOLLOWS 4 /* a user is cut by more than half only if samples are 1 / this of it */

static uint64_t bill_ns(const struct bill *x)
{
	return x->samples_ns + x->follow_ns;
}

static double percent(const struct budget_period *p, uint64_t ns)
{
	return p->duration_ns ? 100.0 * (double)ns / (double)p->duration_ns : 0;
}

static uint64_t sum_of(const struct budget_period *p, uint64_t most)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->user_cnt; i++)
		sum += bill_ns(&p->users[i]) < most ? bill_ns(&p->users[i]) : most;
	return sum;
}

/* If nobody may cost more than this, all of them together keep the limit. */
static uint64_t fair_ns(const struct budget_period *p, double limit)
{
	uint64_t room = (uint64_t)(limit / 100 * (double)p->duration_ns), low = 0, high = room;

	while (high - low > room / 1000 + 1) {
		uint64_t mid = low + (high - low) / 2;

		if (sum_of(p, mid) > room)
			high = mid;
		else
			low = mid;
	}
	return low;
}

/* More cuts would not make it cheaper: it follows processes, mostly. */
static bool is_at_its_least(const struct bill *x)
{
	return x->one_of >= BILL_ONE_OF_MAX ||
	       (x->one_of > 1 && x->samples_ns < bill_ns(x) / USER_FOLLOWS);
}

/* The users who cost more than their fair share. */
struct payers {
	const struct bill *most; /* the costliest; NULL: none */
	/* The costliest of whom fewer samples can be taken; NULL: none. */
	const struct bill *to_cut;
	uint64_t ns; /* all of them */
	bool others; /* some whose stacks are in the windows are not among them */
};

static bool is_more(const struct bill *x, const struct bill *than)
{
	return !than || bill_ns(x) > bill_ns(than);
}

static struct payers find_payers(const struct budget_period *p, double limit)
{
	uint64_t fair = fair_ns(p, limit);
	struct payers found = { 0 };

	for (size_t i = 0; i < p->user_cnt; i++) {
		const struct bill *x = &p->users[i];

		if (bill_ns(x) <= fair) {
			found.others |= x->stacks > 0;
			continue;
		}
		found.ns += bill_ns(x);
		if (is_more(x, found.most))
			found.most = x;
		if (!is_at_its_least(x) && is_more(x, found.to_cut))
			found.to_cut = x;
	}
	return found;
}

static void say_payer(struct budget *b, const struct cost *c, const struct budget_period *p,
		      const struct bill *x)
{
	if (!b->said_cpu)
		log_warn("%.2f%% of a CPU is more than the budget of %g%%, %.2f%% of it for user "
			 "%" PRIu32 ", most of it %s; the others are sampled as before",
			 c->all, c->limit, percent(p, bill_ns(x)), x->uid,
			 x->follow_ns > x->samples_ns ? "to follow processes that start and end"
						      : "for its stacks");
	b->said_cpu = true;
}

/* The user to cut. NULL: none can be. *done: nor must anybody else be. */
static const struct bill *cut_user(struct budget *b, const struct cost *c,
				   const struct budget_period *p, uint32_t *one_of, bool *done)
{
	struct payers found = find_payers(p, 0.9 * c->limit);
	const struct bill *x = found.to_cut;

	*done = found.others && (x || (found.most && c->all - percent(p, found.ns) <= c->limit));
	if (!*done)
		return NULL;
	if (!x) {
		say_payer(b, c, p, found.most);
		return NULL;
	}
	*one_of = x->one_of * 2;
	log_warn("%.2f%% of a CPU is more than the budget of %g%%, %.2f%% of it for user %" PRIu32
		 ": one of %" PRIu32 " samples of that user is taken, which stands for all of them",
		 c->all, c->limit, percent(p, bill_ns(x)), x->uid, *one_of);
	return x;
}

/* The cheapest of the users that are cut. */
static const struct bill *find_cut(const struct budget_period *p)
{
	const struct bill *least = NULL;

	for (size_t i = 0; i < p->user_cnt; i++) {
		const struct bill *x = &p->users[i];

		if (x->one_of > 1 && (!least || bill_ns(x) < bill_ns(least)))
			least = x;
	}
	return least;
}

/* Would twice its samples fit into four fifths of the budget? */
static const struct bill *restore_user(struct budget *b, const struct cost *c,
				       const struct budget_period *p, uint32_t *one_of)
{
	const struct bill *x = find_cut(p);

	if (!x || c->all + percent(p, x->samples_ns) > 0.8 * c->limit) {
		b->calm_cpu = 0;
		return NULL;
	}
	if (++b->calm_cpu < BUDGET_CALM)
		return NULL;
	b->calm_cpu = 0;
	*one_of = x->one_of / 2;
	log_info("the CPU budget of %g%% has room: one of %" PRIu32 " samples of user %" PRIu32
		 " is taken",
		 c->limit, *one_of, x->uid);
	return x;
}

/* ---- judging a period ------------------------------------------------------------------------ */

/* Would the settings before the last change fit into four fifths of the budget? */
static void take_back(struct budget *b, const struct cost *c)
{
	double then = c->all;

	if (b->stretch > 1)
		then += c->samples;
	else if (b->model_periods)
		then += b->per_hz * (higher(b) - b->frequency_hz);
	else
		then = then * higher(b) / b->frequency_hz;
	if (then > 0.8 * c->limit) {
		b->calm_cpu = 0;
	} else if (++b->calm_cpu == BUDGET_CALM && b->stretch > 1) {
		set_stretch(b, b->stretch / 2);
		log_info("the CPU budget of %g%% has room: windows are %" PRIu32
			 " times as long as configured",
			 c->limit, b->stretch);
	} else if (b->calm_cpu == BUDGET_CALM) {
		speed_up(b);
	}
}

const struct bill *budget__cpu(struct budget *b, const struct budget_period *p, uint32_t *one_of)
{
	struct cost c = { .all = percent(p, p->used_ns),
			  .samples = percent(p, p->samples_ns),
			  .limit = b->limits.cpu_percent };
	const struct bill *user = NULL;
	bool done;

	if (b->periods++ < BUDGET_GRACE)
		return NULL;
	learn(b, &c);
	if (c.all > c.limit) {
		b->calm_cpu = 0;
		user = cut_user(b, &c, p, one_of, &done);
		if (!done)
			take_action(b, &c);
	} else {
		b->said_cpu = false;
		if (b->frequency_hz != b->frequency_cfg || b->stretch > 1)
			take_back(b, &c);
		else
			user = restore_user(b, &c, p, one_of);
	}
	if (user)
		b->last_hz = 0; /* the next period does not compare with this one */
	return user;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void take_less(struct budget *b, uint64_t mib)
{
	uint32_t stacks = b->stacks / 2 > BUDGET_STACKS_MIN ? b->stacks / 2 : BUDGET_STACKS_MIN;

	b->calm_memory = 0;
	if (!b->give_back) {
		log_warn("%" PRIu64 " MiB of memory are more than the budget of %" PRIu32
			 ": symbols are no longer kept",
			 mib, b->limits.memory_mib);
		b->give_back = true;
	} else if (stacks < b->stacks) {
		log_warn("%" PRIu64 " MiB of memory are more than the budget of %" PRIu32
			 ": from %" PRIu32 " down to %" PRIu32 " stacks in a period",
			 mib, b->limits.memory_mib, b->stacks, stacks);
		b->stacks = stacks;
	} else {
		if (!b->said_memory)
			log_warn("%" PRIu64 " MiB of memory are more than the budget of %" PRIu32
				 ", and no more of it can be freed",
				 mib, b->limits.memory_mib);
		b->said_memory = true;
	}
}

static void take_more(struct budget *b)
{
	b->calm_memory = 0;
	if (b->stacks < b->limits.stacks) {
		b->stacks = b->stacks < b->limits.stacks / 2 ? b->stacks * 2 : b->limits.stacks;
		log_info("the memory budget has room: up to %" PRIu32 " stacks in a period",
			 b->stacks);
	} else {
		log_info("the memory budget has room: symbols are kept");
		b->give_back = false;
	}
}

void budget__memory(struct budget *b, uint64_t bytes)
{
	uint64_t limit = (uint64_t)b->limits.memory_mib << 20;

	b->said_memory &= bytes > limit;
	if (bytes > limit)
		take_less(b, bytes >> 20);
	else if (!b->give_back || bytes > limit / 4 * 3)
		b->calm_memory = 0;
	else if (++b->calm_memory == BUDGET_CALM)
		take_more(b);
}
