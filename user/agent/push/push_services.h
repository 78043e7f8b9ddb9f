/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_SERVICES_H
#define PYPERF_AGENT_PUSH_SERVICES_H
/*
 * The windows that wait for one destination: a queue for each service, and whose turn it is. A
 * backend that refuses one service for a while holds the windows of that service only.
 *
 *	well		the last try was a success, or there was none: its oldest window is in turn
 *	held		refused: not before a point in time
 *	troubled	refused the last time, and that time is over: in turn again, for one try
 *
 * Among services that are well the oldest window is the next, among the troubled the service that
 * was held until the earliest time.
 *
 * Invariant: a service exists as long as a window of it waits, so there are never more services
 * than windows, whose number the owner bounds. Every operation takes a time that grows with the
 * logarithm of the number of services, however many windows are held. The windows of a service
 * leave in the order of their numbers, except that a probe overtakes the first one.
 *
 * No files, no network and no lock here: the owner (spool.h) locks, and owns the bytes in `memory`
 * until push_services__remove(), which frees them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "store/window.h"

#define PUSH_SERVICE_NAME_MAX 120 /* characters of a name; longer ones are cut, and may meet */
#define PUSH_NEVER	      UINT64_MAX

struct push_service;

struct push_window {
	uint64_t number; /* grows from window to window */
	uint64_t start_unix_ns, end_unix_ns;
	void *memory;  /* the bytes, if they are in no file */
	uint32_t size; /* of the bytes */
	uint16_t tries;
	bool taken; /* being written or sent: not in turn */
	struct push_service *service;
	struct push_window *before, *after; /* in all; `after`: the next newer one */
	struct push_window *sooner, *later; /* in its service */
};

struct push_service {
	char *name;
	struct push_window *first, *last;
	uint64_t windows;
	unsigned failures;  /* in a row, that were its own; 0: it is well */
	int status;	    /* of the last failure: HTTP, 0: no answer */
	uint64_t hold_ms;   /* held until then; 0: it is not */
	uint64_t held_ms;   /* the last value of it: the troubled take turns by that */
	uint64_t behind;    /* other services first, up to the window with this number */
	uint64_t failed_at; /* successes of all services when it failed; PUSH_NEVER: it did not */
	unsigned errors;    /* of its first window, which may be at fault */
	uint64_t errors_at; /* successes of all services at the first of them */
	bool probe;	    /* the next try is for its second window: the first one is suspect */
	bool said;	    /* its trouble was logged */

	uint64_t hash;
	struct push_service *next_same; /* in the bucket */
	struct push_turns *turns;	/* in which it is; NULL: all its windows are taken */
	size_t place;
	uint64_t key; /* the smallest is the next */
};

/* A heap of services. */
struct push_turns {
	struct push_service **list;
	size_t cnt;
};

/* Valid when all zero. */
struct push_services {
	struct push_window *first, *last;
	uint64_t successes; /* windows that were sent */
	struct push_service **buckets;
	size_t cnt, cap; /* services; buckets and room in each of the heaps */
	struct push_turns well, troubled, held;
};

/* Appends the service of a window: "web", or "namespace/web", safe for a message. */
void push_service_name(const struct window *w, struct strbuf *out);

/*
 * Adds a window, whose number is the largest. `w` was allocated and is owned from now on. 0 or
 * -ENOMEM.
 */
int push_services__add(struct push_services *s, const char *service, struct push_window *w);
/* Frees the window, and its service if no other waits. */
void push_services__remove(struct push_services *s, struct push_window *w);
void push_services__free(struct push_services *s);

/* The oldest window that is not taken; NULL: none. */
struct push_window *push_services__oldest(const struct push_services *s);

/* Of which services. */
#define PUSH_TURN_WELL	   1U
#define PUSH_TURN_TROUBLED 2U

/*
 * The window whose turn it is; with both bits, one of a troubled service first. NULL: none. *probe:
 * it is not the first of its service, which fails.
 */
struct push_window *push_services__next(struct push_services *s, uint64_t now_ms, unsigned which,
					bool *probe);
/* Takes a window, or gives it back. */
void push_services__set_taken(struct push_services *s, struct push_window *w, bool taken);
/*
 * When the next window of a service that is well is in turn, and of another one. PUSH_NEVER: none
 * waits.
 */
void push_services__due(const struct push_services *s, uint64_t *well_ms, uint64_t *other_ms);

/* What a request says about the service of its windows. */
enum push_service_verdict {
	PUSH_SERVICE_TAKES,  /* its window was sent */
	PUSH_SERVICE_WELL,   /* not that, but the backend does not hold it */
	PUSH_SERVICE_HOLD,   /* the backend refuses it for now */
	PUSH_SERVICE_BEHIND, /* it failed, which may not be its fault: others first */
};

/* `until_ms`: for HOLD. `status`: for the last two. */
void push_services__judge(struct push_services *s, struct push_service *x,
			  enum push_service_verdict v, uint64_t until_ms, int status);
/*
 * The backend answered a window, sent alone, with an error that may be the window's fault. After
 * PUSH_SUSPECT_TRIES of them the next try of its service is for the window behind it. Returns how
 * many windows were sent since the first error, or 0 before that.
 */
#define PUSH_SUSPECT_TRIES 8
uint64_t push_services__suspect(struct push_services *s, struct push_window *w);
/* Did windows of others arrive since it failed? Then it is not the backend that is down. */
bool push_services__is_alone(const struct push_services *s, const struct push_service *x);

/*
 * Appends "131 windows of 4 services: web 100 (status 429), shop/api 20 (no answer), ..." with the
 * services that have the most windows.
 */
void push_services__print(const struct push_services *s, uint64_t windows, struct strbuf *out);

#endif /* PYPERF_AGENT_PUSH_SERVICES_H */
