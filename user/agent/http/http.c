// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The protocol's side of the endpoint, on libmicrohttpd: sockets, connections and their deadlines,
 * workers.
 *
 * All of the library runs in one thread of ours, by epoll. A request that takes time suspends its
 * connection and is answered by a worker; the library then calls on_request() once more for it.
 */
#include "agent/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/http/http_guard.h"
#include "agent/http/http_routes.h"
#include "agent/http/http_token.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/network.h"
#include "base/thread.h"

#define BACKLOG		 128
#define LONGEST_SLEEP_MS 1000
#define FILE_LIMIT	 (64 << 10) /* bytes of a certificate or a key */
#define BIG_ANSWER	 (64 << 10)
#define NEVER		 UINT64_MAX
/* GnuTLS's own choice of ciphers, without versions that nobody needs any more. */
#define TLS_VERSIONS	 "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* A file that is read again when it changes. */
struct watched {
	const char *path;
	struct timespec mtime;
	off_t size;
	ino_t inode;
};

struct conn {
	int fd;	       /* -1: free */
	bool asked;    /* its request is complete */
	uint64_t body; /* bytes of it that came */
	uint64_t deadline_ms;
};

/* A request that takes time, from its thread's start until its answer is sent. */
struct worker {
	struct http *h;
	struct MHD_Connection *connection; /* NULL: free */
	const struct http_route *route;
	struct http_args args;
	struct http_answer answer;
	pthread_t thread;
	bool joined;
};

struct http {
	struct http_config config;
	const struct http_backend *backend;
	struct MHD_Daemon *daemon;
	int listen_fd;
	int wake_fd; /* an answer is ready, or: */
	atomic_bool stop;
	struct stat socket; /* of the Unix socket that is ours */
	pthread_t thread;
	struct conn conns[HTTP_CONNECTIONS];
	unsigned conn_cnt;
	struct worker workers[HTTP_WORKERS + 1]; /* the last one is for figures */
	struct watched token_file, cert_file, key_file;
	char token[HTTP_TOKEN_MAX + 1]; /* "": nobody may */
	char *cert, *key;
};

/* ---- files ----------------------------------------------------------------------------------- */

/* Has the file changed since the last call? */
static bool watched__changed(struct watched *w)
{
	struct stat st = { 0 };

	if (!w->path[0])
		return false;
	if (stat(w->path, &st))
		memset(&st, 0, sizeof(st)); /* reading it will tell */
	if (st.st_ino == w->inode && st.st_size == w->size &&
	    st.st_mtim.tv_sec == w->mtime.tv_sec && st.st_mtim.tv_nsec == w->mtime.tv_nsec)
		return false;
	w->inode = st.st_ino;
	w->size = st.st_size;
	w->mtime = st.st_mtim;
	return true;
}

/* All of a small file, with a NUL behind it. NULL and errno after a message. */
static char *read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = malloc(FILE_LIMIT + 1);
	size_t len = 0;
	ssize_t n = 1;
	int err = 0;

	if (fd < 0 || !text)
		err = errno;
	while (!err && n > 0 && len < FILE_LIMIT) {
		n = read(fd, text + len, FILE_LIMIT - len);
		if (n < 0)
			err = errno;
		else
			len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	if (!err && len == FILE_LIMIT)
		err = EFBIG;
	if (err) {
		log_err("%s: %s", path, strerror(err));
		free(text);
		errno = err;
		return NULL;
	}
	text[len] = 0;
	return text;
}

