/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Growth of resident memory (-e growth): the stacks that first touched the pages that stay. The
 * programs and the tables are those of an object of its own (bpf/growth.bpf.c).
 */
#include "sources/sources.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/opener.h"
#include "growth.skel.h"
#include "pyperf.skel.h"
#include "sources/map_copy.h"
#include "sources/side_object.h"
#include "sources/tracker.h"

SIDE_SAME_BSS(growth_bpf__bss);

#define GROWTH_OBJECT 3		   /* see pyperf_cfg.object */
#define PAGEMAP_THERE (3ULL << 62) /* present, or swapped out */
#define PAGEMAP_WORDS 4096

struct growing {
	struct readers *readers; /* helpers that look at pages; borrowed, or NULL */
	struct growth_bpf *skel;
	struct side_object side;
	uint64_t released; /* samples that were taken out of counts here */
	bool keeps_curves;
	pid_t *pids; /* whose; owned */
	size_t pid_cnt;
	bool children;
	uint32_t type;
	struct tracker *tracker; /* NULL: none are kept */
	bool runs;		 /* its programs are attached */
};

/* ---- the object ------------------------------------------------------------------------------ */

static void configure(const struct source_use *u, struct growth_cfg *cfg)
{
	long page = sysconf(_SC_PAGESIZE);

	cfg->type = u->type;
	cfg->step = u->period;
	cfg->interval_ns = NS_PER_S / (u->frequency_hz ? u->frequency_hz : 1);
	cfg->page_bits = (uint32_t)__builtin_ctzl((unsigned long)page);
}

static int open_object(struct source_use *u, const struct world *w)
{
	struct growing *x = u->state;

	x->skel = growth_bpf__open_opts(side_object__begin(&x->side, w));
	if (!x->skel)
		return -errno;
	configure(u, (struct growth_cfg *)&x->skel->rodata->growth_cfg);
	u->side = &x->side;
	return side_object__load(&x->side, x->skel->skeleton,
				 (struct pyperf_cfg *)&x->skel->rodata->cfg, GROWTH_OBJECT);
}

/* ---- what was given back --------------------------------------------------------------------- */

/* The pages that were sampled in a window. */
struct sampled_pages {
	struct sampled_page {
		uint64_t number; /* its address in pages */
		struct page_val val;
	} * pages;
	size_t cnt, cap;
};

/* The entries of /proc/PID/pagemap for consecutive pages: see the kernel's admin-guide. */
struct pagemap_part {
	uint64_t first, words[PAGEMAP_WORDS];
	size_t cnt;
};

/* Without memory for it a page counts as if it stayed. */
static void collect(struct sampled_pages *s, const struct page_key *at, const struct page_val *val,
		    unsigned page_bits)
{
	if (!ARRAY_GROW(s->pages, s->cap, s->cnt, PAGE_ENTRIES))
		s->pages[s->cnt++] = (struct sampled_page){ at->addr >> page_bits, *val };
}

/* `forget`: they are taken out of the table. 0 or negative errno. */
static int take_pages(const struct growing *x, uint32_t window, bool forget,
		      struct sampled_pages *s)
{
	int fd = side_object__map_fd(&x->side, "pages");
	struct map_copy all;
	int err = map_copy__take(&all, fd, sizeof(struct page_key), sizeof(struct page_val));

	for (size_t i = 0; i < all.cnt; i++) {
		const struct page_key *at = (struct page_key *)all.keys + i;
		const struct page_val *val = (struct page_val *)all.values + i;

		if (val->window != window)
			continue;
		collect(s, at, val, x->skel->rodata->growth_cfg.page_bits);
		if (forget)
			side_object__take_out(&x->side, fd, at, val->slot);
	}
	map_copy__free(&all);
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct sampled_page *x = a, *y = b;

