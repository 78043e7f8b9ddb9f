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
#include "base/network.h"
#include "base/rate_limit.h"
#include "base/str.h"

/*
 * Bytes of several windows in one request: OTLP makes ten times as many of them, and gRPC takes 4
 * MiB.
 */
#define BATCH_BYTES    (256U << 10)
#define WAKE_TRIES     3
#define IDLE_MS	       60000 /* windows grow too old even when there is nothing else to do */
#define FAILING_SAY_NS (10 * RATE_LIMIT_MINUTE)
#define REOPEN_MS      60000
#define HOUR_MS	       (60 * 60000)
/* What is logged about single services in an hour. */
#define SERVICES_SAID  5
#define SLOTS	       (PUSH_IN_FLIGHT_MAX + 1) /* one for a service that was refused */
/*
 * An answer like "500" may be the backend's trouble or this window's. After PUSH_SUSPECT_TRIES of
 * them the next window is tried as well; once others have been taken so often, it is the window.
 */
#define PROOFS	       3
/*
 * Parts of retry-min. If a backend refuses one service after the other, these are the first and the
 * longest wait between the tries of different services: of those that were well, and of those that
 * were refused before.
 */
#define GAP_FIRST      16
#define GAP_WELL       4
/* Factors that slow down the tries if a person has to fix the cause. */
#define SLOW_MIN       (RETRY_SLOW_MIN_MS / 1000)
#define SLOW_MAX       5

struct slot {
	struct push_http http;
	struct spool_item items[PUSH_WINDOWS_MAX]; /* the windows of the request */
	size_t cnt;
	bool busy;
	bool probe;    /* not the oldest: it was tried because that one fails */
	bool troubled; /* of a service that was refused the last time */
};

struct destination {
	const struct push_config *c;
	const char *spool_dir; /* in which its spool is; the push's */
	struct spool *spool;
	CURLM *multi;
	pthread_t thread;
	uint64_t reopen_ms; /* if it is not running */
	bool no_network;    /* which was said when it was opened */

	/* For the thread only. */
	struct slot slots[SLOTS];
	unsigned busy;	     /* slots */
	bool troubled;	     /* one of them is that */
	unsigned failures;   /* in a row, for which no service is to blame */
	uint64_t next_ms;    /* not before */
	unsigned refused[2]; /* services in a row: that were well, that were troubled before */
	uint64_t other_ms;   /* no troubled one before */
	bool idle;	     /* there was nothing to send */
	/* windows that are sent one by one: there is one among them that is not taken */
	unsigned alone;
	uint64_t report_ms; /* of what waits; 0: nothing was refused since the spool was empty */
	struct rate_limit said_failing, said_rejected, said_services;

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

	if (d->no_network || !rate_limit__allows(&d->said_failing, FAILING_SAY_NS, &held))
		return;
	spool__stats(d->spool, &s);
	log_warn("push %s: %s (next try in %.1f s; waiting windows: %" PRIu64 ")", d->c->name, why,
		 (double)delay_ms / 1000, s.windows);
}

/* Of one service: once as long as it is refused; of many services only a few. */
static void say_refused(struct destination *d, const struct spool_item *item, const char *why,
			uint64_t delay_ms)
{
	uint64_t held;

	if (d->no_network || item->service->said ||
	    !rate_limit__allows_at(&d->said_services, SERVICES_SAID, HOUR_MS * NS_PER_MS, now_ns(),
				   &held))
		return;
	item->service->said = true;
	log_warn("push %s: service %s: %s (next try in %.1f s; its waiting windows: %" PRIu64
		 "; other services are sent)",
		 d->c->name, item->service->name, why, (double)delay_ms / 1000, item->waiting);
}

static void say_works(struct destination *d)
{
	struct spool_stats s;

	spool__stats(d->spool, &s);
	log_info("push %s: works again (waiting windows: %" PRIu64 ")", d->c->name, s.windows);
	d->said_failing = (struct rate_limit){ 0 };
}

