// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/push_retry.h"

#include <curl/curl.h>
#include <string.h>

#include "base/str.h"

enum push_verdict push_judge(int status)
{
	if (status >= 200 && status < 300)
		return PUSH_SENT;
	switch (status) {
	case 401: /* rights */
	case 402:
	case 403:
	case 407:
	case 404: /* address */
	case 405:
	case 410:
	case 421:
	case 501:
	case 505:
	case 406: /* format: another version of the backend, or another kind */
	case 415:
	case 426:
		return PUSH_SLOW;
	case 408:
	case 409: /* with another request at the same time; the window itself is in order */
	case 425:
	case 429:
		return PUSH_RETRY;
	}
	if (status >= 300 &&
	    status < 400) /* not followed: credentials go where they were meant to */
		return PUSH_SLOW;
	return status >= 400 && status < 500 ? PUSH_REJECTED : PUSH_RETRY;
}

int push_grpc_status(unsigned grpc_status)
{
	/* https://grpc.github.io/grpc/core/md_doc_statuscodes.html, by number. */
	static const int http[] = {
		[0] = 200,  /* OK */
		[1] = 500,  /* CANCELLED */
		[2] = 500,  /* UNKNOWN */
		[3] = 400,  /* INVALID_ARGUMENT */
		[4] = 504,  /* DEADLINE_EXCEEDED */
		[5] = 404,  /* NOT_FOUND */
		[6] = 200,  /* ALREADY_EXISTS: sent twice */
		[7] = 403,  /* PERMISSION_DENIED */
		[8] = 429,  /* RESOURCE_EXHAUSTED */
		[9] = 400,  /* FAILED_PRECONDITION */
		[10] = 409, /* ABORTED */
		[11] = 400, /* OUT_OF_RANGE */
		[12] = 501, /* UNIMPLEMENTED */
		[13] = 500, /* INTERNAL */
		[14] = 503, /* UNAVAILABLE */
		[15] = 500, /* DATA_LOSS */
		[16] = 401, /* UNAUTHENTICATED */
	};

	return grpc_status < sizeof(http) / sizeof(http[0]) ? http[grpc_status] : 500;
}

static uint64_t scale(uint64_t range, uint32_t random)
{
	return range * random >> 32; /* range is below an hour: 22 bits */
}

uint64_t push_delay(unsigned failures, uint64_t min_ms, uint64_t max_ms, uint64_t after_ms,
		    uint32_t random)
{
	uint64_t delay = min_ms;

	for (unsigned i = 1; i < failures && delay < max_ms; i++)
		delay *= 2;
	if (delay > max_ms)
		delay = max_ms;
	delay = delay - delay / 2 + scale(delay / 2, random);
	after_ms += scale(after_ms / 10, random);
	return delay > after_ms ? delay : after_ms;
}

uint64_t push_retry_after(const char *value, time_t now)
{
	long long seconds;
	time_t date;

	if (!*value)
		return 0;
	if (strspn(value, "0123456789") == strlen(value)) {
		/* Too long to be parsed is long. */
		if (parse_int(value, 0, RETRY_AFTER_MAX_MS / 1000, &seconds))
			return RETRY_AFTER_MAX_MS;
		return (uint64_t)seconds * 1000;
	}
	date = curl_getdate(value, NULL);
	if (date == -1 || date <= now)
		return 0;
	if (date - now > (time_t)(RETRY_AFTER_MAX_MS / 1000))
		return RETRY_AFTER_MAX_MS;
	return (uint64_t)(date - now) * 1000;
}