	if (x->val.tgid != y->val.tgid)
		return x->val.tgid < y->val.tgid ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* A page that cannot be read counts as there: the process has ended, and its last state counts. */
static bool is_there(const struct opened *pagemap, struct pagemap_part *part, uint64_t number)
{
	if (number < part->first || number - part->first >= part->cnt) {
		ssize_t n = opened__read(pagemap, part->words, sizeof(part->words),
					 number * sizeof(part->words[0]));

		part->first = number;
		part->cnt = n > 0 ? (size_t)n / sizeof(part->words[0]) : 0;
	}
	return !part->cnt || (part->words[number - part->first] & PAGEMAP_THERE);
}

/* The window has ended: no program writes to the count. */
static bool take_out(int counts_fd, const struct page_val *p)
{
	const struct count_key key = { .space = p->space, .thread = p->thread, .stack = p->stack };
	struct count_val count;

	if (bpf_map_lookup_elem(counts_fd, &key, &count))
		return false;
	count.samples--;
	count.value -= p->value;
	if (count.samples)
		bpf_map_update_elem(counts_fd, &key, &count, BPF_EXIST);
	else
		bpf_map_delete_elem(counts_fd, &key);
	return true;
}

/* Handles a page that is gone; `ended`: or whose process cannot be asked any more. */
typedef void (*gone_fn)(void *ctx, const struct page_val *page, bool ended);

/*
 * Looks at the pages of one process. The kernel may wait for a lock that the process holds, so a
 * helper asks it.
 */
static void look_at_process(const struct growing *x, const struct sampled_page *pages, size_t cnt,
			    struct pagemap_part *part, gone_fn gone, void *ctx)
{
	uint32_t tgid = pages[0].val.tgid;
	int proc_fd = opener__proc_dir(tgid);
	struct opened pagemap = OPENED_NONE;

	bool there =
		proc_fd >= 0 && !opener__proc_file(x->readers, tgid, proc_fd, "pagemap", &pagemap);

