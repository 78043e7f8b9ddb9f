/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/probing.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/loader.h"
#include "base/log.h"
#include "base/percpu.h"
#include "base/signals.h"
#include "base/str.h"
#include "base/stream.h"
#include "follow/held.h"
#include "hist.skel.h"
#include "process/mapped.h"
#include "trace/price.h"
#include "trace/probe_price.h"

#define BAR_CHARS    24
#define AGAIN_ALL_MS 10000 /* between two judgements of all processes: /proc is read for each */

struct probing {
	const struct probing_opts *o;
	struct hist_bpf *skel;
	struct readers *readers;
	struct probe_set set;
	struct probe_spots *spots[SAMPLED_MAX]; /* of each place */
	bool said_other[SAMPLED_MAX];		/* the process has another file there */
	struct uprobe_prices prices;		/* unless it is forced */
	struct probe_price *price;		/* while it is measured */
	uint64_t price_ns;			/* when that begins, or ends */
	bool judged;				/* once, or oftener */
	int signal_fd, pid_fd;
	uint64_t start_ns, end_ns; /* end_ns 0: it still goes on */
	bool over;		   /* the user ends it, or the process has ended */
	int err;
};

/* ---- what is asked for ----------------------------------------------------------------------- */

int probing__add(struct probing_opts *o, const char *event)
{
	const char *colon = strchr(event, ':');
	size_t len = colon ? (size_t)(colon - event) : 0;

	if (o->cnt == SAMPLED_MAX) {
		log_err("-e %s: at most %d probes at once", event, SAMPLED_MAX);
		return -EINVAL;
	}
	if (len == strlen("uprobe") && !strncmp(event, "uprobe", len))
		return probe_place__parse(&o->places[o->cnt++], "uprobe", colon + 1);
	if (len == strlen("usdt") && !strncmp(event, "usdt", len))
		return probe_place__parse(&o->places[o->cnt++], "usdt", colon + 1);
	log_err("-e %s: must be uprobe:PATH:PLACE or usdt:PATH:PROVIDER:NAME; what else record "
		"takes has no arguments",
		event);
	return -EINVAL;
}

/* ---- breakpoints ----------------------------------------------------------------------------- */

static struct bpf_program *program_of(const struct probing *p, uint32_t type)
{
	char name[16];

	snprintf(name, sizeof(name), "on_value%u", type);
	return bpf_object__find_program_by_name(p->skel->obj, name);
}

/* The path of a command is ours: it is not there yet. */
static int attach(struct probing *p, uint32_t type)
{
	const struct probe_place *place = &p->o->places[type];
	struct probe_spots *spots =
		probe_place__find(place, p->readers, p->o->command ? -1 : p->o->pid);
	int err;

	if (!spots)
		return -errno;
	/* Where hits do not tell their place, all count as the dearest. */
	for (size_t i = 0; i < spots->cnt; i++)
		if (!spots->at[i].emulated)
			p->skel->bss->stepped[probe_set__number(&p->set, type, i)] = 1;
	err = probe_set__add(&p->set, place, spots, type, p->o->pid,
			     bpf_program__fd(program_of(p, type)));
	p->spots[type] = spots;
	return err;
}

/* Of files that were replaced by others: breakpoints are in one of them alone. */
static void warn_of_others(struct probing *p, const char *what)
{
	for (uint32_t i = 0; i < p->o->cnt && p->o->pid > 0; i++) {
		if (p->said_other[i] || !mapped__has_other(p->readers, p->o->pid, p->spots[i]->ef))
			continue;
		p->said_other[i] = true;
		log_warn("-e %s: process %d %s", p->o->places[i].text, p->o->pid, what);
	}
}

/* The price of hits, with the program of the first place, whose count begins again then. */
static int measure(struct probing *p)
{
	if (p->o->force)
		return 0;
	uprobe__prices(bpf_program__fd(program_of(p, 0)), &p->prices);
	return percpu__clear(bpf_map__fd(p->skel->maps.probe_hists), 0, sizeof(struct probe_hist));
}

static int load(struct probing *p)
{
	struct probe_namespace *ns;
	int err;

	p->set.cookies = uprobe__has_cookies();
	p->skel = hist_bpf__open();
	if (!p->skel)
		return log_no_memory();
	((struct probe_cfg *)&p->skel->rodata->probe_cfg)->by_cookie = p->set.cookies;
	ns = (struct probe_namespace *)&p->skel->rodata->probe_namespace;
	*ns = probe_price__namespace();
	err = loader__load_now(p->skel->skeleton, " of probes", "");
	p->set.rules_fd = bpf_map__fd(p->skel->maps.probe_rules);
	return err ? err : measure(p);
}