static void say_service_works(const struct destination *d, const struct spool_item *item)
{
	if (item->service->said)
		log_info("push %s: service %s: works again (its waiting windows: %" PRIu64 ")",
			 d->c->name, item->service->name, item->waiting);
}

static void say_rejected(struct destination *d, const struct spool_item *item, const char *why)
{
	uint64_t held;

	if (rate_limit__allows(&d->said_rejected, RATE_LIMIT_MINUTE, &held))
		log_warn("push %s: refused: %s (service %s)", d->c->name, why, item->service->name);
}

/* What waits, and whose it is. */
static void report(const struct destination *d, const char *what)
{
	struct strbuf text = { 0 };
	struct spool_stats s;

	spool__say_losses(d->spool);
	spool__stats(d->spool, &s);
	if (s.windows)
		spool__print_waiting(d->spool, &text);
	if (text.len && !text.err)
		log_warn("push %s: %s: %s", d->c->name, what, text.s);
	strbuf__free(&text);
}

/* Once an hour after the first failure, until nothing waits. */
static void report_hourly(struct destination *d)
{
	uint64_t now = now_ms();
	struct spool_stats s;

	if (!d->report_ms || now < d->report_ms)
		return;
	spool__stats(d->spool, &s);
	d->report_ms = s.windows ? now + HOUR_MS : 0;
	report(d, "still waiting");
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
	if (h->status)
		d->no_network = false; /* by the loopback, or there is one by now */
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

static void note_failure(struct destination *d)
{
	if (!d->report_ms)
		d->report_ms = now_ms() + HOUR_MS;
	pthread_mutex_lock(&d->lock);
	d->stats.failing = true; /* also when there was no request, for want of a token */
	pthread_mutex_unlock(&d->lock);
}

static uint64_t delay_after(const struct destination *d, unsigned failures, bool slow,
			    uint64_t after_ms)
{
	return push_delay(failures, d->c->retry_min_ms * (slow ? SLOW_MIN : 1),
			  d->c->retry_max_ms * (slow ? SLOW_MAX : 1), after_ms, random32());
}

/* All services wait. */
static void back_off(struct destination *d, bool slow, const char *why)
{
	uint64_t delay = delay_after(d, ++d->failures, slow, 0);

	d->next_ms = later(d->next_ms, now_ms() + delay);
	note_failure(d);
	say_failing(d, why, delay);
}

/* A backend that refuses every service gets one try for each, but not all of them at once. */
static void space_out(struct destination *d, bool troubled)
{
	uint64_t min = d->c->retry_min_ms / GAP_FIRST + 1;
	uint64_t max = troubled ? d->c->retry_min_ms : d->c->retry_min_ms / GAP_WELL + 1;
	uint64_t next = now_ms() + push_delay(++d->refused[troubled], min, max, 0, random32());

	if (troubled)
		d->other_ms = next;
	else
		d->next_ms = later(d->next_ms, next);
}

/* Only the service waits. */
static void hold_service(struct destination *d, const struct slot *x, bool slow, const char *why)
{
	const struct spool_item *item = &x->items[0];
	uint64_t delay = delay_after(d, item->failures + 1, slow, x->http.retry_after_ms);

	spool__judge(d->spool, item, PUSH_SERVICE_HOLD, now_ms() + delay, x->http.status);
	space_out(d, x->troubled);
	note_failure(d);
	say_refused(d, item, why, delay);
}

static void release(struct destination *d, struct slot *x, enum spool_end end, bool tried)
{
	for (size_t i = 0; i < x->cnt; i++)
		spool__done(d->spool, &x->items[i], end, tried);
	x->cnt = 0;
	strbuf__free(&x->http.message.body); /* of a large window; the next may be small */
	x->busy = false;
	d->troubled &= !x->troubled;
	d->busy--;
}

static void succeed(struct destination *d, struct slot *x)
{
	bool failed = d->failures > 0;

	d->failures = 0;
	d->refused[false] = 0;
	d->next_ms = 0;
	if (x->troubled) {
		d->refused[true] = 0;
		d->other_ms = 0;
	}
	for (size_t i = 0; i < x->cnt; i++) {
		say_service_works(d, &x->items[i]);
		spool__judge(d->spool, &x->items[i], PUSH_SERVICE_TAKES, 0, 0);
	}
	release(d, x, SPOOL_SENT, false);
	if (failed && !x->probe)
		say_works(d);
}

/* The backend has time for others, as far as can be told: it names a time, or refuses too many. */
static bool asks_for_time(const struct push_http *h)
{
	return h->retry_after_ms || h->status == 429;
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
	return !x->probe && x->cnt == 1 && may_be_the_window(d, &x->http) &&
	       spool__suspect(d->spool, &x->items[0]) >= PROOFS;
}

/* Which of several it is, shows when each goes alone. */
static void send_alone(struct destination *d, struct slot *x)
{
	d->alone = (unsigned)x->cnt;
	release(d, x, SPOOL_KEEP, false);
}

static bool is_of_one_service(const struct slot *x)
{
	for (size_t i = 1; i < x->cnt; i++)
		if (x->items[i].service != x->items[0].service)
			return false;
	return true;
}

/* The trouble of this service alone: the backend says so, or takes others meanwhile. */
static bool is_its_own(const struct destination *d, const struct slot *x)
{
	return asks_for_time(&x->http) || x->troubled || spool__is_alone(d->spool, &x->items[0]);
}

static void keep(struct destination *d, struct slot *x, bool slow, const char *why)
{
	bool one = is_of_one_service(x);

	if (!one && asks_for_time(&x->http)) {
		space_out(d, false);
		note_failure(d);
		send_alone(d, x);
		return;
	}
	if (one && is_its_own(d, x)) {
		hold_service(d, x, slow, why);
	} else {
		back_off(d, slow, why);
		/* The first time the order stays. After that the next of others shows more. */
		if (one && x->items[0].tries)
			spool__judge(d->spool, &x->items[0], PUSH_SERVICE_BEHIND, 0,
				     x->http.status);
	}
	release(d, x, SPOOL_KEEP, true);
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
		say_rejected(d, &x->items[0], why);
		d->failures = 0;
		spool__judge(d->spool, &x->items[0], PUSH_SERVICE_WELL, 0, 0);
		release(d, x, SPOOL_DROP_rejected, false);
		return;
	}
	keep(d, x, v == PUSH_SLOW, why);
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
	d->troubled |= x->troubled;
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
	back_off(d, err != -ENOMEM, x->http.why.len ? x->http.why.s : strerror(-err));
	release(d, x, SPOOL_KEEP, false);
}