/* Reads certificate and key, or keeps the old ones. 0 or negative errno after a message. */
static int read_tls(struct http *h)
{
	char *cert = read_file(h->cert_file.path);
	char *key = cert ? read_file(h->key_file.path) : NULL;

	if (!key) {
		int err = -errno;

		free(cert);
		return err;
	}
	free(h->cert);
	free(h->key);
	h->cert = cert;
	h->key = key;
	return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* There is always one: the library, too, accepts HTTP_CONNECTIONS at most. */
static struct conn *conn_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void add_headers(struct MHD_Response *r, const struct http_answer *a)
{
	char save[128];

	/*
	 * One request for each connection: the rest of a body, or a second request, is never
	 * read.
	 */
	MHD_add_response_header(r, "Connection", "close");
	MHD_add_response_header(r, "Content-Type", a->type);
	MHD_add_response_header(r, "Content-Security-Policy", a->policy);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(r, "Cache-Control", "no-store");
	if (a->file) {
		snprintf(save, sizeof(save), "attachment; filename=\"%s\"", a->file);
		MHD_add_response_header(r, "Content-Disposition", save);
	}
	switch (a->status) {
	case MHD_HTTP_UNAUTHORIZED:
		MHD_add_response_header(r, "WWW-Authenticate",
					"Basic realm=\"pyperf-bpf\", charset=\"UTF-8\"");
		break;
	case MHD_HTTP_METHOD_NOT_ALLOWED:
		MHD_add_response_header(r, "Allow", "GET, HEAD");
		break;
	case MHD_HTTP_SERVICE_UNAVAILABLE:
		MHD_add_response_header(r, "Retry-After", "5");
		break;
	}
}

/* Takes the body of the answer. */
static enum MHD_Result send_answer(struct MHD_Connection *c, struct http_answer *a)
{
	enum MHD_Result result;
	struct MHD_Response *r =
		MHD_create_response_from_buffer(a->size, a->body, MHD_RESPMEM_MUST_FREE);

	if (!r) {
		http_answer__free(a);
		return MHD_NO;
	}
	a->body = NULL;
	add_headers(r, a);
	conn_of(c)->deadline_ms = now_ms() + HTTP_WRITE_MS;
	result = MHD_queue_response(c, a->status, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned status, const char *text)
{
	struct http_answer a = { 0 };

	http_answer__text(&a, status, text);
	return send_answer(c, &a);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void *work(void *arg)
{
	struct worker *w = arg;

	w->route->answer(w->h->backend, &w->args, &w->answer);
	if (w->answer.size > BIG_ANSWER)
		malloc_trim(0); /* it took much more, and then nothing comes for hours */
	MHD_resume_connection(w->connection);
	thread__wake(w->h->wake_fd); /* the library wakes only threads of its own */
	return NULL;
}

static void join_worker(struct worker *w)
{
	if (!w->joined)
		pthread_join(w->thread, NULL);
	w->joined = true;
}

static struct worker *find_worker(struct http *h, const struct http_route *route)
{
	struct worker *found = NULL;
	unsigned samplers = 0;

	/* Monitoring gets its figures whatever others ask for. */
	if (route->cost == HTTP_FIGURE && !h->workers[HTTP_WORKERS].connection)
		return &h->workers[HTTP_WORKERS];
	for (size_t i = 0; i < HTTP_WORKERS; i++) {
		struct worker *w = &h->workers[i];

		if (!w->connection)
			found = w;
		else if (w->route->cost == HTTP_SAMPLE)
			samplers++;
	}
	/* They take minutes: queries must not wait for them. */
	return route->cost == HTTP_SAMPLE && samplers >= HTTP_WORKERS / 2 ? NULL : found;
}

static enum MHD_Result start_worker(struct http *h, struct MHD_Connection *c,
				    const struct http_route *route, const struct http_args *args,
				    void **state)
{
	struct worker *w = find_worker(h, route);

	if (!w)
		return send_text(
			c, MHD_HTTP_SERVICE_UNAVAILABLE,
			"as many requests as can be answered at once are under way: try again");
	*w = (struct worker){ .h = h, .connection = c, .route = route, .args = *args };
	MHD_suspend_connection(c);
	if (pthread_create(&w->thread, NULL, work, w)) {
		w->connection = NULL;
		MHD_resume_connection(c);
		return send_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no thread can be started");
	}
	conn_of(c)->deadline_ms = NEVER;
	*state = w;
	return MHD_YES;
}

/* The answer is sent, or the client is gone. */
static void on_completed(void *cls, struct MHD_Connection *c, void **state,
			 enum MHD_RequestTerminationCode how)
{
	struct http *h = cls;

	(void)c;
	(void)how;
	for (size_t i = 0; i <= HTTP_WORKERS; i++) {
		struct worker *w = &h->workers[i];

		if (*state != w)
			continue;
		join_worker(w);
		http_answer__free(&w->answer);
		w->connection = NULL;
	}
	*state = NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static bool has_body(struct MHD_Connection *c)
{
	const char *length = header(c, "Content-Length");

	return header(c, "Transfer-Encoding") || (length && strcmp(length, "0"));
}

static bool has_token(struct http *h, struct MHD_Connection *c)
{
	if (!h->token_file.path[0])
		return true;
	if (watched__changed(&h->token_file))
		http_token__read(h->token_file.path, h->token); /* else no token is right */
	return http_guard__token(header(c, "Authorization"), h->token);
}

static bool is_open(const struct http *h, const struct http_route *route)
{
	return route && (route->open || (route->figures && h->config.token_own));
}

/* The reason to refuse: a status and a sentence, or 0. */
static unsigned refuse(struct http *h, struct MHD_Connection *c, const char *method,
		       const struct http_route *route, const char **why)
{
	bool local = h->config.address.ss_family == AF_UNIX;

	bool posted = route && route->posts && !strcmp(method, "POST");

	*why = "only GET and HEAD";
	if (strcmp(method, "GET") && strcmp(method, "HEAD") && !posted)
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	*why = "a request has no body here";
	if (has_body(c) && !posted)
		return MHD_HTTP_BAD_REQUEST;
	*why = "no such host here: use an address, or name the host in allow-host";
	if (!local && !http_guard__host(header(c, "Host"), h->config.allow_host))
		return MHD_HTTP_FORBIDDEN;
	*why = "not for pages of other sites";
	if (!http_guard__site(header(c, "Sec-Fetch-Site"), header(c, "Sec-Fetch-Mode"),
			      header(c, "Sec-Fetch-Dest")))
		return MHD_HTTP_FORBIDDEN;
	*why = "a token is needed, as Bearer or as password";
	if (!is_open(h, route) && !has_token(h, c))
		return MHD_HTTP_UNAUTHORIZED;
	*why = "nothing is here; / is the page, /metrics, /healthz and /debug/pprof/ are for "
	       "programs";
	return route ? 0 : MHD_HTTP_NOT_FOUND;
}

/* Ignores the body. False: it is too long, and the connection ends. */
static bool discard_body(struct conn *conn, size_t *size)
{
	conn->body += *size;
	*size = 0;
	return conn->body <= HTTP_BODY_SIZE;
}

struct arguments {
	struct http_args *args;
	bool bad;
};

static enum MHD_Result on_argument(void *cls, enum MHD_ValueKind kind, const char *name,
				   size_t name_len, const char *value, size_t value_len)
{
	struct arguments *a = cls;
	size_t size;
	char *field = http_args__field(a->args, name, &size);

	(void)kind;
	(void)name_len;
	if (field && value) {
		if (*field || value_len >= size || memchr(value, 0, value_len))
			a->bad = true;
		else
			strcpy(field, value);
	}
	return MHD_YES;
}

/* 0, or -EINVAL: an argument is too long, there twice, or no text. */
static int read_args(struct MHD_Connection *c, struct http_args *args)
{
	struct arguments a = { .args = args };

	memset(args, 0, sizeof(*args));
	args->client_fd = conn_of(c)->fd;
	MHD_get_connection_values_n(c, MHD_GET_ARGUMENT_KIND, on_argument, &a);
	return a.bad ? -EINVAL : 0;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *path,
				  const char *method, const char *version, const char *body,
				  size_t *body_size, void **state)
{
	const struct http_route *route = http_route__find(path);
	struct http_answer answer = { 0 };
	struct http *h = cls;
	struct http_args args;
	const char *why;
	unsigned status;

	(void)version;
	(void)body;
	conn_of(c)->asked = true;
	if (!*state) {
		/* The headers are here. Refusals need not wait for more. */
		*state = h;
		status = refuse(h, c, method, route, &why);
		return status ? send_text(c, status, why) : MHD_YES;
	}
	if (*body_size)
		return discard_body(conn_of(c), body_size) ? MHD_YES : MHD_NO;
	if (*state != h)
		return send_answer(c, &((struct worker *)*state)->answer);
	if (read_args(c, &args))
		return send_text(c, MHD_HTTP_BAD_REQUEST,
				 "an argument is too long, there twice, or no text");
	args.trusted = has_token(h, c);
	if (route->cost != HTTP_QUICK)
		return start_worker(h, c, route, &args, state);
	route->answer(h->backend, &args, &answer);
	return send_answer(c, &answer);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http *h = cls;
	struct conn *conn = *context;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		conn->fd = -1;
		h->conn_cnt--;
		return;
	}
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		conn = &h->conns[i];
		if (conn->fd >= 0)
			continue;
		conn->fd =
			MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		conn->asked = false;
		conn->body = 0;
		conn->deadline_ms = now_ms() + HTTP_READ_MS;
		h->conn_cnt++;
		*context = conn;
		return;
	}
}

/* To the library, a socket that is shut down looks like a client that left. */
static void cut(struct conn *conn)
{
	shutdown(conn->fd, SHUT_RDWR);
	conn->deadline_ms = NEVER;
}

/*
 * The library's time limit begins again with each byte: a client that sends one now and then would
 * stay.
 */
static void expire(struct http *h)
{
	uint64_t now = now_ms();

	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		struct conn *conn = &h->conns[i];

		if (conn->fd < 0 || conn->deadline_ms > now)
			continue;
		cut(conn);
	}
}

/*
 * All connections are taken and another client waits: closes the one that has been here longest
 * without a request. Real clients send theirs at once, so a flood of others does not keep them out.
 */
static void make_room(struct http *h)
{
	struct conn *oldest = NULL;

	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		struct conn *conn = &h->conns[i];

		if (!conn->asked && conn->deadline_ms < (oldest ? oldest->deadline_ms : NEVER))
			oldest = conn;
	}
	if (oldest)
		cut(oldest);
}