static int prepare(struct probing *p)
{
	int err;

	p->readers = readers__new();
	if (p->readers)
		readers__start(p->readers);
	err = held__refuse(p->readers);
	if (!err)
		err = load(p);
	if (err)
		return err;
	p->signal_fd = signals__open(NULL, false);
	if (p->o->pid > 0)
		p->pid_fd = (int)syscall(SYS_pidfd_open, p->o->pid, 0);
	if (p->signal_fd < 0 || (p->o->pid > 0 && p->pid_fd < 0)) {
		log_err("process %d: %s", p->o->pid,
			strerror(p->pid_fd < 0 ? errno : -p->signal_fd));
		return -EIO;
	}
	for (uint32_t i = 0; i < p->o->cnt && !err; i++)
		err = attach(p, i);
	if (!err)
		warn_of_others(p, "runs a file that was replaced by the one at this path: its hits "
				  "are not counted; start the process anew");
	return err;
}

/* ---- what was counted ------------------------------------------------------------------------ */

/* Of all CPUs. */
static int read_hist(const struct probing *p, uint32_t type, struct probe_hist *sum)
{
	*sum = (struct probe_hist){ 0 };
	return percpu__add(bpf_map__fd(p->skel->maps.probe_hists), type, sum, sizeof(*sum));
}

static uint64_t first_of(int bucket)
{
	return bucket ? 1ULL << (bucket - 1) : 0;
}

static uint64_t last_of(int bucket)
{
	return bucket ? first_of(bucket) - 1 + first_of(bucket) : 0;
}

