/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/oom.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "export/draft.h"

#define NAME_LEN   96
#define PATH_LEN   4096
#define PREFIX	   "oom-"
#define SUFFIX	   ".txt"
#define LISTED_MAX 10
#define LEVELS	   8

struct witness {
	uint32_t space, tgid;
	char name[NAME_LEN];
	bool seen; /* in this round */
	bool ended;
	uint32_t cnt;
	uint64_t rss[OOM_POINTS]; /* oldest first */
};

struct oom {
	char *root;
	uint64_t kills; /* the kernel's count */
	bool known;	/* ... was read before */
	uint64_t new_kills;
	uint64_t due_s;	 /* the page; 0: none */
	uint64_t next_s; /* the next readings */
	long page_size;
	struct witness *at; /* OOM_PROCESSES */
	size_t cnt;
};

struct oom *oom__new(const char *root)
{
	struct oom *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->root = strdup(root);
	o->at = calloc(OOM_PROCESSES, sizeof(*o->at));
	o->page_size = sysconf(_SC_PAGESIZE);
	if (o->root && o->at)
		return o;
	oom__free(o);
	return NULL;
}

void oom__free(struct oom *o)
{
	if (!o)
		return;
	free(o->root);
	free(o->at);
	free(o);
}

/* ---- what is kept beforehand ----------------------------------------------------------------- */

static uint64_t read_rss(const struct oom *o, uint32_t tgid)
{
	char path[PATH_LEN], text[128];
	unsigned long long size, rss;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/statm", o->root, tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%llu %llu", &size, &rss) == 2 ? rss * (uint64_t)o->page_size : 0;
}

/* Tests of the agent want readings sooner, as they want shorter windows. */
static uint32_t apart_s(void)
{
	return getenv("PYPERF_AGENT_SHORT_WINDOWS") ? 1 : OOM_APART_S;
}

