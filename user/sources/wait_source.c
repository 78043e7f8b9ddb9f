/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Waiting: the time of threads off the CPUs (-e off-cpu), and all of their time (-e wall). The
 * programs in the scheduler are an object of their own (bpf/wait.bpf.c). `wall` is that and samples
 * of the CPU clock, counted in one value type.
 *
 * Who waits for a GIL, and who has it (-e gil), is another object (bpf/gil.bpf.c), whose programs
 * have the same names. It has a program at the CPU clock, too, and counts in two value types. That
 * of holders is a source that does nothing by itself.
 */
#include "sources/sources.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gil.skel.h"
#include "process/waitword.h"
#include "pyperf.skel.h"
#include "sources/side_object.h"
#include "wait.skel.h"
#include "wakers.skel.h"

SIDE_SAME_BSS(wait_bpf__bss);
SIDE_SAME_BSS(gil_bpf__bss);
SIDE_SAME_BSS(wakers_bpf__bss);

#define WAIT_OBJECT   2 /* see pyperf_cfg.object */
#define GIL_OBJECT    4
#define WAKERS_OBJECT 7

struct waiting {
	struct wait_bpf *wait; /* one of them */
	struct gil_bpf *gil;
	struct wakers_bpf *wakers;
	struct side_object side;
	struct wait_state state;
	uint64_t stopped_ns; /* 0: not yet */
	/* The clock of wall and of holders; its source is NULL if there is none. */
	struct source_use clock;
};

/* ---- the object ------------------------------------------------------------------------------ */

static void configure(const struct source_use *u, struct wait_cfg *cfg)
{
	cfg->type = u->type;
	cfg->least_ns = u->least_ns;
	for (uint32_t nr = 0; nr < WAIT_CALLS; nr++)
		cfg->call[nr] = wait_class_of(nr);
}

static uint64_t step_ns(const struct source_use *u)
{
	uint64_t ns = NS_PER_S / u->frequency_hz * u->slowed;

	return ns < u->least_ns ? u->least_ns : ns; /* all that count are exact */
}

/* The parts of all skeletons. `skel` NULL: it could not be opened, see errno. */
struct parts {
	struct bpf_object_skeleton *skel;
	struct wait_cfg *wait_cfg;
	struct pyperf_cfg *cfg;
	uint32_t number;
};

#define PARTS(x, n)                                                                                \
	(struct parts)                                                                             \
	{                                                                                          \
		.skel = (x)->skeleton, .wait_cfg = (struct wait_cfg *)&(x)->rodata->wait_cfg,      \
		.cfg = (struct pyperf_cfg *)&(x)->rodata->cfg, .number = (n)                       \
	}

static bool is_gil(const struct source_use *u)
{
	return u->spec.source->type.event == EVENT_GIL;
}

static bool counts_wakers(const struct source_use *u)
{
	return u->spec.source->type.event == EVENT_WAKERS;
}

static struct parts open_parts(struct source_use *u, const struct bpf_object_open_opts *opts)
{
	struct waiting *x = u->state;

	if (is_gil(u)) {
		x->gil = gil_bpf__open_opts(opts);
		return x->gil ? PARTS(x->gil, GIL_OBJECT) : (struct parts){ .skel = NULL };
	}
	if (counts_wakers(u)) {
		x->wakers = wakers_bpf__open_opts(opts);
		return x->wakers ? PARTS(x->wakers, WAKERS_OBJECT) : (struct parts){ .skel = NULL };
	}
	x->wait = wait_bpf__open_opts(opts);
	return x->wait ? PARTS(x->wait, WAIT_OBJECT) : (struct parts){ .skel = NULL };
}

static int open_object(struct source_use *u, const struct world *w)
{
	struct waiting *x = u->state;
	struct parts p = open_parts(u, side_object__begin(&x->side, w));

	if (!p.skel)
		return -errno;
	configure(u, p.wait_cfg);
	u->side = &x->side;
	return side_object__load(&x->side, p.skel, p.cfg, p.number);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The program of wall is the sampler's. */
static int open_clock(struct source_use *u, const struct world *w)
{
	struct waiting *x = u->state;
	struct world ours = *w;

	if (u->spec.source->type.event == EVENT_OFF_CPU || counts_wakers(u))
		return 0;
	if (x->gil)
		ours.samplers[u->type] = x->gil->progs.on_clock;
	x->clock = *u;
	x->clock.state = NULL;
	x->clock.period = 0;
	x->clock.spec = (struct source_spec){ .source = source__of_event(EVENT_CPU_CLOCK) };
	return x->clock.spec.source->open(&x->clock, &ours);
}

static int wait_open(struct source_use *u, const struct world *w)
{
	struct waiting *x = calloc(1, sizeof(*x));
	int err;

	u->state = x;
	if (!x)
		return log_no_memory();
	if (is_gil(u))
		u->least_ns = 0; /* of other waits */
	err = open_object(u, w);
	if (err) {
		log_err("the BPF object of waits: %s", strerror(-err));
		return err;
	}
	return open_clock(u, w);
}

static const struct bpf_program *program(const struct waiting *x, const char *name)
{
	return bpf_object__find_program_by_name(x->side.obj, name);
}

static int attach(struct waiting *x, const char *name)
{
	return loader__attach(x->side.loader, program(x, name));
}

/*
 * Attaches the program where this kernel lets it take a stack: see bpf/wait.bpf.c. PYPERF_BPF_LATE
 * is for tests.
 */
static int attach_taker(struct waiting *x)
{
	int err = getenv("PYPERF_BPF_LATE") ? -ENOENT : attach(x, "on_scheduled");

	if (!err)
		return 0;
	log_debug("sched_exit_tp: %s; stacks are taken at the end of system calls", strerror(-err));
	x->state.flags |= WAIT_LATE;
	return attach(x, "on_sys_exit");
}

static int tell_state(const struct waiting *x)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(side_object__map_fd(&x->side, "wait_states"), &zero, &x->state,
				   BPF_ANY);
}

