// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/push.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/push/push_http.h"
#include "agent/push/push_kind.h"
#include "agent/push/push_retry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/seldom.h"
#include "base/str.h"

/*
 * Bytes of several windows in one request: OTLP makes ten times as many of them, and gRPC takes 4
 * MiB.
 */
#define BATCH_BYTES    (256U << 10)
#define IDLE_MS	       60000 /* windows grow too old even when there is nothing else to do */
#define FAILING_SAY_NS (10 * SELDOM_MINUTE)
#define REOPEN_MS      60000
/*
 * An answer like "500" may be the backend's trouble or this window's. After so many of them to one
 * window the next one is tried as well; once others have been taken so often, it is the window.
 */
#define SUSPECT_TRIES  8
#define PROOFS	       3
/* Factors that slow down the tries if a person has to fix the cause. */
#define SLOW_MIN       (RETRY_SLOW_MIN_MS / 1000)
#define SLOW_MAX       5

struct slot {
	struct push_http http;
	struct spool_item items[PUSH_WINDOWS_MAX]; /* the windows of the request */
	size_t cnt;
	bool busy;
	bool probe; /* not the oldest: it was tried because that one fails */
};

struct destination {
	const struct push_config *c;
	const char *spool_dir; /* in which its spool is; the push's */
	struct spool *spool;
	CURLM *multi;
	pthread_t thread;
	uint64_t reopen_ms; /* if it is not running */

	/* For the thread only. */
	struct slot slots[PUSH_IN_FLIGHT_MAX];
	unsigned busy;
	size_t taken;	   /* windows in busy slots */
	unsigned failures; /* in a row */
	uint64_t next_ms;  /* not before */
	uint64_t asked_ms; /* Retry-After: not before that, whatever else is taken meanwhile */
	bool idle;	   /* there was nothing to send */
	bool probe_next;
	unsigned
		/* windows that are sent one by one: there is one among them that is not taken */
		alone;
	unsigned proofs; /* windows that were taken while the oldest was not */
	struct seldom said_failing, said_rejected;

	pthread_mutex_t lock; /* of what follows */
	bool running;
	bool closing;
	uint64_t deadline_ms;
	uint64_t lost;		 /* windows, when it was not running */
	struct push_stats stats; /* without the spool's */
};

struct push {
	char *spool_dir;
	struct destination *list;
	size_t cnt;
};