static void grouped(uint64_t n, char out[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = '\0';
}

static void write_rows(const struct probe_hist *h)
{
	int first = 0, last = PROBE_BUCKETS - 1, width;
	char from[32], to[32], hits[32];
	uint64_t most = 1;

	while (first < last && !h->bucket[first])
		first++;
	while (last > first && !h->bucket[last])
		last--;
	for (int i = first; i <= last; i++)
		most = h->bucket[i] > most ? h->bucket[i] : most;
	grouped(last_of(last), to);
	width = strlen(to) > 6 ? (int)strlen(to) : 6;
	printf("\n%*s - %-*s %14s\n", width, "FROM", width, "TO", "HITS");
	for (int i = first; i <= last; i++) {
		int bar = (int)ceil((double)h->bucket[i] * BAR_CHARS / (double)most);

		grouped(first_of(i), from);
		grouped(last_of(i), to);
		grouped(h->bucket[i], hits);
		printf("%*s - %-*s %14s |%.*s%*s|\n", width, from, width, to, hits, bar,
		       "@@@@@@@@@@@@@@@@@@@@@@@@", BAR_CHARS - bar, "");
	}
}

static double seconds(const struct probing *p)
{
	return (double)((p->end_ns ? p->end_ns : now_ns()) - p->start_ns) / NS_PER_S;
}

static void write_text(const struct probing *p, const struct probe_place *place,
		       const struct probe_hist *h)
{
	const char *kind = probe_place__is_usdt(place) ? "usdt" : "uprobe";
	struct strbuf name = { 0 };
	char n[32], sum[32], average[32];

	str_sanitise(&name, place->text, strlen(place->text), 0);
	grouped(h->hits, n);
	printf("%s:%s: %s hit%s in %.1f s", kind, name.err ? "?" : name.s, n,
	       h->hits == 1 ? "" : "s", seconds(p));
	strbuf__free(&name);
	if (place->words.amount.number && h->hits) {
		grouped(h->sum, sum);
		grouped(h->sum / h->hits, average);
		printf(", %s in all, %s on average", sum, average);
	}
	if (h->others) {
		grouped(h->others, n);
		printf("; %s did not count", n);
	}
	if (h->unread)
		printf("; of %" PRIu64 " an argument could not be read", (uint64_t)h->unread);
	putchar('\n');
	if (place->words.hist && h->hits)
		write_rows(h);
	putchar('\n');
}

static void write_json(const struct probing *p, const struct probe_place *place,
		       const struct probe_hist *h)
{
	struct json j = { .f = stdout };

	json__object(&j, NULL);
	json__stringz(&j, "kind", probe_place__is_usdt(place) ? "usdt" : "uprobe");
	json__stringz(&j, "probe", place->text);
	json__double(&j, "seconds", seconds(p));
	json__bool(&j, "final", p->end_ns != 0);
	json__uint(&j, "hits", h->hits);
	json__uint(&j, "not_counted", h->others);
	json__uint(&j, "unread", h->unread);
	if (place->words.amount.number)
		json__uint(&j, "sum", h->sum);
	if (place->words.hist) {
		json__array(&j, "hist");
		for (int i = 0; i < PROBE_BUCKETS; i++) {
			if (!h->bucket[i])
				continue;
			json__object(&j, NULL);
			json__uint(&j, "from", first_of(i));
			json__uint(&j, "to", last_of(i));
			json__uint(&j, "hits", h->bucket[i]);
			json__end(&j, '}');
		}
		json__end(&j, ']');
	}
	json__end(&j, '}');
	putchar('\n');
}

static int show(struct probing *p)
{
	for (uint32_t i = 0; i < p->o->cnt && !p->err; i++) {
		struct probe_hist h;

		p->err = read_hist(p, i, &h);
		if (!p->err)
			(p->o->json ? write_json : write_text)(p, &p->o->places[i], &h);
	}
	if (!p->err)
		p->err = stream__flush(stdout);
	if (p->err)
		log_err("trace -e: %s", strerror(-p->err));
	return p->err;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void wait_until(struct probing *p, uint64_t until_ns)
{
	struct pollfd fds[] = { { .fd = p->signal_fd, .events = POLLIN },
				{ .fd = p->pid_fd, .events = POLLIN } };
	uint64_t now = now_ns();
	uint64_t ms = until_ns > now ? (until_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;

	if (poll(fds, 2, until_ns == UINT64_MAX ? -1 : (int)(ms < INT32_MAX ? ms : INT32_MAX)) > 0)
		p->over = true;
}

/* Hits are noted for a while, as that makes each dearer. */
static int begin_price(struct probing *p)
{
	const struct probe_price_opts o = {
		.pid = p->o->pid,
		.max_slowdown = p->o->max_slowdown,
		.costs_fd = bpf_map__fd(p->skel->maps.probe_costs),
		.prices = p->prices,
		.advice = "choose a place that is reached less often, as a condition does not "
			  "save the trap",
		.again = p->judged,
	};

	p->price = probe_price__begin(&o);
	if (!p->price)
		return log_no_memory();
	p->skel->bss->measuring = 1;
	p->price_ns = now_ns() + PRICE_MEASURE_MS * NS_PER_MS;
	return 0;
}

/* -EBUSY after a message: it costs too much. A process that has ended is judged no more. */
static int end_price(struct probing *p)
{
	int err;

	p->skel->bss->measuring = 0;
	err = p->over ? 0 : probe_price__judge(p->price);
	probe_price__free(p->price);
	p->price = NULL;
	p->judged = true;
	p->price_ns = now_ns() + (p->o->pid > 0 ? PRICE_AGAIN_MS : AGAIN_ALL_MS) * NS_PER_MS;
	return err;
}

static int look_at_price(struct probing *p)
{
	if (p->o->force || p->over || now_ns() < p->price_ns)
		return 0;
	return p->price ? end_price(p) : begin_price(p);
}

static int count(struct probing *p)
{
	uint64_t step = (uint64_t)(p->o->interval_s * 1e9);
	uint64_t next = step ? p->start_ns + step : UINT64_MAX, until;
	uint64_t end = p->o->duration_s > 0 ? p->start_ns + (uint64_t)(p->o->duration_s * 1e9)
					    : UINT64_MAX;
	int refused = 0;

	while (!p->over && !refused && now_ns() < end) {
		until = next < end ? next : end;
		wait_until(p, p->o->force || until < p->price_ns ? until : p->price_ns);
		refused = look_at_price(p);
		if (p->over || refused || now_ns() < next)
			continue;
		if (show(p))
			return p->err;
		next = next_round(next, step, now_ns());
	}
	p->end_ns = now_ns();
	uprobe_list__close(&p->set.breakpoints);
	if (show(p))
		return p->err;
	warn_of_others(p, "has loaded another file from this path since, as the file was replaced: "
			  "its hits are not counted; trace it anew");
	return refused;
}

/* Ends with an error what costs too much. */
static int judge(struct probing *p)
{
	int err = begin_price(p);

	if (!err && p->o->command)
		err = p->o->command->go(p->o->command->ctx);
	if (err)
		return err;
	wait_until(p, p->price_ns);
	return end_price(p);
}

/* From here on the command runs, and hits count. */
static int begin(struct probing *p)
{
	int err = 0;

	signals__hand_over(1);
	p->start_ns = now_ns();
	if (!p->o->force)
		err = judge(p);
	else if (p->o->command)
		err = p->o->command->go(p->o->command->ctx);
	if (!err)
		log_info("counting hits; Ctrl-C ends it");
	return err;
}

int probing__run(const struct probing_opts *o)
{
	struct probing p = { .o = o, .signal_fd = -1, .pid_fd = -1 };
	int err = prepare(&p);

	if (!err)
		err = begin(&p);
	if (!err)
		err = count(&p);
	uprobe_list__close(&p.set.breakpoints);
	probe_price__free(p.price);
	for (uint32_t i = 0; i < o->cnt; i++)
		probe_spots__free(p.spots[i]);
	readers__free(p.readers);
	hist_bpf__destroy(p.skel);
	if (p.signal_fd >= 0)
		close(p.signal_fd);
	if (p.pid_fd >= 0)
		close(p.pid_fd);
	return err != 0;
}