/* False: this kernel does not count them. */
static bool read_kills(const struct oom *o, uint64_t *kills)
{
	char path[PATH_LEN], line[128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/vmstat", o->root);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "oom_kill %" SCNu64, kills) == 1;
	if (f)
		fclose(f);
	return found;
}

static void note_rss(struct witness *w, uint64_t rss)
{
	if (w->cnt == OOM_POINTS)
		memmove(w->rss, w->rss + 1, (OOM_POINTS - 1) * sizeof(w->rss[0]));
	else
		w->cnt++;
	w->rss[w->cnt - 1] = rss;
}

/* A process that ends has no memory any more a moment before it is known to have ended. */
static void read_all(struct oom *o)
{
	log_debug("resident memory of %zu processes", o->cnt);
	for (size_t i = 0; i < o->cnt; i++) {
		uint64_t rss = o->at[i].ended ? 0 : read_rss(o, o->at[i].tgid);

		if (rss)
			note_rss(&o->at[i], rss);
		else
			o->at[i].ended = true;
	}
}

static void forget_ended(struct oom *o)
{
	size_t kept = 0;

	for (size_t i = 0; i < o->cnt; i++) {
		if (!o->at[i].seen || o->at[i].ended)
			continue;
		if (kept != i)
			o->at[kept] = o->at[i];
		kept++;
	}
	o->cnt = kept;
}

void oom__note(struct oom *o, uint32_t space, uint32_t tgid, const char *name, bool ended)
{
	struct witness *w = NULL;
	struct strbuf safe = { 0 };

	for (size_t i = 0; i < o->cnt && !w; i++)
		if (o->at[i].space == space && o->at[i].tgid == tgid)
			w = &o->at[i];
	if (!w && (ended || o->cnt == OOM_PROCESSES))
		return;
	if (!w) {
		w = &o->at[o->cnt++];
		*w = (struct witness){ .space = space, .tgid = tgid };
	}
	w->seen = true;
	w->ended |= ended;
	str_sanitise(&safe, name, strlen(name), NAME_LEN - 1);
	if (!safe.err && safe.len)
		snprintf(w->name, sizeof(w->name), "%s", safe.s);
	strbuf__free(&safe);
}

void oom__read(struct oom *o, uint64_t now_s)
{
	uint64_t kills;

	if (!read_kills(o, &kills))
		return;
	if (o->known && kills > o->kills) {
		o->new_kills += kills - o->kills;
		if (!o->due_s)
			o->due_s = now_s + OOM_SETTLE_S;
	}
	o->known = true;
	o->kills = kills;
	/* Until the page is written those that ended are kept. */
	if (now_s < o->next_s || o->due_s)
		return;
	o->next_s = now_s + apart_s();
	forget_ended(o);
	read_all(o);
}

void oom__look(struct oom *o, const struct process_table *procs, uint64_t now_s)
{
	struct process *p;

	if (o->due_s || now_s >= o->next_s) {
		for (size_t i = 0; i < o->cnt; i++)
			o->at[i].seen = false;
		for (size_t at = 0; (p = process_table__next(procs, &at));)
			if (p->is_python)
				oom__note(o, p->space, p->tgid, *p->title ? p->title : p->comm,
					  p->exited);
	}
	oom__read(o, now_s);
}

bool oom__is_due(const struct oom *o, uint64_t now_s)
{
	return o->due_s && now_s >= o->due_s;
}

/* ---- the page -------------------------------------------------------------------------------- */

static uint64_t last_rss(const struct witness *w)
{
	return w->cnt ? w->rss[w->cnt - 1] : 0;
}

static int64_t grown(const struct witness *w)
{
	return w->cnt ? (int64_t)(w->rss[w->cnt - 1] - w->rss[0]) : 0;
}

static int by_rss(const void *a, const void *b)
{
	const struct witness *x = a, *y = b;

	if (last_rss(x) != last_rss(y))
		return last_rss(x) > last_rss(y) ? -1 : 1;
	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

static int by_growth(const void *a, const void *b)
{
	const struct witness *x = a, *y = b;

	return grown(x) != grown(y) ? (grown(x) > grown(y) ? -1 : 1) : by_rss(a, b);
}

static void add_mib(struct strbuf *b, const char *sign, uint64_t bytes)
{
	strbuf__addf(b, "%s%.1f MiB", sign, (double)bytes / (1 << 20));
}

/* Its readings, as bars from none to the most. */
static void add_bars(struct strbuf *b, const struct witness *w)
{
	static const char *const bars[LEVELS] = { "\u2581", "\u2582", "\u2583", "\u2584",
						  "\u2585", "\u2586", "\u2587", "\u2588" };
	uint64_t most = 1;

	for (uint32_t i = 0; i < w->cnt; i++)
		most = w->rss[i] > most ? w->rss[i] : most;
	for (uint32_t i = 0; i < w->cnt; i++)
		strbuf__addz(b, bars[w->rss[i] * (LEVELS - 1) / most]);
}

static void add_witness(struct strbuf *b, const struct witness *w)
{
	int64_t more = grown(w);

	strbuf__addf(b, "  %7" PRIu32 "  ", w->tgid);
	add_mib(b, "", last_rss(w));
	strbuf__addz(b, ", ");
	add_mib(b, more < 0 ? "-" : "+", (uint64_t)(more < 0 ? -more : more));
	strbuf__addf(b, " in %u s  %s\n           ", w->cnt ? (w->cnt - 1) * apart_s() : 0,
		     w->name);
	add_bars(b, w);
	strbuf__addc(b, '\n');
}

static void add_list(struct strbuf *b, const struct oom *o, bool ended)
{
	size_t listed = 0, more = 0;

	for (size_t i = 0; i < o->cnt; i++) {
		const struct witness *w = &o->at[i];

		if (w->ended != ended || !w->cnt || (!ended && grown(w) <= 0))
			continue;
		if (listed++ < LISTED_MAX)
			add_witness(b, w);
		else
			more++;
	}
	if (more)
		strbuf__addf(b, "  ... %zu more\n", more);
	if (!listed)
		strbuf__addz(b, "  none\n");
}

static void add_page(struct strbuf *b, struct oom *o, const char *how, const char *when)
{
	strbuf__addf(
		b, "The kernel killed %" PRIu64 " process%s for lack of memory, up to %s UTC.\n\n",
		o->new_kills, o->new_kills == 1 ? "" : "es", when);
	strbuf__addz(b,
		     "Python processes that ended at that time, the largest first; resident memory "
		     "as it was up\nto 5 s before, and how it went:\n");
	qsort(o->at, o->cnt, sizeof(*o->at), by_rss);
	add_list(b, o, true);
	strbuf__addz(b, "\nThose that go on and grew, most first:\n");
	qsort(o->at, o->cnt, sizeof(*o->at), by_growth);
	add_list(b, o, false);
	strbuf__addf(b, "\n%s\n", how);
}

static int is_page(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return len > strlen(PREFIX SUFFIX) && !strncmp(d->d_name, PREFIX, strlen(PREFIX)) &&
	       !strcmp(d->d_name + len - strlen(SUFFIX), SUFFIX);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/*
 * Their names begin with the time. Those behind the newest one are of a clock that ran ahead, and
 * are older than all others.
 */
static void remove_old(const char *dir, const char *newest)
{
	char path[PATH_LEN];
	struct dirent **pages;
	int cnt = scandir(dir, &pages, is_page, by_name), first = 0;

	while (first < cnt && strcmp(pages[first]->d_name, newest) <= 0)
		first++;
	for (int i = 0; i < cnt; i++) {
		const char *name = pages[(first + i) % cnt]->d_name;

		snprintf(path, sizeof(path), "%s/%s", dir, name);
		if (i + OOM_PAGES < cnt)
			unlink(path);
	}
	for (int i = 0; i < cnt; i++)
		free(pages[i]);
	if (cnt >= 0)
		free(pages);
}

/* The largest one that ended; NULL: none that is known. */
static const struct witness *largest_ended(const struct oom *o)
{
	const struct witness *best = NULL;

	for (size_t i = 0; i < o->cnt; i++)
		if (o->at[i].ended && o->at[i].cnt &&
		    (!best || last_rss(&o->at[i]) > last_rss(best)))
			best = &o->at[i];
	return best;
}

static void say(const struct oom *o, const char *path)
{
	const struct witness *w = largest_ended(o);
	const char *processes = o->new_kills == 1 ? "process" : "processes";

	if (w)
		log_warn("the kernel killed %" PRIu64 " %s for lack of memory; %s (%" PRIu32
			 ") ended then, with %" PRIu64 " MiB, %+" PRId64 " in %u s: %s",
			 o->new_kills, processes, w->name, w->tgid, last_rss(w) >> 20,
			 grown(w) / (1 << 20), (w->cnt - 1) * apart_s(), path);
	else
		log_warn("the kernel killed %" PRIu64 " %s for lack of memory, no Python process "
			 "that was known: %s",
			 o->new_kills, processes, path);
}

int oom__write(struct oom *o, const char *dir, const char *how, uint64_t unix_s)
{
	char path[PATH_LEN], name[64], when[32], stamp[32];
	time_t time = (time_t)unix_s;
	struct strbuf b = { 0 };
	struct tm tm;
	int err;

	gmtime_r(&time, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(name, sizeof(name), PREFIX "%s" SUFFIX, stamp);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (size_t i = 0; i < o->cnt; i++)
		if (!o->at[i].seen || !read_rss(o, o->at[i].tgid))
			o->at[i].ended = true;
	add_page(&b, o, how, when);
	err = b.err ? b.err : draft__put(dir, name, 0600, b.s, b.len);
	strbuf__free(&b);
	if (err)
		log_err("%s: %s", path, strerror(-err));
	else
		remove_old(dir, name);
	say(o, err ? "no page could be written" : path);
	o->new_kills = 0;
	o->due_s = 0;
	return err;
}