static uint32_t random32(void)
{
	uint32_t r;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		r = (uint32_t)now_ns(); /* early at boot; any spread is better than none */
	return r;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- What the end of a request means --------------------------------------------------------- */

static void say_failing(struct destination *d, const char *why, uint64_t delay_ms)
{
	struct spool_stats s;
	uint64_t held;

	if (!seldom(&d->said_failing, FAILING_SAY_NS, &held))
		return;
	spool__stats(d->spool, &s);
	log_warn("push %s: %s (next try in %.1f s; waiting windows: %" PRIu64 ")", d->c->name, why,
		 (double)delay_ms / 1000, s.windows);
}

static void say_works(struct destination *d)
{
	struct spool_stats s;

	spool__stats(d->spool, &s);
	log_info("push %s: works again (waiting windows: %" PRIu64 ")", d->c->name, s.windows);
	d->said_failing = (struct seldom){ 0 };
}

static void say_rejected(struct destination *d, const char *why)
{
	uint64_t held;

	if (seldom(&d->said_rejected, SELDOM_MINUTE, &held))
		log_warn("push %s: refused: %s", d->c->name, why);
}

static enum push_verdict judge(const struct push_http *h, const struct push_kind *kind,
			       CURLcode code)
{
	switch (code) {
	case CURLE_OK:
		return h->status == kind->vague ? PUSH_RETRY : push_judge(h->status);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_URL_MALFORMAT:
		return PUSH_SLOW;
	default:
		return PUSH_RETRY;
	}
}

static void count_end(struct destination *d, const struct slot *x, enum push_verdict v)
{
	const struct push_http *h = &x->http;
	struct push_stats *s = &d->stats;

	pthread_mutex_lock(&d->lock);
	s->requests++;
	s->retries += x->items[0].tries > 0;
	s->failures += v != PUSH_SENT;
	s->latency_sum_ns += h->latency_ns;
	if (h->latency_ns > s->latency_max_ns)
		s->latency_max_ns = h->latency_ns;
	s->last_status = h->status;
	s->failing = v != PUSH_SENT;
	if (v == PUSH_SENT) {
		struct timespec now;

		clock_gettime(CLOCK_REALTIME, &now);
		s->sent_bytes += h->message.body.len;
		s->last_sent_unix_ns = timespec_ns(now);
	}
	pthread_mutex_unlock(&d->lock);
}

static void back_off(struct destination *d, bool slow, uint64_t after_ms, const char *why)
{
	const struct push_config *c = d->c;
	uint64_t delay = push_delay(++d->failures, c->retry_min_ms * (slow ? SLOW_MIN : 1),
				    c->retry_max_ms * (slow ? SLOW_MAX : 1), after_ms, random32());
	uint64_t next = now_ms() + delay;

	d->next_ms = later(d->next_ms, next);
	if (after_ms)
		d->asked_ms = later(d->asked_ms, next);
	pthread_mutex_lock(&d->lock);
	d->stats.failing = true; /* also when there was no request, for want of a token */
	pthread_mutex_unlock(&d->lock);
	say_failing(d, why, delay);
}

static void release(struct destination *d, struct slot *x, enum spool_end end, bool tried)
{
	for (size_t i = 0; i < x->cnt; i++)
		spool__done(d->spool, &x->items[i], end, tried);
	d->taken -= x->cnt;
	x->cnt = 0;
	strbuf__free(&x->http.message.body); /* of a large window; the next may be small */
	x->busy = false;
	d->busy--;
}

static void succeed(struct destination *d, struct slot *x)
{
	bool failed = d->failures > 0;

	d->failures = 0;
	d->next_ms = d->asked_ms;
	d->proofs = x->probe ? d->proofs + 1 : 0;
	d->probe_next = false;
	release(d, x, SPOOL_SENT, false);
	if (failed && !x->probe)
		say_works(d);
}

/*
 * A backend that is busy says so, or asks for time; these may as well be what it does with this
 * window.
 */
static bool may_be_the_window(const struct destination *d, const struct push_http *h)
{
	if (h->retry_after_ms)
		return false;
	if (h->status == 429) /* gRPC also calls a message that is too large so */
		return d->c->kind->grpc;
	return h->status && h->status != 503;
}

/* Is it this window's fault, as far as can be told? */
static bool is_hopeless(struct destination *d, const struct slot *x)
{
	if (x->probe || x->cnt > 1 || x->items[0].tries + 1 < SUSPECT_TRIES ||
	    !may_be_the_window(d, &x->http)) {
		d->probe_next = false;
		return false;
	}
	d->probe_next = true;
	return d->proofs >= PROOFS;
}

/* Which of several it is, shows when each goes alone. */
static void send_alone(struct destination *d, struct slot *x)
{
	d->alone = (unsigned)x->cnt;
	release(d, x, SPOOL_KEEP, false);
}

static void fail(struct destination *d, struct slot *x, enum push_verdict v)
{
	const struct push_http *h = &x->http;
	const char *why = h->why.len ? h->why.s : "no answer";

	if (v == PUSH_REJECTED && x->cnt > 1) {
		send_alone(d, x);
		return;
	}
	if (v == PUSH_REJECTED || (v == PUSH_RETRY && is_hopeless(d, x))) {
		say_rejected(d, why);
		d->probe_next = false;
		d->proofs = 0;
		d->failures = 0;
		release(d, x, SPOOL_DROP_rejected, false);
		return;
	}
	back_off(d, v == PUSH_SLOW, h->retry_after_ms, why);
	release(d, x, SPOOL_KEEP, true);
}

static void finish(struct destination *d, struct slot *x, CURLcode code)
{
	enum push_verdict v;

	push_http__finish(&x->http, d->c, code);
	v = judge(&x->http, d->c->kind, code);
	count_end(d, x, v);
	if (v == PUSH_SENT)
		succeed(d, x);
	else
		fail(d, x, v);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void add_address(struct strbuf *to, const struct push_config *c)
{
	size_t len = strlen(c->url);

	while (len && c->url[len - 1] == '/')
		len--;
	strbuf__add(to, c->url, len);
	strbuf__addz(to, c->kind->path);
}

/*
 * The key of several windows differs from that of each of them, so that no backend takes the
 * request for a duplicate.
 */
static void make_key(char key[WINDOW_ID_LEN + 1], const struct window *const *windows, size_t cnt)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t k = 0; k < WINDOW_ID_LEN; k++) {
		unsigned sum = (unsigned)cnt - 1;

		for (size_t i = 0; i < cnt; i++)
			sum += (unsigned)(strchr(digits, windows[i]->id[k]) - digits);
		key[k] = digits[sum % 16];
	}
	key[WINDOW_ID_LEN] = '\0';
}