/* Milliseconds to sleep: not for ever, because what wakes is a write(), which may fail. */
static int next_wake(struct http *h)
{
	uint64_t now = now_ms(), wait = LONGEST_SLEEP_MS;
	MHD_UNSIGNED_LONG_LONG theirs;

	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		const struct conn *conn = &h->conns[i];

		if (conn->fd < 0 || conn->deadline_ms == NEVER)
			continue;
		if (conn->deadline_ms <= now)
			return 0;
		if (conn->deadline_ms - now < wait)
			wait = conn->deadline_ms - now;
	}
	if (MHD_get_timeout(h->daemon, &theirs) == MHD_YES && theirs < wait)
		wait = theirs;
	return (int)wait;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void on_log(void *cls, const char *fmt, va_list ap)
{
	char text[256];

	(void)cls;
	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = 0;
	log_debug("http: %s", text);
}

/* NULL: it cannot. The socket that it listens on becomes its own: it closes that even then. */
static struct MHD_Daemon *start_daemon(struct http *h)
{
	int listen_fd = fcntl(h->listen_fd, F_DUPFD_CLOEXEC, 0);
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem options[] = {
		{ MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL },
		{ MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS, NULL },
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_REQUEST_SIZE, NULL },
		{ MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL },
		{ h->cert ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, h->cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, h->key },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_VERSIONS },
		{ MHD_OPTION_END, 0, NULL },
	};

	if (listen_fd < 0)
		return NULL;
	return MHD_start_daemon(flags | (h->cert ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, h,
				MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
				MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
				MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_ARRAY,
				options, MHD_OPTION_END);
}

