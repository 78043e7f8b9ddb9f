/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/pod.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/opener.h"
#include "process/cgroup.h"

#define DIR_MAX	       65536 /* entries of a directory that are read */
#define FILE_BYTES_MAX 16384

#define LOWER	       "abcdefghijklmnopqrstuvwxyz"
#define DIGITS	       "0123456789"

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_name(const char *s, size_t len)
{
	return len && len <= POD_NAME_MAX && strspn(s, LOWER DIGITS "-.") >= len && s[0] != '-' &&
	       s[0] != '.';
}

static void take_name(char name[POD_NAME_MAX + 1], const char *s, size_t len)
{
	if (*name || !is_name(s, len))
		return;
	memcpy(name, s, len);
	name[len] = '\0';
}

void pod_names__claim(char name[POD_NAME_MAX + 1], const char *value)
{
	take_name(name, value, strlen(value));
}

/* ---- the kubelet's logs ---------------------------------------------------------------------- */

/* POD_NAMESPACE_CONTAINER-ID.log; none of the names has a _. */
static bool take_log_name(struct pod_names *n, const char *name, const char *id)
{
	size_t len = strlen(name), tail = 1 + CONTAINER_ID_LEN + 4;
	const char *space, *container;

	if (len <= tail || strncmp(name + len - tail + 1, id, CONTAINER_ID_LEN) ||
	    name[len - tail] != '-' || strcmp(name + len - 4, ".log"))
		return false;
	space = strchr(name, '_');
	container = space ? strchr(space + 1, '_') : NULL;
	if (!container)
		return false;
	take_name(n->pod, name, (size_t)(space - name));
	take_name(n->namespace, space + 1, (size_t)(container - space - 1));
	take_name(n->container, container + 1, len - tail - (size_t)(container + 1 - name));
	return true;
}

/* NAMESPACE_POD_UID */
static bool take_pod_dir(struct pod_names *n, const char *name, const char *uid)
{
	const char *pod = strchr(name, '_'), *at = strrchr(name, '_');

	if (!pod || at <= pod || strcmp(at + 1, uid))
		return false;
	take_name(n->namespace, name, (size_t)(pod - name));
	take_name(n->pod, pod + 1, (size_t)(at - pod - 1));
	return true;
}

static bool search_dir(struct pod_names *n, const char *root, const char *dir, const char *what,
		       bool (*take)(struct pod_names *, const char *, const char *))
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "%s/var/log/%s", root, dir);
	d = *what ? opendir(path) : NULL;
	for (int i = 0; d && !found && i < DIR_MAX && (entry = readdir(d)); i++)
		found = take(n, entry->d_name, what);
	if (d)
		closedir(d);
	return found;
}

void pod_names__from_logs(struct pod_names *n, const char *root, const char *uid,
			  const char *container)
{
	if (!search_dir(n, root, "containers", container, take_log_name))
		search_dir(n, root, "pods", uid, take_pod_dir);
}

/* ---- files of the pod ------------------------------------------------------------------------ */

/* A process, and the helpers that open its files. */
struct inside {
	struct readers *readers;
	uint32_t tgid;
	int proc_fd;
};

/* The text, NUL-terminated; "" when it cannot be read. */
static void read_text(const struct inside *in, const char *path, char text[FILE_BYTES_MAX + 1])
{
	struct opened file;
	ssize_t n = -1;

	if (!opener__find(in->readers, in->tgid, in->proc_fd, path, &file))
		n = opened__read(&file, text, FILE_BYTES_MAX, 0);
	text[n > 0 ? n : 0] = '\0';
	opened__close(&file);
}

static void take_line(char name[POD_NAME_MAX + 1], const struct inside *in, const char *path,
		      char text[FILE_BYTES_MAX + 1])
{
	if (*name)
		return;
	read_text(in, path, text);
	take_name(name, text, strcspn(text, "\r\n"));
}

/*
 * Lines of KEY="VALUE", as the downward API writes labels. Values of labels may have capitals and
 * _.
 */
static void take_app(char name[POD_NAME_MAX + 1], const char *text)
{
	static const char key[] = "app.kubernetes.io/name=\"";

	for (const char *line = text; *line && !*name;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		const char *value = line + sizeof(key) - 1;
		size_t len;

		if (strncmp(line, key, sizeof(key) - 1))
			continue;
		len = strcspn(value, "\"\n");
		if (value[len] != '"' || len > POD_NAME_MAX ||
		    strspn(value, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-._") < len)
			return;
		memcpy(name, value, len);
		name[len] = '\0';
	}
}

void pod_names__from_root(struct pod_names *n, const char *root, struct readers *rs, uint32_t tgid)
{
	char text[FILE_BYTES_MAX + 1];
	struct inside in = { .readers = rs, .tgid = tgid };

	in.proc_fd = opener__proc_dir_below(root, tgid);
	if (in.proc_fd < 0)
		return;
	take_line(n->pod, &in, "etc/hostname", text);
	/* In a volume each file is a link to one in the directory ..data. */
	take_line(n->namespace, &in,
		  "var/run/secrets/kubernetes.io/serviceaccount/..data/namespace", text);
	if (!*n->app) {
		read_text(&in, "etc/podinfo/..data/labels", text);
		take_app(n->app, text);
	}
	close(in.proc_fd);
}

/* ---- workloads ------------------------------------------------------------------------------- */

/*
 * rand.String() and rand.SafeEncodeString() in k8s.io/apimachinery: no vowels, and none of 0, 1, 3.
 */
#define SUFFIX_CHARS "bcdfghjklmnpqrstvwxz2456789"
#define SUFFIX_LEN   5
/* ... of decimal digits, which become these. */
#define HASH_CHARS   "456789bcdf"
#define HASH_MIN     6 /* of up to 10: shorter ones are one in 40,000 */
#define HASH_MAX     10
/* Characters before the suffix: longer ones are cut, and so may the hash be */
#define BASE_MAX     58

/*
 * The length without "-" and a last part of `min` to `max` of these characters; the same when it
 * has none.
 */
static size_t without(const char *name, size_t len, const char *chars, size_t min, size_t max)
{
	size_t begin = len;

	while (begin && name[begin - 1] != '-' && strchr(chars, name[begin - 1]))
		begin--;
	if (begin < 2 || name[begin - 1] != '-' || len - begin < min || len - begin > max)
		return len;
	return begin - 1;
}

/* The name of a static pod on this host. */
static size_t without_host(const char *pod, size_t len, const char *host)
{
	size_t n = strlen(host);

	return n && len > n + 1 && pod[len - n - 1] == '-' && !memcmp(pod + len - n, host, n)
		       ? len - n - 1
		       : len;
}

static size_t workload_len(const char *pod, const char *host)
{
	size_t len = strlen(pod), rest, base;

	rest = without_host(pod, len, host);
	if (rest < len)
		return rest;
	rest = without(pod, len, SUFFIX_CHARS, SUFFIX_LEN, SUFFIX_LEN);
	if (rest == len && len == BASE_MAX + SUFFIX_LEN &&
	    strspn(pod + BASE_MAX, SUFFIX_CHARS) == SUFFIX_LEN)
		rest = BASE_MAX;
	if (rest == len) /* a StatefulSet */
		return without(pod, len, DIGITS, 1, 5);
	base = without(pod, rest, HASH_CHARS, HASH_MIN, HASH_MAX);
	return base < rest ? base : without(pod, rest, DIGITS, 1, 10);
}

void pod_workload(const char *pod, const char *host, struct strbuf *out)
{
	strbuf__add(out, pod, workload_len(pod, host));
}
