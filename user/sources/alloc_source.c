/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Blocks of the C library's allocator (-e alloc): which stacks asked for them, and which of them
 * are still in use. The programs and the tables are those of an object of its own
 * (bpf/blocks.bpf.c).
 *
 * Each call costs the process a trap. So calls are only counted at first; if that is more than the
 * slowdown that is allowed, nothing is sampled, and start() returns -EDQUOT.
 */
#include "sources/sources.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/percpu.h"
#include "base/procfield.h"
#include "blocks.skel.h"
#include "bpf/arch/arch.h"
#include "elf/elf.h"
#include "elf/insn.h"
#include "follow/held.h"
#include "follow/uprobe.h"
#include "process/maps_read.h"
#include "process/mapped.h"
#include "pyperf.skel.h"
#include "sources/map_copy.h"
#include "sources/side_object.h"
#include "sources/tracker.h"
#include "sources/watcher.h"

SIDE_SAME_BSS(blocks_bpf__bss);

#define BLOCKS_OBJECT	 5 /* see pyperf_cfg.object */
#define STEP_DEFAULT	 (512 << 10)
#define SLOWDOWN_DEFAULT 10 /* percent */
#define SLOWDOWN_MAX	 10000
#define JUDGED_NS	 (100 * NS_PER_MS)
#define HIT_NS		 1000.0	 /* where it cannot be measured */
#define DRAWN_NS	 10000.0 /* a stack, and the return */
#define HIT_MARGIN	 1.35	 /* of a call among other work, to one in a loop */
#define FRACTION	 65536.0
#define FILES_MAX	 8 /* with an allocator, of a process */
#define LOOKED_AT_MAX	 4 /* instructions of a function */
#define GLIBC		 "libc.so.6"

struct allocating {
	struct readers *readers; /* helpers that open what processes own; borrowed, or NULL */
	struct blocks_bpf *skel;
	struct side_object side;
	pid_t *pids;
	size_t pid_cnt;
	struct uprobe_list breakpoints;
	double hit_ns;
	uint64_t inuse; /* counts that were added here */
	/* While it counts, a thread of its own looks what that costs; it has the links then. */
	struct watcher watcher;
	double most;
	uint64_t step;
	bool keeps_curves, children;
	struct tracker *tracker; /* NULL: none are kept */
};

/* ---- the object ------------------------------------------------------------------------------ */

static uint32_t fraction(double x)
{
	return (uint32_t)(x * FRACTION + 0.5);
}

static void configure(const struct source_use *u, struct blocks_cfg *cfg)
{
	cfg->interval = u->period;
	cfg->gap = (uint64_t)((double)u->period * M_LN2 + 0.5);
	cfg->space_type = u->type + EVENT_ALLOC_SPACE - EVENT_INUSE_SPACE;
	cfg->object_type = u->type + EVENT_ALLOC_OBJECTS - EVENT_INUSE_SPACE;
	for (int i = 0; i < BLOCK_LOGS; i++)
		cfg->log2[i] = fraction(log2(1 + (i + 0.5) / BLOCK_LOGS));
	cfg->worth[0] = fraction(1);
	for (int i = 1; i < BLOCK_WORTHS + 2; i++) {
		double x = (double)i / (1 << BLOCK_WORTH_SHIFT);

		cfg->worth[i] = fraction(x / -expm1(-x));
	}
}

static int open_object(struct source_use *u, const struct world *w)
{
	struct allocating *x = u->state;

	x->skel = blocks_bpf__open_opts(side_object__begin(&x->side, w));
	if (!x->skel)
		return -errno;
	configure(u, (struct blocks_cfg *)&x->skel->rodata->blocks_cfg);
	bpf_program__set_expected_attach_type(x->skel->progs.on_block,
					      (enum bpf_attach_type)UPROBE_SESSION_TYPE);
	bpf_program__set_expected_attach_type(x->skel->progs.on_drawn,
					      (enum bpf_attach_type)UPROBE_SESSION_TYPE);
	u->side = &x->side;
	return side_object__load(&x->side, x->skel->skeleton,
				 (struct pyperf_cfg *)&x->skel->rodata->cfg, BLOCKS_OBJECT);
}

