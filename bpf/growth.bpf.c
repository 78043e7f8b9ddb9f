// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of growth: programs where the kernel counts the pages of an address space. It is
 * loaded when such a source is asked for.
 *
 *	page_fault_user, _kernel	a thread touches memory that is not there: where?
 *	rss_stat			an address space has more pages, or fewer: how many?
 *
 * The kernel counts each page that becomes resident, whatever it was for: malloc's, Python's, that
 * of a mapping, a huge one, those of a file that come around the one that was touched. What came is
 * the change of its counters since the last look, so their sum is right whoever lost a race.
 *
 * A page costs the kernel less than a stack costs us. So growth by less than a step is drawn, with
 * the probability bytes / step, and counts a step; more counts what it is. The step doubles with
 * each so many samples that came earlier than asked for: it depends on earlier samples only, so
 * sums are right on average.
 *
 * A sampled page is remembered by its address until it is touched for the first time again, which
 * says that it was given back meanwhile. Those that are given back and not touched any more user/
 * finds when the window ends.
 *
 * rss_stat comes with a lock of a page table held and preemption off; nothing here waits, and reads
 * of user memory that would fault do not. So no two walks of this object meet on a CPU. Samples
 * interrupt them and have scratch of their own.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler; growth that is drawn is
 * delivered.
 */
#include "shares.bpf.h"
#include "take.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct growth_cfg growth_cfg = { .page_bits = 12 };

#define STEP_LEAST   (64ULL << 10)
#define DOUBLES_MOST 10	 /* to 64 MiB */
#define DOUBLE_AFTER 256 /* samples: 16 MiB at first, and twice as much each time */

/* LRU, because no event reports the end of an address space. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct growth);
} growths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct growth_cpu);
} growth_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct growth_fault);
} faults SEC(".maps");

/*
 * Sampled pages. Full, or too many of one user: note_memory_full, the page is not remembered, and
 * counts as if it stayed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAGE_ENTRIES);
	__type(key, struct page_key);
	__type(value, struct page_val);
} pages SEC(".maps");

/* Whose the entries of `pages` are. BPF and user/ count what they add and take out. */
SHARES_MAP(page_shares);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[PAGE_MARKS]);
} page_marks SEC(".maps");

BPF_INLINE __u8 *the_mark(const struct page_key *at)
{
	__u32 zero = 0;
	__u8 *marks = bpf_map_lookup_elem(&page_marks, &zero);

	return marks ? &marks[BOUND(PAGE_MARK(at), PAGE_MARKS)] : NULL;
}

BPF_INLINE struct growth_fault *the_fault(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&faults, &zero);
}

/* ---- where it is touched --------------------------------------------------------------------- */

/* Our own reads of user memory may fault, too; they do not count for the thread. */
BPF_INLINE int note_fault(__u64 addr)
{
	struct growth_fault *f = the_fault();

	if (!f || f->value) /* a walk is in progress */
		return 0;
	f->addr = addr;
	f->tid = (__u32)bpf_get_current_pid_tgid();
	return 0;
}

SEC("raw_tp/page_fault_user")
int on_user_fault(struct bpf_raw_tracepoint_args *ctx)
{
	return note_fault(ctx->args[0]);
}

/* read() into new memory */
SEC("raw_tp/page_fault_kernel")
int on_kernel_fault(struct bpf_raw_tracepoint_args *ctx)
{
	return note_fault(ctx->args[0]);
}

/* ---- how many pages came --------------------------------------------------------------------- */

BPF_INLINE int has_cpu_counters(void)
{
	return !bpf_core_type_exists(struct mm_rss_stat);
}

/*
 * The offset of this CPU's copy of a per-CPU variable. The kernel tells programs only about its own
 * variables, and only about those in data sections; but of a per-CPU map both addresses are known.
 * Stored in memory they are numbers.
 */