static struct slot *free_slot(struct destination *d)
{
	struct slot *x = d->slots;

	while (x->busy)
		x++;
	return x;
}

static unsigned well_busy(const struct destination *d)
{
	return d->busy - d->troubled;
}

/* While it fails, one at a time. */
static bool may_send_well(const struct destination *d)
{
	if (d->failures || d->refused[false])
		return !d->busy;
	return well_busy(d) < d->c->max_in_flight;
}

/* One service that was refused at a time, beside the others. */
static bool may_send_troubled(const struct destination *d)
{
	return !d->troubled && now_ms() >= d->other_ms && (!d->failures || !d->busy);
}

/* After the first window: more, if the backend takes several and nothing speaks against them. */
static void fill(struct destination *d, struct slot *x)
{
	size_t bytes = x->items[0].file.w.pprof_size;

	if (d->alone) {
		d->alone--;
		return;
	}
	if (!d->c->kind->many || d->failures || x->probe || x->troubled)
		return;
	while (x->cnt < d->c->max_windows &&
	       !spool__take(d->spool, PUSH_TURN_WELL, &x->items[x->cnt])) {
		bytes += x->items[x->cnt].file.w.pprof_size;
		if (bytes > BATCH_BYTES) {
			spool__done(d->spool, &x->items[x->cnt], SPOOL_KEEP, false);
			return;
		}
		x->cnt++;
	}
}