static void stop_daemon(struct MHD_Daemon *d)
{
	/* Else it would shut down the socket, which may have to go on for the next one. */
	int listen_fd = MHD_quiesce_daemon(d);

	MHD_stop_daemon(d);
	if (listen_fd >= 0)
		close(listen_fd);
}

/* Restarts the library with a new certificate when nobody is connected. */
static void renew_tls(struct http *h)
{
	bool changed = watched__changed(&h->cert_file);
	struct MHD_Daemon *next;

	changed |= watched__changed(&h->key_file);
	if (!changed || read_tls(h))
		return;
	next = start_daemon(h);
	if (!next) {
		log_err("%s: not a certificate and its key; the ones from before stay in use",
			h->cert_file.path);
		return;
	}
	stop_daemon(h->daemon);
	h->daemon = next;
	log_info("%s: a new certificate is in use", h->cert_file.path);
}

static int epoll_fd(struct http *h)
{
	return MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

static void *serve(void *arg)
{
	struct http *h = arg;
	struct pollfd fds[3] = { { .events = POLLIN },
				 { .fd = h->wake_fd, .events = POLLIN },
				 { .fd = h->listen_fd, .events = POLLIN } };
	eventfd_t wakes;

	while (!atomic_load(&h->stop)) {
		bool full = h->conn_cnt == HTTP_CONNECTIONS;

		fds[0].fd = epoll_fd(h);
		/* With room, the library looks after those who wait itself. */
		if (poll(fds, full ? 3 : 2, next_wake(h)) < 0)
			continue;
		if (fds[1].revents)
			eventfd_read(h->wake_fd, &wakes);
		if (full && fds[2].revents)
			make_room(h);
		if (h->cert && !h->conn_cnt)
			renew_tls(h);
		MHD_run(h->daemon);
		/* Where it had no room it begins to listen again when it runs. */
		if (full && h->conn_cnt < HTTP_CONNECTIONS)
			MHD_run(h->daemon);
		expire(h);
	}
	return NULL;
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* Removes a socket on which nobody listens any more. */
static int make_way(const struct http_config *c, const struct sockaddr_un *un)
{
	struct stat st;
	int fd, err = 0;

	if (lstat(un->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)un, c->address_len))
		err = -EADDRINUSE;
	else if (errno != ECONNREFUSED)
		err = -errno;
	close(fd);
	if (!err && unlink(un->sun_path))
		err = -errno;
	return err;
}

/*
 * The file has its mode from its first moment on, and nothing is done by its name, which may be
 * another one's by then: the kernel makes it with the mode of the socket, less the umask
 * (unix_bind_bsd() in net/unix/af_unix.c). The umask is that of all threads, and some make
 * directories: the bits of the owner are not taken away by it.
 */
static int bind_unix(struct http *h)
{
	const struct http_config *c = &h->config;
	const struct sockaddr_un *un = (const struct sockaddr_un *)&c->address;
	mode_t before;
	int err = make_way(c, un);

	if (!err && fchmod(h->listen_fd, c->socket_mode))
		err = -errno;
	if (err)
		return err;
	before = umask(~c->socket_mode & 077);
	if (bind(h->listen_fd, (const struct sockaddr *)un, c->address_len))
		err = -errno;
	umask(before);
	if (!err && lstat(un->sun_path, &h->socket))
		err = -errno;
	return err;
}

static int bind_tcp(struct http *h)
{
	const struct http_config *c = &h->config;
	int on = 1;

	setsockopt(h->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (c->address.ss_family == AF_INET6)
		setsockopt(h->listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(h->listen_fd, (const struct sockaddr *)&c->address, c->address_len))
		return -errno;
	return 0;
}

/* Listening where nobody can connect from is possible (PrivateNetwork), or not even that. */
static void say_out_of_reach(const struct http *h, enum log_level level, const char *why)
{
	log_msg(level,
		"[http] listen = %s: nobody reaches the agent there: %s; with ListenStream=%s in "
		"pyperf-bpf-agent.socket systemd listens for it; or: %s",
		h->config.text, why, h->config.text, NETWORK_REMEDY);
}

/* 0 or negative errno after a message; what is open is closed with the rest. */
static int open_socket(struct http *h, int given_fd)
{
	int family = h->config.address.ss_family, err;
	const char *missing = NULL;

	if (given_fd >= 0) {
		h->listen_fd = fcntl(given_fd, F_DUPFD_CLOEXEC, 0);
		return h->listen_fd < 0 ? -errno : 0;
	}
	if (family != AF_UNIX)
		missing = network__missing(NULL);
	h->listen_fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listen_fd < 0)
		err = -errno;
	else
		err = family == AF_UNIX ? bind_unix(h) : bind_tcp(h);
	if (!err && listen(h->listen_fd, BACKLOG))
		err = -errno;
	if (missing)
		say_out_of_reach(h, err ? LOG_LEVEL_ERR : LOG_LEVEL_WARN, missing);
	else if (err)
		log_err("cannot listen on %s: %s", h->config.text, strerror(-err));
	return err;
}

static void close_socket(struct http *h)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&h->config.address;
	struct stat st;

	/* Another one may listen there by now. */
	if (h->socket.st_ino && !lstat(un->sun_path, &st) && st.st_ino == h->socket.st_ino &&
	    st.st_dev == h->socket.st_dev)
		unlink(un->sun_path);
	if (h->listen_fd >= 0)
		close(h->listen_fd);
}

