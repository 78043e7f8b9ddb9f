/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_GIVEN_H
#define PYPERF_AGENT_GIVEN_H
/*
 * Sockets that the service manager has opened and handed over (sd_listen_fds(3)): descriptors from
 * 3 on, LISTEN_FDS of them for the process LISTEN_PID, with the names LISTEN_FDNAMES ("a:b"). They
 * may be of a network that this process is not in. `listen` of the configuration decides: the
 * socket that listens at this address is used, others are not.
 *
 *	struct given given;
 *
 *	given__take(&given);
 *	fd = given__find(&given, &config->http);	-1: the agent has to listen itself
 *	...
 *	given__close(&given);
 */
#include <stddef.h>
#include <sys/socket.h>

#include "agent/http/http.h"

#define GIVEN_MAX 8 /* sockets */

struct given_socket {
	int fd;
	struct sockaddr_storage address;
	char name[64]; /* of its unit, made safe; for messages */
};

struct given {
	struct given_socket list[GIVEN_MAX];
	size_t cnt;
};

/*
 * Keeps those that are listening stream sockets, with close-on-exec, and closes others after a
 * message. Removes the variables: they are not for children.
 */
void given__take(struct given *g);
/*
 * The socket that listens where the configuration says, borrowed until given__close(); -1: none.
 * Says which ones are not used, and how that can be changed. A file to which every user of the host
 * may connect is not used, as no token is asked for there.
 */
int given__find(const struct given *g, const struct http_config *c);
void given__close(struct given *g);

#endif /* PYPERF_AGENT_GIVEN_H */