	part->cnt = 0;
	for (size_t i = 0; i < cnt; i++) {
		if (!there || !is_there(&pagemap, part, pages[i].number))
			gone(ctx, &pages[i].val, !there);
		else if (!part->cnt)
			gone(ctx, &pages[i].val, true);
	}
	opened__close(&pagemap);
	if (proc_fd >= 0)
		close(proc_fd);
}

/* Of sampled pages, which are put in order, those that are gone. */
static void find_gone(const struct growing *x, struct sampled_pages *s, gone_fn gone, void *ctx)
{
	struct pagemap_part *part = malloc(sizeof(*part));

	if (s->cnt)
		qsort(s->pages, s->cnt, sizeof(*s->pages), by_place);
	for (size_t i = 0, end; part && i < s->cnt; i = end) {
		end = i + 1;
		while (end < s->cnt && s->pages[end].val.tgid == s->pages[i].val.tgid)
			end++;
		look_at_process(x, s->pages + i, end - i, part, gone, ctx);
	}
	free(part);
}

struct taking {
	struct growing *x;
	int counts_fd;
};

/* A gone_fn: of a process that has ended, its last state counts. */
static void take_gone(void *ctx, const struct page_val *page, bool ended)
{
	const struct taking *t = ctx;

	if (!ended)
		t->x->released += take_out(t->counts_fd, page);
}

/* Subtracts the sampled pages of the window that are gone. */
static void look_at_pages(struct growing *x, uint32_t window, int counts_fd)
{
	struct taking taking = { x, counts_fd };
	struct sampled_pages s = { .cnt = 0 };
	int err = take_pages(x, window, true, &s);

	if (err)
		log_debug("-e growth: pages: %s", strerror(-err));
	find_gone(x, &s, take_gone, &taking);
	free(s.pages);
}

/* ---- what is in use -------------------------------------------------------------------------- */

struct using_list {
	struct in_use_list *list;
	struct idmap ended; /* spaces */
	int err;
};

/* A gone_fn: a process that has ended has nothing in use. */
static void note_gone(void *ctx, const struct page_val *page, bool ended)
{
	const struct count_key key = { page->space, page->thread, page->stack };
	struct using_list *u = ctx;

	if (ended && !u->err && !idmap__get(&u->ended, page->space))
		u->err = idmap__set(&u->ended, page->space, u);
	if (!ended && !u->err)
		u->err = in_use_list__add(u->list, &key, -(int64_t)page->value, -1);
}

/* Those that BPF follows, by space: a process that has ended, or called exec, is not there. */
static int find_living(const struct growing *x, struct idmap *living)
{
	struct map_copy procs;
	int err = map_copy__take(&procs, side_object__map_fd(&x->side, "procs"), sizeof(uint32_t),
				 sizeof(struct proc));

	for (size_t i = 0; i < procs.cnt && !err; i++)
		err = idmap__set(living, ((struct proc *)procs.values + i)->space, living);
	map_copy__free(&procs);
	return err;
}

static void drop_ended(const struct growing *x, const struct using_list *u)
{
	struct idmap living = { 0 };
	bool known = !find_living(x, &living);

	for (size_t i = 0; i < u->list->cnt; i++) {
		struct in_use *one = &u->list->at[i];

		if (idmap__get(&u->ended, one->key.space) ||
		    (known && !idmap__get(&living, one->key.space)))
			one->bytes = one->samples = 0;
	}
	idmap__free(&living);
}

/* See struct tracker_opts: what was counted, without the pages that are gone. */
static int in_use(void *ctx, uint32_t window, struct in_use_list *list)
{
	const struct growing *x = ctx;
	struct using_list u = { .list = list };
	struct sampled_pages s = { .cnt = 0 };
	struct source_tables tables;
	struct map_copy counts;

	u.err = take_pages(x, window, false, &s);
	side_object__tables(&x->side, !window, &tables);
	if (!u.err)
		u.err = map_copy__take(&counts, tables.counts_fd, sizeof(struct count_key),
				       sizeof(struct count_val));
	else
		counts = (struct map_copy){ 0 };
	for (size_t i = 0; i < counts.cnt && !u.err; i++) {
		const struct count_val *val = (struct count_val *)counts.values + i;

		u.err = in_use_list__add(list, (struct count_key *)counts.keys + i,
					 (int64_t)val->value, (int64_t)val->samples);
	}
	map_copy__free(&counts);
	if (!u.err)
		find_gone(x, &s, note_gone, &u);
	drop_ended(x, &u);
	idmap__free(&u.ended);
	free(s.pages);
	return u.err;
}

static uint32_t window_of(void *ctx)
{
	const struct growing *x = ctx;

	return side_object__active_window(&x->side);
}

static void start_tracker(struct growing *x)
{
	const struct tracker_opts o = {
		.event = "growth",
		.pids = x->pids,
		.pid_cnt = x->pid_cnt,
		.children = x->children,
		.in_use = in_use,
		.window = window_of,
		.ctx = x,
	};

	if (x->keeps_curves && x->pid_cnt)
		x->tracker = tracker__start(&o);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int growth_open(struct source_use *u, const struct world *w)
{
	struct growing *x = calloc(1, sizeof(*x));
	int err;

	u->state = x;
	if (!x)
		return log_no_memory();
	x->readers = w->readers;
	x->type = u->type;
	x->keeps_curves = w->curves;
	x->children = w->children;
	x->pids = calloc(w->pid_cnt + 1, sizeof(*x->pids));
	if (!x->pids)
		return log_no_memory();
	if (w->pid_cnt)
		memcpy(x->pids, w->pids, w->pid_cnt * sizeof(*x->pids));
	x->pid_cnt = w->pid_cnt;
	err = open_object(u, w);
	if (err)
		log_err("the BPF object of growth: %s", strerror(-err));
	return err;
}

/* Without addresses all that is touched counts, whether it stays or not. */
static void attach_faults(struct growing *x)
{
	int err = loader__attach(x->side.loader, x->skel->progs.on_user_fault);

	if (!err)
		err = loader__attach(x->side.loader, x->skel->progs.on_kernel_fault);
	if (err)
		log_warn("-e growth: this kernel does not report the addresses of page faults: "
			 "freed memory counts, too");
}

static int growth_start(struct source_use *u)
{
	struct growing *x = u->state;
	int err = side_object__ready(&x->side, x->skel->progs.on_growth, "growth");

	if (err)
		return err;
	err = side_object__map_shares(&x->side, "page_shares");
	if (err) {
		log_err("-e growth: the shares of its table: %s", strerror(-err));
		return err;
	}
	attach_faults(x);
	err = loader__attach(x->side.loader, x->skel->progs.on_pages);
	if (err)
		log_err("-e growth: attaching to the kernel's count of pages: %s", strerror(-err));
	else
		start_tracker(x);
	x->runs = !err;
	return err;
}

static int growth_set_rate(struct source_use *u)
{
	(void)u; /* each process has its own, in BPF */
	return 0;
}

static int growth_window(struct source_use *u, struct source_tables *out)
{
	struct growing *x = u->state;
	uint32_t active = side_object__active_window(&x->side);

	side_object__tables(&x->side, active, out);
	tracker__lock(x->tracker);
	look_at_pages(x, !active, out->counts_fd);
	tracker__end_window(x->tracker, out, u->type);
	tracker__unlock(x->tracker);
	return 0;
}

static const struct curves *growth_curves(const struct source_use *u)
{
	const struct growing *x = u->state;

	return tracker__curves(x->tracker);
}

/*
 * The counters about stacks, for the samples that count: scaled by their share, because nobody
 * keeps them for each sample.
 */
static const enum pyperf_counter of_stacks[] = {
	CTR_complete,	      CTR_user_stacks,	  CTR_note_truncated, CTR_note_native_lost,
	CTR_note_python_lost, CTR_note_shim_jump, CTR_note_no_regs,   CTR_note_pending,
};

static void growth_counters(const struct source_use *u, uint64_t counters[CTR_CNT])
{
	const struct growing *x = u->state;
	uint64_t own[CTR_CNT] = { 0 }, before;

	side_object__counters(&x->side, own);
	before = own[CTR_counted] + own[CTR_filtered_released];
	own[CTR_counted] -= x->released;
	own[CTR_filtered_released] += x->released;
	for (size_t i = 0; before && i < sizeof(of_stacks) / sizeof(of_stacks[0]); i++)
		own[of_stacks[i]] = own[of_stacks[i]] * own[CTR_counted] / before;
	for (size_t i = 0; i < CTR_CNT; i++)
		counters[i] += own[i];
}

static void growth_stop(struct source_use *u)
{
	struct growing *x = u->state;

	if (!x)
		return;
	loader__detach(x->side.loader);
	tracker__stop(x->tracker);
	if (x->runs)
		side_object__say_refused(&x->side, "-e growth", "pages", "memory that stays");
	x->runs = false;
}

static void growth_close(struct source_use *u)
{
	struct growing *x = u->state;

	if (!x)
		return;
	growth_stop(u);
	tracker__free(x->tracker);
	side_object__end(&x->side);
	growth_bpf__destroy(x->skel);
	free(x->pids);
	free(x);
	u->state = NULL;
}

/* rss_stat is in Linux 5.5 and later. */
static const char *check(const struct source *s)
{
	(void)s;
	return NULL;
}

const struct source growth_sources[] = {
	{ .type = { .event = EVENT_GROWTH },
	  .open = growth_open,
	  .start = growth_start,
	  .set_rate = growth_set_rate,
	  .blobs = side_source__blobs,
	  .window = growth_window,
	  .curves = growth_curves,
	  .counters = growth_counters,
	  .to_end = true,
	  .stop = growth_stop,
	  .close = growth_close,
	  .check = check },
	/* Of what any source of memory kept: session__curves() counts it. It is never opened. */
	{ .type = { .event = EVENT_PEAK_SPACE },
	  .of = EVENT_GROWTH,
	  .to_end = true,
	  .check = check },
	{ .check = NULL },
};