static int take(struct destination *d, struct slot *x)
{
	unsigned which = (may_send_well(d) ? PUSH_TURN_WELL : 0) |
			 (may_send_troubled(d) ? PUSH_TURN_TROUBLED : 0);
	int err = spool__take(d->spool, which, &x->items[0]);

	if (err)
		return err;
	x->troubled = x->items[0].failures > 0;
	x->probe = x->items[0].probe;
	x->cnt = 1;
	return 0;
}

static void start_what_waits(struct destination *d)
{
	while (now_ms() >= d->next_ms && d->busy < SLOTS) {
		struct slot *x = free_slot(d);
		int err = take(d, x);

		if (err == -ENOENT)
			return;
		if (err) {
			back_off(d, false, strerror(-err));
			continue;
		}
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

/* When the next request can begin, as far as the spool knows; PUSH_NEVER: at the end of another. */
static uint64_t next_due(const struct destination *d)
{
	uint64_t well, other, due = PUSH_NEVER;

	spool__due(d->spool, &well, &other);
	if (may_send_well(d))
		due = well;
	if (!d->troubled && (!d->failures || !d->busy) && other != PUSH_NEVER) {
		other = later(other, d->other_ms);
		due = other < due ? other : due;
	}
	return due;
}

/* Milliseconds until there is something to do; -1: it is over. */
static int next_wait(struct destination *d)
{
	uint64_t now = now_ms(), wait = IDLE_MS, deadline, due = next_due(d);
	bool closing, waits = due <= now;

	pthread_mutex_lock(&d->lock);
	closing = d->closing;
	deadline = d->deadline_ms;
	pthread_mutex_unlock(&d->lock);
	if (waits && d->idle && !d->failures)
		d->next_ms = later(d->next_ms, closing ? 0 : now + spread_ms(d));
	d->idle = !waits && !d->busy;
	if (due != PUSH_NEVER)
		due = later(due, d->next_ms);
	if (closing && (now >= deadline || (!d->busy && due >= deadline)))
		return -1;
	if (due < now + wait)
		wait = due > now ? due - now : 0;
	if (closing && wait > deadline - now)
		wait = deadline - now;
	return (int)wait;
}

static void give_back(struct destination *d)
{
	for (size_t i = 0; i < SLOTS; i++) {
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
		report_hourly(d);
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
	for (unsigned i = 0; i < d->c->max_in_flight + 1 && !err; i++)
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
	for (size_t i = 0; i < SLOTS; i++) {
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

/* Says it once for all destinations, whose failures would say less. */
static bool lacks_network(size_t cnt)
{
	const char *why = cnt ? network__missing(NULL) : NULL;

	if (why)
		log_warn("push: the agent has no network: %s; windows wait in the spools; %s", why,
			 NETWORK_REMEDY);
	return why;
}

struct push *push__open(const struct push_config *c, size_t n, const char *spool_dir)
{
	struct push *p = calloc(1, sizeof(*p));
	bool no_network;

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
	no_network = lacks_network(n);
	for (; p->cnt < n; p->cnt++) {
		p->list[p->cnt].no_network = no_network;
		init_destination(&p->list[p->cnt], &c[p->cnt], p->spool_dir);
		start_destination(&p->list[p->cnt]);
	}
	return p;
}

/* It writes to a socket, which may fail: then the thread would sleep until something is due. */
static void wake(struct destination *d)
{
	for (int i = 0; i < WAKE_TRIES && curl_multi_wakeup(d->multi); i++)
		;
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
	wake(d);
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

static void end_thread(struct destination *d)
{
	pthread_join(d->thread, NULL);
	report(d, "left in the spool for the next start");
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
			wake(d);
	}
	for (size_t i = 0; i < p->cnt; i++) {
		if (p->list[i].running)
			end_thread(&p->list[i]);
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