/* The windows in x->items on their way; what goes wrong before there is a request is dealt with. */
static void start(struct destination *d, struct slot *x)
{
	const struct window *windows[PUSH_WINDOWS_MAX];
	struct push_message *m = &x->http.message;
	char key[WINDOW_ID_LEN + 1];
	int err;

	for (size_t i = 0; i < x->cnt; i++)
		windows[i] = &x->items[i].file.w;
	make_key(key, windows, x->cnt);
	x->busy = true;
	d->busy++;
	d->taken += x->cnt;
	strbuf__clear(&m->url);
	strbuf__clear(&m->body);
	if (d->c->kind->path)
		add_address(&m->url, d->c);
	err = d->c->kind->encode(d->c, windows, x->cnt, m);
	if (err == -EINVAL && x->cnt > 1) {
		send_alone(d, x);
		return;
	}
	if (err == -EINVAL) {
		release(d, x, SPOOL_DROP_unfit, false);
		return;
	}
	if (!err)
		err = push_http__prepare(&x->http, d->c, key);
	if (!err && curl_multi_add_handle(d->multi, x->http.easy))
		err = -ENOMEM;
	if (!err)
		return;
	back_off(d, err != -ENOMEM, 0, x->http.why.len ? x->http.why.s : strerror(-err));
	release(d, x, SPOOL_KEEP, false);
}

static struct slot *free_slot(struct destination *d)
{
	struct slot *x = d->slots;

	while (x->busy)
		x++;
	return x;
}

/* While it fails, one at a time. */
static unsigned allowed(const struct destination *d)
{
	return d->failures ? 1 : d->c->max_in_flight;
}

/* After the first window: more, if the backend takes several and nothing speaks against them. */
static void fill(struct destination *d, struct slot *x)
{
	size_t bytes = x->items[0].file.w.pprof_size;

	if (d->alone) {
		d->alone--;
		return;
	}
	if (!d->c->kind->many || d->failures || x->probe)
		return;
	while (x->cnt < d->c->max_windows && !spool__take(d->spool, false, &x->items[x->cnt])) {
		bytes += x->items[x->cnt].file.w.pprof_size;
		if (bytes > BATCH_BYTES) {
			spool__done(d->spool, &x->items[x->cnt], SPOOL_KEEP, false);
			return;
		}
		x->cnt++;
	}
}

static void start_what_waits(struct destination *d)
{
	while (now_ms() >= d->next_ms && d->busy < allowed(d)) {
		struct slot *x = free_slot(d);
		int err = d->probe_next ? spool__take(d->spool, true, &x->items[0]) : -ENOENT;

		x->probe = !err;
		if (err)
			err = spool__take(d->spool, false, &x->items[0]);
		if (err == -ENOENT)
			return;
		if (err) {
			back_off(d, false, 0, strerror(-err));
			continue;
		}
		x->cnt = 1;
		fill(d, x);
		start(d, x);
	}
}