static int alloc_open(struct source_use *u, const struct world *w)
{
	struct allocating *x;
	int err;

	if (!w->pid_cnt) {
		log_err("-e alloc: name the processes with -p");
		return -EINVAL;
	}
	u->state = x = calloc(1, sizeof(*x));
	if (!x)
		return log_no_memory();
	x->readers = w->readers;
	x->step = u->period;
	x->keeps_curves = w->curves;
	x->children = w->children;
	x->pids = calloc(w->pid_cnt, sizeof(*x->pids));
	if (!x->pids)
		return log_no_memory();
	memcpy(x->pids, w->pids, w->pid_cnt * sizeof(*x->pids));
	x->pid_cnt = w->pid_cnt;
	err = open_object(u, w);
	if (err)
		log_err("the BPF object of blocks: %s", strerror(-err));
	return err;
}

/* ---- where the allocator is ------------------------------------------------------------------ */

static const struct {
	const char *name;
	enum block_call call;
} functions[] = {
	{ "malloc", BLOCK_MALLOC },
	{ "calloc", BLOCK_CALLOC },
	{ "realloc", BLOCK_REALLOC },
	{ "memalign", BLOCK_ALIGNED },
	{ "aligned_alloc", BLOCK_ALIGNED },
	{ "posix_memalign", BLOCK_POSIX },
	{ "free", BLOCK_FREE },
};

#define FUNCTION_CNT (sizeof(functions) / sizeof(functions[0]))
_Static_assert(FUNCTION_CNT <= UPROBE_SPOTS_MAX, "UPROBE_SPOTS_MAX");

/*
 * An insn_pass_fn. These change neither arguments nor stack, but would be dear: a mark for calls,
 * test %rdi,%rdi, cmpb $0,x(%rip), cmpl $0,x(%rip).
 */
static bool is_harmless(const uint8_t *code, const struct insn *insn)
{
	(void)insn;
	return !memcmp(code, ARCH_LANDING, sizeof(ARCH_LANDING) - 1) ||
	       !memcmp(code, "\x48\x85\xff", 3) || !memcmp(code, "\x80\x3d", 2) ||
	       !memcmp(code, "\x83\x3d", 2);
}

/* The first instruction that the kernel emulates. False: none stands early enough. */
static bool find_spot(const struct elf_file *ef, uint64_t addr, uint64_t *offset)
{
	return !insn__find_emulated(ef, addr, LOOKED_AT_MAX, is_harmless, &addr) &&
	       elf_file__addr_to_off(ef, addr, offset);
}

/* Names of one function count once. Their number, or negative errno. */
static int find_spots(const struct elf_file *ef, struct uprobe_spot *spots)
{
	const char *soname = elf_file__soname(ef);
	bool glibc = soname && !strcmp(soname, GLIBC);
	struct elf_symbol symbol;
	int cnt = 0;

	for (size_t i = 0; i < FUNCTION_CNT; i++) {
		struct uprobe_spot spot = { .cookie =
						    functions[i].call | (glibc ? BLOCK_GLIBC : 0) };
		int k = 0;

		if (!elf_file__symbol(ef, functions[i].name, &symbol))
			continue;
		if (!find_spot(ef, symbol.addr, &spot.offset)) {
			log_err("-e alloc: %s of %s begins with instructions on which a "
				"breakpoint is expensive",
				functions[i].name, elf_file__path(ef));
			return -ENOTSUP;
		}
		while (k < cnt && spots[k].offset != spot.offset)
			k++;
		if (k == cnt)
			spots[cnt++] = spot;
	}
	return cnt;
}

static bool has_allocator(const struct elf_file *ef)
{
	struct elf_symbol symbol;

	return elf_file__symbol(ef, "malloc", &symbol) && elf_file__symbol(ef, "free", &symbol) &&
	       elf_file__symbol(ef, "calloc", &symbol);
}