BPF_INLINE __u64 cpu_offset(struct growth_fault *f)
{
	__u64 base = 0;

	*(void *volatile *)&f->map = &faults;
	*(void *volatile *)&f->map_value = f;
	bpf_probe_read_kernel(&base, sizeof(base),
			      (void *)(*(volatile __u64 *)&f->map +
				       bpf_core_field_offset(struct bpf_array, pptrs)));
	return *(volatile __u64 *)&f->map_value - base;
}

/* A CPU has added its pages to the shared counter, which tells how many there are in all. */
BPF_INLINE __s64 shared_change(struct growth *g, __u32 kind, __s64 now)
{
	__s64 change = now - g->pages[kind];

	g->pages[kind] = now;
	return change;
}

BPF_INLINE struct percpu_counter *counter_of(struct mm_struct *mm, __u32 kind)
{
	struct mm_struct___rss *m = (void *)mm;

	return (struct percpu_counter *)((void *)m +
					 bpf_core_field_offset(struct mm_struct___rss, rss_stat) +
					 kind * bpf_core_type_size(struct percpu_counter));
}

BPF_INLINE __s64 old_count(struct mm_struct *mm, __u32 kind)
{
	struct mm_struct___rss_old *m = (void *)mm;
	__s64 count = 0;

	bpf_probe_read_kernel(
		&count, sizeof(count),
		(void *)m + bpf_core_field_offset(struct mm_struct___rss_old, rss_stat) + 8 * kind);
	return count;
}

/* ---- the address space ----------------------------------------------------------------------- */

BPF_INLINE __s64 shared_count(struct mm_struct *mm, __u32 kind)
{
	return has_cpu_counters() ? BPF_CORE_READ(counter_of(mm, kind), count)
				  : old_count(mm, kind);
}

/* The pages that it had before the first look count for nobody. */
BPF_INLINE struct growth *new_growth(struct mm_struct *mm, __u32 space)
{
	__u64 key = (__u64)mm;
	struct growth new = { .space = space };

	for (__u32 kind = 0; kind < RSS_KINDS; kind++)
		new.pages[kind] = shared_count(mm, kind);
	bpf_map_update_elem(&growths, &key, &new, BPF_ANY);
	return bpf_map_lookup_elem(&growths, &key);
}

/* The address space of the current task. NULL: it does not count. */
BPF_INLINE struct growth *find_growth(struct mm_struct *mm)
{
	__u64 key = (__u64)mm;
	struct growth *g = bpf_map_lookup_elem(&growths, &key);
	__u32 tgid = current_tgid(current_task());
	const struct proc *p = bpf_map_lookup_elem(&procs, &tgid);

	if (!p)
		return NULL;
	if (g && g->space == p->space)
		return g;
	return is_wanted(tgid) ? new_growth(mm, p->space) : NULL;
}

/* `due_ns` is the time at which the samples up to now would have come at the rate asked for. */
BPF_INLINE __u64 step_of(const struct growth *g, __u64 now)
{
	__u64 ahead = g->due_ns > now ? g->due_ns - now : 0;
	__u64 doubles = ahead / (growth_cfg.interval_ns * DOUBLE_AFTER);

	if (growth_cfg.step)
		return growth_cfg.step;
	return STEP_LEAST << (doubles < DOUBLES_MOST ? doubles : DOUBLES_MOST);
}

/* ---- the one that this CPU counts ------------------------------------------------------------ */

#define OTHERS_ASK 64 /* pages, of which one asks whether its address space counts by now */

/* A function of its own: it is seldom called, and the verifier checks it only once. */
BPF_NOINLINE int switch_to(__u64 mm)
{
	struct growth_fault *f = the_fault();
	struct growth_cpu *c;
	struct growth *g;
	__u64 before;

	if (!f)
		return 0;
	before = f->mm;
	g = find_growth((struct mm_struct *)mm);
	if (!g) {
		f->other = mm;
		return 0;
	}
	if (before)
		bpf_map_update_elem(&growth_cpus, &before, &f->cpu, BPF_ANY);
	c = bpf_map_lookup_elem(&growth_cpus, &mm);
	if (c && c->space == g->space)
		f->cpu = *c;
	else
		f->cpu.seen = 0;
	f->cpu.space = g->space;
	f->tgid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	f->mm = mm;
	f->step = step_of(g, bpf_ktime_get_ns());
	if (!has_cpu_counters())
		return 1;
	for (__u32 kind = 0; kind < RSS_KINDS; kind++)
		f->counter[kind] =
			(__u64)BPF_CORE_READ(counter_of((struct mm_struct *)mm, kind), counters) +
			cpu_offset(f);
	return 1;
}