static void end_what_is_done(struct destination *d)
{
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(d->multi, &left))) {
		CURLcode code = msg->data.result;
		struct slot *x = NULL;
		char *http;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &http);
		x = (struct slot *)(http - offsetof(struct slot, http));
		curl_multi_remove_handle(d->multi, x->http.easy);
		finish(d, x, code);
	}
}

static uint64_t spread_ms(const struct destination *d)
{
	return (d->c->spread_ms * random32()) >> 32;
}

/* Milliseconds until there is something to do; -1: it is over. */
static int next_wait(struct destination *d)
{
	uint64_t now = now_ms(), wait = IDLE_MS, deadline;
	struct spool_stats s;
	bool closing, waits;

	pthread_mutex_lock(&d->lock);
	closing = d->closing;
	deadline = d->deadline_ms;
	pthread_mutex_unlock(&d->lock);
	spool__stats(d->spool, &s);
	waits = s.windows > d->taken;
	if (waits && d->idle && !d->failures)
		d->next_ms = later(d->asked_ms, closing ? 0 : now + spread_ms(d));
	d->idle = !waits && !d->busy;
	if (closing && (now >= deadline || (!d->busy && (!waits || d->next_ms >= deadline))))
		return -1;
	if (waits && d->busy < allowed(d))
		wait = d->next_ms > now ? d->next_ms - now : 0;
	if (closing && wait > deadline - now)
		wait = deadline - now;
	return wait < IDLE_MS ? (int)wait : IDLE_MS;
}

static void give_back(struct destination *d)
{
	for (size_t i = 0; i < PUSH_IN_FLIGHT_MAX; i++) {
		if (!d->slots[i].busy)
			continue;
		curl_multi_remove_handle(d->multi, d->slots[i].http.easy);
		release(d, &d->slots[i], SPOOL_KEEP, false);
	}
}

static void *send_windows(void *ctx)
{
	struct destination *d = ctx;
	int wait, running;

	while ((wait = next_wait(d)) >= 0) {
		if (wait)
			curl_multi_poll(d->multi, NULL, 0, wait, NULL);
		start_what_waits(d);
		curl_multi_perform(d->multi, &running);
		end_what_is_done(d);
	}
	give_back(d);
	return NULL;
}

/* ---- Open and close -------------------------------------------------------------------------- */

static int open_spool(struct destination *d)
{
	struct strbuf path = { 0 };
	int err = 0;

	if (mkdir(d->spool_dir, 0700) && errno != EEXIST) {
		err = -errno;
		log_err("push %s: %s: %s", d->c->name, d->spool_dir, strerror(errno));
		return err;
	}
	strbuf__addf(&path, "%s/%s", d->spool_dir, d->c->name);
	if (path.err) {
		log_no_memory();
		return path.err;
	}
	d->spool = spool__open(path.s, d->c->name, &d->c->spool);
	if (!d->spool)
		err = -errno;
	strbuf__free(&path);
	return err;
}

/*
 * Without signals: they are for others, and OpenSSL writes to closed connections, which is SIGPIPE.
 * libcurl's own threads inherit that.
 */
static int create_thread(struct destination *d)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&d->thread, NULL, send_windows, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

static int start_thread(struct destination *d)
{
	int err = 0;

	d->multi = curl_multi_init();
	if (!d->multi)
		err = -ENOMEM;
	for (unsigned i = 0; i < d->c->max_in_flight && !err; i++)
		err = push_http__init(&d->slots[i].http);
	if (!err)
		err = create_thread(d);
	if (err)
		log_err("push %s: %s", d->c->name, strerror(-err));
	return err;
}

/* Frees its parts, except for the lock. */
static void take_apart(struct destination *d)
{
	for (size_t i = 0; i < PUSH_IN_FLIGHT_MAX; i++) {
		push_http__free(&d->slots[i].http);
		d->slots[i] = (struct slot){ 0 };
	}
	curl_multi_cleanup(d->multi);
	spool__close(d->spool);
	d->multi = NULL;
	d->spool = NULL;
}