/* 1: it was put there; 0: the file has no allocator; or negative errno, printed. */
static int attach_file(struct allocating *x, pid_t pid, const struct elf_file *ef)
{
	struct uprobe_spot spots[UPROBE_SPOTS_MAX];
	int cnt = has_allocator(ef) ? find_spots(ef, spots) : 0, link;

	if (cnt <= 0)
		return cnt;
	link = uprobe_list__keep(&x->breakpoints,
				 uprobe__open_session(pid, elf_file__fd(ef), spots, (size_t)cnt,
						      bpf_program__fd(x->skel->progs.on_block)));
	if (link < 0) {
		log_err("-e alloc: breakpoints in %s of process %d: %s%s", elf_file__path(ef), pid,
			strerror(-link), uprobe__remedy(link));
		return link;
	}
	return 1;
}

/* Its first executable mapping of this file. */
static bool is_first(const struct exec_maps *m, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (m->lines[k].inode == m->lines[i].inode &&
		    m->lines[k].major == m->lines[i].major &&
		    m->lines[k].minor == m->lines[i].minor)
			return false;
	return m->lines[i].inode != 0;
}

/* How many files have an allocator, or negative errno, printed. */
static int attach_files(struct allocating *x, pid_t pid, int proc_fd, const struct exec_maps *m)
{
	int cnt = 0;

	for (size_t i = 0; i < m->cnt && cnt < FILES_MAX; i++) {
		struct elf_file *ef;
		int err;

		if (!is_first(m, i))
			continue;
		ef = mapped__open(x->readers, (uint32_t)pid, proc_fd, &m->lines[i]);
		err = ef ? attach_file(x, pid, ef) : 0;
		elf_file__close(ef);
		if (err < 0)
			return err;
		cnt += err;
	}
	return cnt;
}

static int attach(struct allocating *x, pid_t pid)
{
	struct exec_maps maps = { 0 };
	int proc_fd = opener__proc_dir((uint32_t)pid), err = proc_fd, cnt;

	if (proc_fd >= 0)
		err = exec_maps__ask(&maps, x->readers, (uint32_t)pid, proc_fd);
	if (err < 0) {
		log_err("-e alloc: mappings of process %d: %s", pid, strerror(-err));
	} else {
		cnt = attach_files(x, pid, proc_fd, &maps);
		err = cnt < 0 ? cnt : cnt ? 0 : -ENOENT;
		if (!cnt)
			log_err("-e alloc: process %d maps no library that exports malloc() and "
				"free(); memory --level growth needs none",
				pid);
	}
	exec_maps__free(&maps);
	if (proc_fd >= 0)
		close(proc_fd);
	return err;
}

/* Does a filter decide which system calls the process may use? */
static bool is_confined(pid_t pid)
{
	char path[32], mode[16];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return !procfield__read(path, "Seccomp", mode, sizeof(mode)) && strcmp(mode, "0") != 0;
}

/* The return of a function that is watched is a system call. */
static int check_confined(const struct allocating *x)
{
	for (size_t i = 0; i < x->pid_cnt; i++) {
		if (!is_confined(x->pids[i]))
			continue;
		if (uprobe__survives_seccomp())
			return 0;
		log_err("-e alloc: process %d has a seccomp filter, which would end it at the "
			"first sample on this kernel (before Linux 6.14)",
			x->pids[i]);
		return -ENOTSUP;
	}
	return 0;
}

static int attach_all(struct allocating *x)
{
	int err = 0;

	for (size_t i = 0; i < x->pid_cnt && !err; i++)
		err = attach(x, x->pids[i]);
	return err;
}

/* ---- what it costs --------------------------------------------------------------------------- */

/* Of all CPUs: calls, frees and bytes; its other members are of one CPU. */
static struct block_cpu sum_cpus(const struct allocating *x)
{
	struct block_cpu sum = { 0 };

	percpu__add(side_object__map_fd(&x->side, "block_cpus"), 0, &sum, sizeof(sum));
	return sum;
}