static int start_thread(struct http *h)
{
	sigset_t all, before;
	int err;

	/* Signals are for the main thread; workers inherit this. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&h->thread, NULL, serve, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

static int read_secrets(struct http *h)
{
	int err = h->config.token_own ? http_token__make(h->token_file.path) : 0;

	if (!err && watched__changed(&h->token_file))
		err = http_token__read(h->token_file.path, h->token);
	if (!err && (watched__changed(&h->cert_file) + watched__changed(&h->key_file)))
		err = read_tls(h);
	return err;
}

static void http__free(struct http *h)
{
	close_socket(h);
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	if (h->key)
		explicit_bzero(h->key, strlen(h->key));
	explicit_bzero(h->token, sizeof(h->token));
	free(h->cert);
	free(h->key);
	free(h);
}

/* It neither listens nor serves yet. NULL: out of memory. */
static struct http *http__new(const struct http_config *c, const struct http_backend *backend)
{
	struct http *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->config = *c;
	h->backend = backend;
	h->listen_fd = -1;
	h->token_file = (struct watched){ .path = h->config.token_file, .size = -1 };
	h->cert_file = (struct watched){ .path = h->config.tls_cert, .size = -1 };
	h->key_file = (struct watched){ .path = h->config.tls_key, .size = -1 };
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
		h->conns[i].fd = -1;
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return h;
}

/* The library, and the thread that runs it. 0 or negative errno after a message. */
static int start_serving(struct http *h)
{
	int err;

	errno = 0; /* the library may fail without */
	h->daemon = start_daemon(h);
	if (!h->daemon) {
		err = errno ? errno : EINVAL;
		log_err("cannot serve on %s: %s", h->config.text,
			h->cert ? "is tls-key the key of tls-cert?" : strerror(err));
		return -err;
	}
	err = start_thread(h);
	if (!err)
		return 0;
	stop_daemon(h->daemon);
	log_err("cannot start a thread: %s", strerror(-err));
	return err;
}

struct http *http__start(const struct http_config *c, int given_fd,
			 const struct http_backend *backend)
{
	struct http *h;
	int err;

	errno = 0;
	if (c->off)
		return NULL;
	h = http__new(c, backend);
	if (!h)
		return NULL;
	err = h->wake_fd < 0 ? -errno : 0;
	if (err)
		log_err("cannot serve on %s: %s", c->text, strerror(-err));
	if (!err)
		err = read_secrets(h);
	if (!err)
		err = open_socket(h, given_fd);
	if (!err)
		err = start_serving(h);
	if (!err)
		return h;
	http__free(h);
	errno = -err;
	return NULL;
}

void http__stop(struct http *h)
{
	if (!h)
		return;
	atomic_store(&h->stop, true);
	thread__wake(h->wake_fd);
	pthread_join(h->thread, NULL);
	/* Their connections have to be awake when the library stops. */
	for (size_t i = 0; i <= HTTP_WORKERS; i++)
		if (h->workers[i].connection)
			join_worker(&h->workers[i]);
	stop_daemon(h->daemon);
	http__free(h);
}