/* If that fails, it is tried again. */
static void start_destination(struct destination *d)
{
	int err = open_spool(d);

	if (!err)
		err = start_thread(d);
	if (err)
		take_apart(d);
	d->reopen_ms = now_ms() + REOPEN_MS;
	pthread_mutex_lock(&d->lock);
	d->running = !err;
	d->stats.failing = err;
	pthread_mutex_unlock(&d->lock);
}

static void init_destination(struct destination *d, const struct push_config *c,
			     const char *spool_dir)
{
	d->c = c;
	d->spool_dir = spool_dir;
	d->idle = true;
	d->stats.name = c->name;
	d->stats.kind = c->kind->name;
	pthread_mutex_init(&d->lock, NULL);
	if (c->insecure_skip_verify)
		log_warn("push %s: insecure-skip-verify: any server that answers gets "
			 "profiles and credentials",
			 c->name);
	if (!strncmp(c->url, "http:", 5) && (c->bearer_token_file || c->password_file))
		log_warn("push %s: the url is http: credentials can be read on the way", c->name);
}

struct push *push__open(const struct push_config *c, size_t n, const char *spool_dir)
{
	struct push *p = calloc(1, sizeof(*p));

	if (p) {
		p->list = calloc(n + 1, sizeof(*p->list));
		p->spool_dir = strdup(spool_dir);
	}
	if (!p || !p->list || !p->spool_dir || curl_global_init(CURL_GLOBAL_DEFAULT)) {
		log_no_memory();
		push__close(p, 0);
		errno = ENOMEM;
		return NULL;
	}
	for (; p->cnt < n; p->cnt++) {
		init_destination(&p->list[p->cnt], &c[p->cnt], p->spool_dir);
		start_destination(&p->list[p->cnt]);
	}
	return p;
}

static int put(struct destination *d, const struct window *w)
{
	int err;

	if (!d->running && now_ms() >= d->reopen_ms)
		start_destination(d);
	if (!d->running) {
		pthread_mutex_lock(&d->lock);
		d->lost++;
		pthread_mutex_unlock(&d->lock);
		return -EIO;
	}
	err = spool__put(d->spool, w);
	curl_multi_wakeup(d->multi);
	return err;
}

int push__put(struct push *p, const struct window *w)
{
	int first = 0;

	for (size_t i = 0; i < p->cnt; i++) {
		int err = put(&p->list[i], w);

		first = first ? first : err;
	}
	return first;
}

void push__close(struct push *p, uint64_t deadline_ms)
{
	uint64_t deadline = now_ms() + deadline_ms;

	if (!p)
		return;
	for (size_t i = 0; i < p->cnt; i++) {
		struct destination *d = &p->list[i];

		pthread_mutex_lock(&d->lock);
		d->closing = true;
		d->deadline_ms = deadline;
		pthread_mutex_unlock(&d->lock);
		if (d->running)
			curl_multi_wakeup(d->multi);
	}
	for (size_t i = 0; i < p->cnt; i++) {
		if (p->list[i].running)
			pthread_join(p->list[i].thread, NULL);
		take_apart(&p->list[i]);
		pthread_mutex_destroy(&p->list[i].lock);
	}
	free(p->spool_dir);
	free(p->list);
	free(p);
}

size_t push__count(const struct push *p)
{
	return p->cnt;
}

void push__stats(struct push *p, size_t i, struct push_stats *out)
{
	struct destination *d = &p->list[i];
	uint64_t lost;
	bool running;

	pthread_mutex_lock(&d->lock);
	*out = d->stats;
	lost = d->lost;
	running = d->running;
	pthread_mutex_unlock(&d->lock);
	if (running)
		spool__stats(d->spool, &out->spool);
	out->spool.put += lost;
	out->spool.dropped[SPOOL_DROP_disk] += lost;
}