static uint64_t cpu_ns(const struct allocating *x)
{
	struct timespec t;
	clockid_t clock;
	uint64_t sum = 0;

	for (size_t i = 0; i < x->pid_cnt; i++)
		if (!clock_getcpuclockid(x->pids[i], &clock) && !clock_gettime(clock, &t))
			sum += timespec_ns(t);
	return sum;
}

/* The counts up to a moment. */
struct account {
	struct block_cpu n;
	uint64_t used_ns, wall_ns;
};

static struct account take_account(const struct allocating *x)
{
	return (struct account){ sum_cpus(x), cpu_ns(x), now_ns() };
}

/*
 * The cost of the calls since then, beyond the CPU time that the processes needed anyway, in
 * percent of that. *now: the present counts. Less than a hundredth of a CPU does not matter.
 */
static double slowdown(const struct allocating *x, const struct account *then, struct account *now)
{
	double hits, cost, used;

	*now = take_account(x);
	hits = (double)(now->n.calls + now->n.frees - then->n.calls - then->n.frees);
	cost = hits * x->hit_ns +
	       (double)(now->n.bytes - then->n.bytes) / (double)x->step * DRAWN_NS;
	used = (double)(now->used_ns - then->used_ns);
	if (cost * 100 < (double)(now->wall_ns - then->wall_ns))
		return 0;
	return 100 * cost / fmax(used - cost, used / 20 + 1);
}

static double rate_of(const struct account *then, const struct account *now)
{
	return (double)(now->n.calls + now->n.frees - then->n.calls - then->n.frees) * NS_PER_S /
	       (double)(now->wall_ns - then->wall_ns);
}

/* They are counted for a moment. 0, or -EDQUOT, printed. */
static int judge(const struct allocating *x)
{
	const struct timespec moment = { .tv_nsec = JUDGED_NS };
	struct account then = take_account(x), now;
	double percent;

	nanosleep(&moment, NULL); /* a signal makes it shorter */
	percent = slowdown(x, &then, &now);
	log_debug("-e alloc: %.0f calls a second, %.0f ns each: %.1f%% slower",
		  rate_of(&then, &now), x->hit_ns, percent);
	if (percent <= x->most)
		return 0;
	log_warn("malloc() and free() are called %.0f times a second: at %.2f us each, that would "
		 "slow down %s by %.0f%% of the CPU time, more than %g%% (-e alloc:%.0f, or "
		 "--max-slowdown %.0f of memory, allows that)",
		 rate_of(&then, &now), x->hit_ns / 1000,
		 x->pid_cnt > 1 ? "the processes" : "the process", percent, x->most,
		 ceil(percent * 1.2), ceil(percent * 1.2));
	return -EDQUOT;
}

/* The rate may rise later: for as long as it is too high the breakpoints do harm. */
static void *watch(void *arg)
{
	struct allocating *x = arg;
	struct account begin = take_account(x), then = begin, now;
	int dear = 0;

	while (watcher__goes_on(&x->watcher)) {
		double percent = slowdown(x, &then, &now);

		dear = percent > x->most ? dear + 1 : 0;
		if (dear == WATCHER_DEAR_MAX) {
			uprobe_list__close(&x->breakpoints);
			log_warn("-e alloc: malloc() and free() are called %.0f times a second: "
				 "stopped after %.0f s, as that slows %s down by %.0f%%, more than "
				 "%g%%. The results are those up to then",
				 rate_of(&then, &now), (double)(now.wall_ns - begin.wall_ns) / 1e9,
				 x->pid_cnt > 1 ? "the processes" : "the process", percent,
				 x->most);
			break;
		}
		then = now;
	}
	return NULL;
}

static void switch_on(struct allocating *x)
{
	uint32_t zero = 0, on = 1;

	bpf_map_update_elem(side_object__map_fd(&x->side, "block_switch"), &zero, &on, BPF_ANY);
}

static double allowed(const struct source_spec *spec)
{
	return spec->args[0] ? strtod(spec->args, NULL) : SLOWDOWN_DEFAULT;
}

