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

static int load_waits(void *skel)
{
	return wait_bpf__load(skel);
}

static int load_gil(void *skel)
{
	return gil_bpf__load(skel);
}

static int load_wakers(void *skel)
{
	return wakers_bpf__load(skel);
}

/* The parts of all skeletons. `skel` NULL: it could not be opened, see errno. */
struct parts {
	void *skel;
	int (*load)(void *skel);
	struct bpf_object *obj;
	struct wait_cfg *wait_cfg;
	struct pyperf_cfg *cfg;
	uint32_t number;
};

static struct parts open_waits(struct waiting *x, const struct bpf_object_open_opts *opts)
{
	struct wait_bpf *skel = x->wait = wait_bpf__open_opts(opts);

	if (!skel)
		return (struct parts){ .skel = NULL };
	return (struct parts){ .skel = skel,
			       .load = load_waits,
			       .obj = skel->obj,
			       .wait_cfg = (struct wait_cfg *)&skel->rodata->wait_cfg,
			       .cfg = (struct pyperf_cfg *)&skel->rodata->cfg,
			       .number = WAIT_OBJECT };
}

static struct parts open_gil(struct waiting *x, const struct bpf_object_open_opts *opts)
{
	struct gil_bpf *skel = x->gil = gil_bpf__open_opts(opts);

	if (!skel)
		return (struct parts){ .skel = NULL };
	return (struct parts){ .skel = skel,
			       .load = load_gil,
			       .obj = skel->obj,
			       .wait_cfg = (struct wait_cfg *)&skel->rodata->wait_cfg,
			       .cfg = (struct pyperf_cfg *)&skel->rodata->cfg,
			       .number = GIL_OBJECT };
}

static struct parts open_wakers(struct waiting *x, const struct bpf_object_open_opts *opts)
{
	struct wakers_bpf *skel = x->wakers = wakers_bpf__open_opts(opts);

	if (!skel)
		return (struct parts){ .skel = NULL };
	return (struct parts){ .skel = skel,
			       .load = load_wakers,
			       .obj = skel->obj,
			       .wait_cfg = (struct wait_cfg *)&skel->rodata->wait_cfg,
			       .cfg = (struct pyperf_cfg *)&skel->rodata->cfg,
			       .number = WAKERS_OBJECT };
}

static bool is_gil(const struct source_use *u)
{
	return u->spec.source->type.event == EVENT_GIL;
}

static bool counts_wakers(const struct source_use *u)
{
	return u->spec.source->type.event == EVENT_WAKERS;
}

static int open_object(struct source_use *u, const struct world *w)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = NULL);
	struct waiting *x = u->state;
	struct parts p;
	int err;

	side_object__begin(&x->side, w, &opts);
	p = is_gil(u)	       ? open_gil(x, &opts)
	    : counts_wakers(u) ? open_wakers(x, &opts)
			       : open_waits(x, &opts);
	if (!p.skel)
		return -errno;
	configure(u, p.wait_cfg);
	err = side_object__share(&x->side, w, p.obj, p.cfg, p.number);
	return err ? err : side_object__load(&x->side, p.load, p.skel);
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
	return side_object__attach(&x->side, program(x, name));
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
	int err = attach(x, "on_expired");

	return err ? err : attach(x, "on_expiry");
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

static int wait_blobs(const struct source_use *u)
{
	struct waiting *x = u->state;

	return side_object__blobs(&x->side);
}

static int wait_window(struct source_use *u, struct source_tables *out)
{
	const struct waiting *x = u->state;

	side_object__tables(&x->side,
			    x->gil	? x->gil->bss->active_window
			    : x->wakers ? x->wakers->bss->active_window
					: x->wait->bss->active_window,
			    out);
	return 0;
}

static int wait_asleep(const struct source_use *u, struct source_asleep *out)
{
	const struct waiting *x = u->state;

	if (!x->wait || !x->state.since_ns)
		return -ENOENT;
	*out = (struct source_asleep){
		.threads_fd = side_object__map_fd(&x->side, "waits"),
		.counted_fd = side_object__map_fd(&x->side, "counted_waits"),
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

static void wait_counters(const struct source_use *u, uint64_t counters[CTR_CNT])
{
	const struct waiting *x = u->state;

	side_object__counters(&x->side, counters);
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
	side_object__detach(&x->side);
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
	.set_rate = wait_set_rate, .cpus = wait_cpus, .blobs = wait_blobs, .window = wait_window,  \
	.asleep = wait_asleep, .tell = wait_tell, .counters = wait_counters, .stop = wait_stop,    \
	.close = wait_close, .check = check

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