BPF_INLINE int is_counted(struct growth_fault *f, __u64 mm)
{
	if (f->mm == mm && f->tgid == (__u32)(bpf_get_current_pid_tgid() >> 32))
		return 1;
	if (f->other == mm && ++f->others % OTHERS_ASK)
		return 0;
	return switch_to(mm);
}

/*
 * The kernel, or another process, changed its pages: what this CPU knows about its counters is not
 * valid any more.
 */
BPF_NOINLINE int by_another(__u64 mm, __u32 kind)
{
	struct growth_fault *f = the_fault();
	struct growth_cpu *c = bpf_map_lookup_elem(&growth_cpus, &mm);
	struct growth *g = bpf_map_lookup_elem(&growths, &mm);

	if (!f)
		return 0;
	if (f->mm == mm)
		f->cpu.seen = 0;
	if (c)
		c->seen = 0;
	if (g)
		g->pages[kind & (RSS_KINDS - 1)] = shared_count((struct mm_struct *)mm, kind);
	return 0;
}

/*
 * A CPU's counter becomes 0 when it is added to the shared one; any other change is the number of
 * new pages. The first change on a CPU counts as one page.
 */
BPF_INLINE __s64 cpu_change(struct growth_fault *f, struct mm_struct *mm, __u32 kind)
{
	__u64 key = (__u64)mm;
	struct growth *g;
	__s32 now = 0;
	__s64 change;

	if (bpf_probe_read_kernel(&now, sizeof(now), (void *)f->counter[kind]))
		return 0;
	change = f->cpu.seen & 1U << kind ? now - f->cpu.pages[kind] : 1;
	f->cpu.pages[kind] = now;
	f->cpu.seen |= 1U << kind;
	if (now)
		return change;
	g = bpf_map_lookup_elem(&growths, &key);
	return g ? change + shared_change(g, kind, shared_count(mm, kind)) : 0;
}

/* In older kernels a thread adds 64 pages at a time. */
BPF_INLINE __s64 old_change(struct mm_struct *mm, __u32 kind)
{
	__u64 key = (__u64)mm;
	struct growth *g = bpf_map_lookup_elem(&growths, &key);

	return g ? shared_change(g, kind, old_count(mm, kind)) : 0;
}

/* ---- what is drawn --------------------------------------------------------------------------- */

/* The value that the growth counts; 0: not sampled. */
BPF_INLINE __u64 draw(struct growth_fault *f, __u64 bytes)
{
	__u64 now, step = f->step, key = f->mm;
	struct growth *g;

	if (bytes < step && (bpf_get_prandom_u32() * step) >> 32 >= bytes)
		return 0;
	g = bpf_map_lookup_elem(&growths, &key);
	if (!g)
		return 0;
	now = bpf_ktime_get_ns();
	g->due_ns = (g->due_ns > now ? g->due_ns : now) + growth_cfg.interval_ns;
	f->step = step_of(g, now);
	return bytes < step ? step : bytes;
}

BPF_INLINE struct page_key page_of(const struct growth_fault *f, __u32 space)
{
	return (struct page_key){ f->addr >> f->bits << f->bits, space, f->bits };
}