static int parse(struct source_spec *spec)
{
	char *end = spec->args;
	double percent = allowed(spec);

	if (spec->args[0])
		strtod(spec->args, &end);
	if (!*end && percent > 0 && percent <= SLOWDOWN_MAX)
		return 0;
	log_err("-e alloc:%s: must be alloc or alloc:PERCENT, the slowdown that is allowed, up to "
		"%d",
		spec->args, SLOWDOWN_MAX);
	return -EINVAL;
}

/* ---- what is in use -------------------------------------------------------------------------- */

/* See struct tracker_opts. */
static int in_use(void *ctx, uint32_t window, struct in_use_list *list)
{
	const struct allocating *x = ctx;
	struct map_copy all;
	int err = map_copy__take(&all, side_object__map_fd(&x->side, "blocks"),
				 sizeof(struct block_key), sizeof(struct block_val));

	for (size_t i = 0; i < all.cnt && !err; i++) {
		const struct block_val *val = (struct block_val *)all.values + i;
		const struct count_key key = { val->space, val->thread, val->stack };

		if (val->window == window)
			err = in_use_list__add(list, &key, (int64_t)val->bytes, 1);
	}
	map_copy__free(&all);
	return err;
}

static uint32_t window_of(void *ctx)
{
	const struct allocating *x = ctx;

	return side_object__active_window(&x->side);
}