/* The end comes first: nothing may expire for ever. */
static int attach_timers(struct waiting *x)
{
	static const char *const programs[] = { "on_hrtimer_expired", "on_hrtimer_expiry",
						"on_timer_expired", "on_timer_expiry" };
	int err = 0;

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]) && !err; i++)
		err = attach(x, programs[i]);
	return err;
}

/* The scheduler's program comes last. Wakers are on a CPU when they are seen. */
static int attach_all(struct waiting *x)
{
	int err = x->wakers ? attach_timers(x) : attach_taker(x);

	if (!err)
		err = tell_state(x);
	if (!err)
		err = attach(x, "on_thread_exit");
	if (!err)
		err = attach(x, "on_thread_exec");
	if (!err)
		err = attach(x, "on_waking");
	if (!err)
		err = attach(x, "on_switch");
	if (err)
		log_err("attaching the programs of waits: %s", strerror(-err));
	return err;
}

static int start_waits(struct waiting *x)
{
	int err = side_object__ready(&x->side, program(x, "on_waited"), "waits");

	return err ? err : attach_all(x);
}

static int wait_start(struct source_use *u)
{
	struct waiting *x = u->state;
	int err;

	x->state = (struct wait_state){ .since_ns = now_ns(), .step_ns = step_ns(u) };
	err = start_waits(x);

	if (!err && x->clock.spec.source)
		err = x->clock.spec.source->start(&x->clock);
	return err;
}

static int wait_set_rate(struct source_use *u)
{
	struct waiting *x = u->state;
	int err;

	x->state.step_ns = step_ns(u);
	err = tell_state(x);
	if (err || !x->clock.spec.source)
		return err;
	x->clock.frequency_hz = u->frequency_hz;
	x->clock.slowed = u->slowed;
	return x->clock.spec.source->set_rate(&x->clock);
}

static int wait_cpus(struct source_use *u, const bool *online)
{
	struct waiting *x = u->state;

	return x->clock.spec.source ? x->clock.spec.source->cpus(&x->clock, online) : 0;
}

static int wait_asleep(const struct source_use *u, struct source_asleep *out)
{
	const struct waiting *x = u->state;

	if (!x->wait || !x->state.since_ns)
		return -ENOENT;
	*out = (struct source_asleep){
		.threads_fd = side_object__map_fd(&x->side, "waits"),
		.counted_fd = side_object__map_fd(&x->side, "counted_waits"),
		.refusals_fd = side_object__map_fd(&x->side, "refusals"),
		.type = u->type,
		.since_ns = x->state.since_ns,
		.until_ns = x->stopped_ns,
		.step_ns = x->state.step_ns,
		.least_ns = u->least_ns,
	};
	return 0;
}

static int wait_tell(struct source_use *u, uint64_t until_ns)
{
	struct waiting *x = u->state;

	x->state.counted_ns = until_ns;
	return x->wait ? tell_state(x) : 0;
}

static void wait_stop(struct source_use *u)
{
	struct waiting *x = u->state;

	if (!x)
		return;
	if (x->clock.spec.source)
		x->clock.spec.source->stop(&x->clock);
	if (x->state.since_ns && !x->stopped_ns)
		x->stopped_ns = now_ns();
	loader__detach(x->side.loader);
}

static void wait_close(struct source_use *u)
{
	struct waiting *x = u->state;

	if (!x)
		return;
	wait_stop(u);
	if (x->clock.spec.source)
		x->clock.spec.source->close(&x->clock);
	side_object__end(&x->side);
	wait_bpf__destroy(x->wait);
	gil_bpf__destroy(x->gil);
	wakers_bpf__destroy(x->wakers);
	free(x);
	u->state = NULL;
}

/* Raw tracepoints are in every kernel that can load the sampler. */
static const char *check(const struct source *s)
{
	(void)s;
	return NULL;
}

#define WAITS(id)                                                                                  \
	.type = { .event = EVENT_##id }, .open = wait_open, .start = wait_start,                   \
	.set_rate = wait_set_rate, .cpus = wait_cpus, SIDE_SOURCE, .asleep = wait_asleep,          \
	.tell = wait_tell, .stop = wait_stop, .close = wait_close, .check = check

/* See open_clock(). */
#define BESIDE_CLOCK .perf = true, .kind = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK

const struct source wait_sources[] = {
	{ WAITS(OFF_CPU) },
	{ WAITS(WALL), BESIDE_CLOCK },
	{ WAITS(WAKERS) },
	{ WAITS(GIL), BESIDE_CLOCK, .with = EVENT_GIL_HELD },
	{ .type = { .event = EVENT_GIL_HELD }, .of = EVENT_GIL, SOURCE_COMPANION, .check = check },
	{ .check = NULL },
};