/* It has been freed since it was sampled. */
BPF_NOINLINE int drop_page(__u32 space)
{
	struct growth_fault *f = the_fault();
	struct counters *c = the_counters();
	struct count_key key = {};
	struct count_val *count;
	struct page_key at;
	struct page_val *p;
	const __u8 *mark;
	__u32 slot;

	if (!f || !c)
		return 0;
	at = page_of(f, space);
	mark = the_mark(&at);
	if (!mark || !*mark)
		return 0;
	p = bpf_map_lookup_elem(&pages, &at);
	if (!p)
		return 0;
	key.space = p->space;
	key.thread = p->thread;
	key.stack = p->stack;
	count = p->window == (active_window & 1) ? find_count(p->window, &key) : NULL;
	if (count) {
		__sync_fetch_and_add(&count->samples, -1);
		__sync_fetch_and_add(&count->value, -p->value);
		c->n[CTR_counted]--;
		c->n[CTR_filtered_released]++;
	}
	slot = p->slot;
	share_delete(&pages, &at, shares_of(&page_shares), slot);
	return 0;
}

SEC("raw_tp/rss_stat")
int on_pages(struct bpf_raw_tracepoint_args *ctx)
{
	struct mm_struct *mm = (void *)ctx->args[0];
	__u32 kind = (__u32)ctx->args[1];
	struct growth_fault *f = the_fault();
	__s64 change;

	if (!f || f->value || kind >= RSS_KINDS || kind == RSS_SWAP)
		return 0;
	if (CURRENT_READ(current_task(), mm) != mm)
		return by_another((__u64)mm, kind);
	if (!is_counted(f, (__u64)mm))
		return 0;
	kind &= RSS_KINDS - 1;
	change = has_cpu_counters() ? cpu_change(f, mm, kind) : old_change(mm, kind);
	if (change <= 0)
		return 0;
	if (f->tid != (__u32)bpf_get_current_pid_tgid())
		f->addr = 0;
	f->bits = change << growth_cfg.page_bits >> HUGE_BITS ? HUGE_BITS : growth_cfg.page_bits;
	if (f->addr)
		drop_page(f->cpu.space);
	f->value = draw(f, (__u64)change << growth_cfg.page_bits);
	if (f->value)
		bpf_tail_call(ctx, &samplers, 0);
	f->value = 0;
	return 0;
}

/* ---- its stack ------------------------------------------------------------------------------- */

/* 0, or an error: there is no room, or too many are of this user. */
BPF_INLINE int put_page(const struct page_key *at, struct page_val *val)
{
	const struct page_val *old = bpf_map_lookup_elem(&pages, at);

	if (old) {
		val->slot = old->slot;
		return bpf_map_update_elem(&pages, at, val, BPF_EXIST);
	}
	val->slot = share_slot(current_task());
	return share_insert(&pages, at, val, shares_of(&page_shares), val->slot, PAGE_ENTRIES);
}

/* Names the stack of the current sample again, because aggregate() keeps no key. */
BPF_NOINLINE int remember_page(__u32 window)
{
	const struct walk *w = the_walk();
	struct growth_fault *f = the_fault();
	struct count_key key = {};
	struct page_val val = { .window = window };
	struct page_key at;
	__u8 *mark;

	if (!w || !f || !f->addr || name_stack(&key))
		return 0;
	at = page_of(f, w->thread.space);
	val.stack = key.stack;
	val.space = key.space;
	val.thread = key.thread;
	val.value = f->value;
	val.tgid = w->thread.tgid;
	if (put_page(&at, &val)) {
		stat_inc(CTR_note_memory_full);
		return 0;
	}
	mark = the_mark(&at);
	if (mark)
		*mark = 1;
	return 0;
}

/* Tail-called when a sample is due, with preemption off. */
SEC("raw_tp")
int on_growth(void *ctx)
{
	struct counters *c = the_counters();
	struct growth_fault *f = the_fault();
	struct trigger t = { .type = growth_cfg.type };
	__u32 verdict, window = active_window & 1;

	(void)ctx;
	if (!f || !c)
		return 0;
	t.value = f->value;
	c->n[CTR_delivered]++;
	verdict = take(&t, c);
	c->n[BOUND(verdict, COUNTER_SLOTS)]++;
	if (verdict == CTR_counted)
		remember_page(window);
	f->value = 0;
	return 0;
}