static void start_tracker(struct allocating *x)
{
	const struct tracker_opts o = {
		.event = "alloc",
		.pids = x->pids,
		.pid_cnt = x->pid_cnt,
		.children = x->children,
		.in_use = in_use,
		.window = window_of,
		.ctx = x,
	};

	if (x->keeps_curves)
		x->tracker = tracker__start(&o);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* After a failure: the question takes 0.2 s. */
static bool lacks_sessions(void)
{
	if (uprobe__has_sessions())
		return false;
	log_err("-e alloc: breakpoints that see what a call returns need Linux 6.13");
	return true;
}

static int alloc_start(struct source_use *u)
{
	struct allocating *x = u->state;
	int err = loader__wait(x->side.loader);
	int64_t ns;

	if (err) {
		if (!lacks_sessions())
			loader__say_failed(err, " of blocks", "");
		return err;
	}
	err = side_object__go_on_in(&x->side, x->skel->progs.on_drawn);
	if (!err)
		err = held__refuse(x->readers);
	if (err)
		return err;
	ns = uprobe__measure_session(bpf_program__fd(x->skel->progs.on_block));
	if (ns < 0 && lacks_sessions())
		return -ENOTSUP;
	x->hit_ns = ns > 0 ? (double)ns * HIT_MARGIN : HIT_NS;
	x->most = allowed(&u->spec);
	err = side_object__map_shares(&x->side, "block_shares");
	if (err)
		log_err("-e alloc: the shares of its table: %s", strerror(-err));
	else
		err = check_confined(x);
	if (!err)
		err = attach_all(x);
	if (!err)
		err = judge(x);
	if (!err)
		err = watcher__start(&x->watcher, "alloc", watch, x);
	if (!err)
		switch_on(x);
	else
		uprobe_list__close(&x->breakpoints);
	if (!err)
		start_tracker(x);
	return err;
}

static int alloc_set_rate(struct source_use *u)
{
	(void)u; /* it goes by bytes */
	return 0;
}

/* Adds another value for a stack that is in the window. */
static void add_value(struct allocating *x, int counts_fd, const struct block_val *b, uint32_t type,
		      uint64_t value)
{
	const struct count_key key = { .space = b->space,
				       .thread = b->thread,
				       .stack = COUNT_WORD(b->stack, type) };
	struct count_val count = { 0 };
	bool known = !bpf_map_lookup_elem(counts_fd, &key, &count);

	count.samples++;
	count.value += value;
	if (!bpf_map_update_elem(counts_fd, &key, &count, known ? BPF_EXIST : BPF_NOEXIST))
		x->inuse++;
}

/* Counts the sampled blocks of the window that are not freed as in use. */
static void take_blocks(struct source_use *u, uint32_t window, int counts_fd)
{
	struct allocating *x = u->state;
	int fd = side_object__map_fd(&x->side, "blocks");
	struct map_copy all;

	if (map_copy__take(&all, fd, sizeof(struct block_key), sizeof(struct block_val)))
		log_debug("-e alloc: blocks: not all could be read");
	for (size_t i = 0; i < all.cnt; i++) {
		const struct block_val *val = (struct block_val *)all.values + i;

		if (val->window != window)
			continue;
		add_value(x, counts_fd, val, u->type, val->bytes);
		add_value(x, counts_fd, val, u->type + 1, val->objects);
		side_object__take_out(&x->side, fd, (struct block_key *)all.keys + i, val->slot);
	}
	map_copy__free(&all);
}

static int alloc_window(struct source_use *u, struct source_tables *out)
{
	struct allocating *x = u->state;
	uint32_t active = side_object__active_window(&x->side);

	side_object__tables(&x->side, active, out);
	tracker__lock(x->tracker);
	take_blocks(u, !active, out->counts_fd);
	tracker__end_window(x->tracker, out, u->type);
	tracker__unlock(x->tracker);
	return 0;
}

static const struct curves *alloc_curves(const struct source_use *u)
{
	const struct allocating *x = u->state;

	return tracker__curves(x->tracker);
}

static void alloc_counters(const struct source_use *u, uint64_t counters[CTR_CNT])
{
	const struct allocating *x = u->state;

	side_object__counters(&x->side, counters);
	counters[CTR_delivered] += x->inuse;
	counters[CTR_counted] += x->inuse;
}

static void alloc_stop(struct source_use *u)
{
	struct allocating *x = u->state;
	struct block_cpu sum;

	if (!x || !x->watcher.runs)
		return;
	watcher__stop(&x->watcher);
	uprobe_list__close(&x->breakpoints);
	tracker__stop(x->tracker);
	sum = sum_cpus(x);
	log_debug("-e alloc: %llu blocks of %llu bytes, %llu freed", sum.calls, sum.bytes,
		  sum.frees);
	side_object__say_refused(&x->side, "-e alloc", "blocks", "freed");
}

static void alloc_close(struct source_use *u)
{
	struct allocating *x = u->state;

	if (!x)
		return;
	alloc_stop(u);
	tracker__free(x->tracker);
	side_object__end(&x->side);
	blocks_bpf__destroy(x->skel);
	free(x->pids);
	free(x);
	u->state = NULL;
}

static const char *check(const struct source *s)
{
	(void)s;
	return uprobe__has_sessions() ? NULL : "not in this kernel (Linux 6.13)";
}

#define OTHER_VALUE(id)                                                                            \
	.type = { .event = EVENT_##id }, .of = EVENT_INUSE_SPACE, .to_end = true,                  \
	SOURCE_COMPANION, .check = check

const struct source alloc_sources[] = {
	{ .type = { .event = EVENT_INUSE_SPACE },
	  .usage = "alloc[:PERCENT]",
	  .called = "alloc",
	  .step = STEP_DEFAULT,
	  .with = EVENT_INUSE_OBJECTS,
	  .to_end = true,
	  .parse = parse,
	  .open = alloc_open,
	  .start = alloc_start,
	  .set_rate = alloc_set_rate,
	  .blobs = side_source__blobs,
	  .window = alloc_window,
	  .curves = alloc_curves,
	  .counters = alloc_counters,
	  .stop = alloc_stop,
	  .close = alloc_close,
	  .check = check },
	{ OTHER_VALUE(INUSE_OBJECTS), .with = EVENT_ALLOC_SPACE },
	{ OTHER_VALUE(ALLOC_SPACE), .with = EVENT_ALLOC_OBJECTS },
	{ OTHER_VALUE(ALLOC_OBJECTS) },
	{ .check = NULL },
};
