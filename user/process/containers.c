/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/containers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/jsonread.h"
#include "base/nearest.h"
#include "base/opener.h"

#define CONTAINERS_MAX	 8192
#define PIDS_MAX	 (1U << 22)
#define CGROUP_MAX_BYTES 16384
#define CONFIG_MAX_BYTES (4U << 20) /* of a file of a runtime */
#define ID_DIGITS_MIN	 4	    /* fewer may well be a misspelt name */
#define ID_DIGITS_SHOWN	 12	    /* as docker does */
#define SHOWN_MAX	 8	    /* containers in a message */

/* ---- processes ------------------------------------------------------------------------------- */

/* Calls `take` with each process's /proc/PID/cgroup, until one call fails. 0 or negative errno. */
static int each_process(const char *root, int (*take)(void *ctx, pid_t pid, const char *text),
			void *ctx)
{
	struct strbuf text = { 0 };
	char path[PATH_MAX];
	struct dirent *de;
	long long pid;
	int err, fd;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/proc", root);
	dir = opendir(path);
	err = dir ? 0 : -errno;
	while (!err && (de = readdir(dir))) {
		if (parse_int(de->d_name, 1, INT32_MAX, &pid))
			continue;
		fd = opener__proc_dir_below(root, (uint32_t)pid);
		if (fd < 0)
			continue;
		strbuf__clear(&text);
		if (!opener__proc_text(NULL, (uint32_t)pid, fd, "cgroup", CGROUP_MAX_BYTES,
				       &text) &&
		    text.len)
			err = take(ctx, (pid_t)pid, text.s);
		close(fd);
	}
	if (dir)
		closedir(dir);
	strbuf__free(&text);
	return err;
}

struct below {
	const char *path;
	pid_t *pids;
	size_t cnt, cap;
};

static int take_below(void *ctx, pid_t pid, const char *text)
{
	struct below *b = ctx;
	int err;

	if (pid == getpid() || !cgroup__is_below(text, b->path))
		return 0;
	err = ARRAY_GROW(b->pids, b->cap, b->cnt, PIDS_MAX);
	if (!err)
		b->pids[b->cnt++] = pid;
	return err;
}

int containers__processes(const char *root, const char *path, pid_t **pids, size_t *cnt)
{
	struct below b = { .path = path };
	int err = each_process(root, take_below, &b);

	*pids = b.pids;
	*cnt = b.cnt;
	return err;
}

/* ---- names that runtimes give ---------------------------------------------------------------- */

/* The characters of names in Docker and Podman; Docker writes a / before them. */
static void take_name(struct container *c, const struct strbuf *name)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t skip = name->len && name->s[0] == '/', len = name->len - skip;

	if (*c->name || !len || len >= sizeof(c->name) || strspn(name->s + skip, chars) != len)
		return;
	memcpy(c->name, name->s + skip, len);
	c->name[len] = '\0';
}

/* {"ID": ..., "Name": "/web", ...} */
static void take_docker(struct jsonread *j, struct container *c)
{
	if (!jsonread__enter(j, '{'))
		return;
	while (jsonread__key(j)) {
		if (!jsonread__is(j, "Name"))
			jsonread__skip(j);
		else if (jsonread__string(j))
			take_name(c, &j->str);
	}
}

/* {"id": "ID", "names": ["web"], ...}, in any order */
static void take_podman_one(struct jsonread *j, const struct containers *all)
{
	struct container named = { 0 };
	char id[CONTAINER_ID_LEN + 1] = "";

	if (!jsonread__enter(j, '{'))
		return;
	while (jsonread__key(j)) {
		if (jsonread__is(j, "id")) {
			if (jsonread__string(j) && j->str.len == CONTAINER_ID_LEN)
				memcpy(id, j->str.s, sizeof(id));
		} else if (jsonread__is(j, "names") && jsonread__peek(j) == '[') {
			jsonread__enter(j, '[');
			while (jsonread__element(j))
				if (jsonread__string(j))
					take_name(&named, &j->str);
		} else {
			jsonread__skip(j);
		}
	}
	for (size_t i = 0; i < all->cnt; i++)
		if (!strcmp(all->all[i].id, id) && !*all->all[i].name)
			memcpy(all->all[i].name, named.name, sizeof(named.name));
}

static void take_podman(struct jsonread *j, const struct containers *all)
{
	if (jsonread__enter(j, '['))
		while (jsonread__element(j))
			take_podman_one(j, all);
}

/* Opens a file of a runtime; `text` owns what `j` reads. False: there is nothing to read. */
static bool open_json(const char *root, const char *path, char **text, struct jsonread *j)
{
	char whole[PATH_MAX];
	struct opened file;
	struct stat st;
	ssize_t n = -1;

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	*text = NULL;
	if (!opener__path(NULL, 0, whole, &file) && !opened__stat(&file, &st) &&
	    st.st_size <= CONFIG_MAX_BYTES && (*text = malloc(CONFIG_MAX_BYTES)))
		n = opened__read(&file, *text, CONFIG_MAX_BYTES, 0);
	opened__close(&file);
	if (n > 0)
		*j = (struct jsonread){ .s = *text, .end = *text + n };
	return n > 0;
}

static void name_by_docker(struct container *c, const char *root)
{
	char path[PATH_MAX], *text;
	struct jsonread j;

	snprintf(path, sizeof(path), "/var/lib/docker/containers/%s/config.v2.json", c->id);
	if (open_json(root, path, &text, &j)) {
		take_docker(&j, c);
		jsonread__free(&j);
	}
	free(text);
}

static void name_by_podman(const struct containers *all, const char *root)
{
	struct jsonread j;
	char *text;

	if (open_json(root, "/var/lib/containers/storage/overlay-containers/containers.json", &text,
		      &j)) {
		take_podman(&j, all);
		jsonread__free(&j);
	}
	free(text);
}

static void name_by_kubelet(struct container *c, const char *root)
{
	struct pod_names n = { 0 }, of_uid = { 0 };

	if (!*c->uid)
		return;
	pod_names__from_logs(&n, root, c->uid, c->id);
	pod_names__from_logs(&of_uid, root, c->uid, "");
	/* A tenant may name a group in his pod by the id of a container of another pod. */
	if (*of_uid.pod && (strcmp(n.pod, of_uid.pod) || strcmp(n.namespace, of_uid.namespace)))
		n = of_uid;
	if (*n.pod && *n.namespace)
		snprintf(c->pod, sizeof(c->pod), "%s/%s", n.namespace, n.pod);
	memcpy(c->name, n.container, sizeof(c->name));
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Two groups may have the same id: whoever may make groups may give them any name. */
static bool is_known(const struct containers *c, const char *id, const char *path)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (!strcmp(c->all[i].id, id) && !strcmp(c->all[i].path.s, path))
			return true;
	return false;
}

/* Appends a container; takes over `path`. 0, -ENOMEM, or -E2BIG: there are too many. */
static int add_container(struct containers *all, const char *id, struct strbuf *path,
			 const char *text)
{
	struct container *c;
	const char *pod;
	int err = all->cnt < (all->max ? all->max : CONTAINERS_MAX) ? 0 : -E2BIG;

	if (!err)
		err = ARRAY_GROW(all->all, all->cap, all->cnt, CONTAINERS_MAX);
	if (err) {
		strbuf__free(path);
		return err;
	}
	c = &all->all[all->cnt++];
	*c = (struct container){ .path = *path };
	memcpy(c->id, id, sizeof(c->id));
	pod = cgroup__pod(text, c->uid);
	if (pod)
		cgroup__path_at(text, pod, &c->pod_path);
	else
		c->uid[0] = '\0'; /* it may have the digits of what looked like one */
	/* containerd without systemd's help: "kubepods-podUID.slice:cri-containerd:ID" */
	if (c->pod_path.len >= c->path.len)
		strbuf__clear(&c->pod_path);
	return c->pod_path.err;
}

static int take_container(void *ctx, pid_t pid, const char *text)
{
	char id[CONTAINER_ID_LEN + 1];
	struct strbuf path = { 0 };

	(void)pid;
	if (cgroup__container(text, strlen(text), id))
		return 0;
	cgroup__path_at(text, strstr(text, id), &path);
	if (path.err || !path.len || is_known(ctx, id, path.s)) {
		int err = path.err;

		strbuf__free(&path);
		return err;
	}
	return add_container(ctx, id, &path, text);
}

/* By names, so that messages do not depend on the order of processes. */
static int compare(const void *a, const void *b)
{
	const struct container *x = a, *y = b;
	int by = strcmp(x->pod, y->pod);

	by = by ? by : strcmp(x->name, y->name);
	by = by ? by : strcmp(x->id, y->id);
	return by ? by : strcmp(x->path.s, y->path.s);
}

int containers__read(struct containers *c, const char *root)
{
	int err = each_process(root, take_container, c);

	for (size_t i = 0; i < c->cnt && !err; i++) {
		name_by_kubelet(&c->all[i], root);
		name_by_docker(&c->all[i], root);
	}
	if (!err)
		name_by_podman(c, root);
	if (!err && c->cnt)
		qsort(c->all, c->cnt, sizeof(*c->all), compare);
	return err;
}

void containers__free(struct containers *c)
{
	for (size_t i = 0; i < c->cnt; i++) {
		strbuf__free(&c->all[i].path);
		strbuf__free(&c->all[i].pod_path);
	}
	free(c->all);
	*c = (struct containers){ 0 };
}

/* ---- which is meant -------------------------------------------------------------------------- */

struct query {
	const char *pod, *name; /* or NULL */
	bool by_id;		/* `name` is the beginning of an id */
};

static bool in_pod(const struct container *c, const char *pod)
{
	const char *name = strchr(c->pod, '/');

	return *pod &&
	       (!strcmp(c->pod, pod) || !strcmp(c->uid, pod) || (name && !strcmp(name + 1, pod)));
}

static bool is_meant(const struct container *c, const struct query *q)
{
	if (q->pod && !in_pod(c, q->pod))
		return false;
	if (!q->name)
		return true;
	return q->by_id ? str_starts_with(c->id, q->name) : *q->name && !strcmp(c->name, q->name);
}

static size_t count(const struct containers *c, const struct query *q)
{
	size_t cnt = 0;

	for (size_t i = 0; i < c->cnt; i++)
		cnt += is_meant(&c->all[i], q);
	return cnt;
}

/* "shop/web-0 app (6f2c01234567)"; of a pod "shop/web-0" */
static void add_label(struct strbuf *out, const struct container *c, bool pod)
{
	const char *of = *c->pod ? c->pod : c->uid;

	strbuf__addz(out, of);
	if (pod && *of)
		return;
	strbuf__addf(out, "%s%s%s(%.*s)", *of ? " " : "", c->name, *c->name ? " " : "",
		     ID_DIGITS_SHOWN, c->id);
}

/* Has an earlier container that is meant the same pod? */
static bool is_repeated(const struct containers *c, size_t i, const struct query *q)
{
	for (size_t k = 0; k < i; k++)
		if (is_meant(&c->all[k], q) && !strcmp(c->all[k].uid, c->all[i].uid))
			return true;
	return false;
}

/* Those that are meant: of each pod one, or all containers. */
static void add_list(struct strbuf *out, const struct containers *c, const struct query *q,
		     bool pods)
{
	size_t more = 0, cnt = 0;

	for (size_t i = 0; i < c->cnt; i++) {
		if (!is_meant(&c->all[i], q) || (pods && (!*c->all[i].uid || is_repeated(c, i, q))))
			continue;
		if (cnt == SHOWN_MAX) {
			more++;
			continue;
		}
		strbuf__addz(out, cnt++ ? ", " : "");
		add_label(out, &c->all[i], pods);
	}
	if (more)
		strbuf__addf(out, " and %zu more", more);
	if (!cnt)
		strbuf__addz(out, "none");
}

/* What the misspelt name may have meant, or NULL; borrowed from `c`. */
static const char *nearest(const struct containers *c, const struct query *q)
{
	const char **names = calloc(c->cnt + 1, sizeof(*names)), *found = NULL;
	size_t cnt = 0, at;

	for (size_t i = 0; names && i < c->cnt; i++) {
		const char *pod = strchr(c->all[i].pod, '/');

		if (q->pod && !q->name)
			names[cnt++] = pod && !strchr(q->pod, '/') ? pod + 1 : c->all[i].pod;
		else if (is_meant(&c->all[i], &(struct query){ .pod = q->pod }))
			names[cnt++] = c->all[i].name;
	}
	at = names ? nearest_name(q->name ? q->name : q->pod, names, cnt) : cnt;
	if (at < cnt)
		found = names[at];
	free(names);
	return found;
}

static int say_none(const struct containers *c, const struct query *q, struct strbuf *why)
{
	struct query all = { .pod = q->name ? q->pod : NULL };
	const char *near;

	if (all.pod && !count(c, &all)) /* the pod is wrong, not the container */
		return say_none(c, &all, why);
	near = nearest(c, q);
	if (q->name)
		strbuf__addf(why, "no container with this name or id runs%s; ",
			     q->pod ? " in the pod" : "");
	else
		strbuf__addf(why, "no container of a pod %s runs; ", q->pod);
	if (near) {
		strbuf__addf(why, "did you mean %s?", near);
	} else {
		strbuf__addz(why, "there are: ");
		add_list(why, c, &all, !q->name);
	}
	return why->err ? why->err : -ESRCH;
}

/* The group that is asked for: the container's, or the pod's if there is one. */
static const struct strbuf *group_of(const struct container *c, const struct query *q)
{
	return q->name ? &c->path : &c->pod_path;
}

/* Two groups with the id of one container or pod: at least one is not a runtime's. */
static bool is_forged(const struct container *a, const struct container *b, const struct query *q)
{
	return strcmp(group_of(a, q)->s, group_of(b, q)->s) &&
	       (!strcmp(a->id, b->id) || (!q->name && !strcmp(a->uid, b->uid)));
}

static int say_forged(const struct container *a, const struct container *b, const struct query *q,
		      struct strbuf *why)
{
	strbuf__addz(why, "two control groups have its id; choose one with -C: ");
	strbuf__addf(why, "%s, %s", group_of(a, q)->s, group_of(b, q)->s);
	return why->err ? why->err : -ENOTUNIQ;
}

static int say_several(const struct containers *c, const struct query *q, struct strbuf *why)
{
	strbuf__addz(why, "several have this name: ");
	add_list(why, c, q, !q->name);
	strbuf__addz(why, !q->name ? "; say which, as NAMESPACE/NAME"
			  : q->pod ? "; say which by the id"
				   : "; say which by the id, or with --pod NAMESPACE/NAME");
	return why->err ? why->err : -ENOTUNIQ;
}

static int say_no_group(const struct containers *c, const struct query *q, struct strbuf *why)
{
	strbuf__addz(why, "this pod has no control group of its own; choose one of its "
			  "containers with --container: ");
	add_list(why, c, q, false);
	return why->err ? why->err : -ENOTUNIQ;
}

int containers__choose(const struct containers *c, const char *pod, const char *name,
		       struct strbuf *path, struct strbuf *why)
{
	struct query q = { .pod = pod, .name = name };
	const struct container *found = NULL;

	if (name && !count(c, &q) && strlen(name) >= ID_DIGITS_MIN)
		q.by_id = true;
	for (size_t i = 0; i < c->cnt; i++) {
		const struct container *one = &c->all[i];

		if (!is_meant(one, &q))
			continue;
		if (!group_of(one, &q)->len)
			return say_no_group(c, &q, why);
		if (found && is_forged(found, one, &q))
			return say_forged(found, one, &q, why);
		if (found && strcmp(group_of(found, &q)->s, group_of(one, &q)->s))
			return say_several(c, &q, why);
		if (!found)
			found = one;
	}
	if (!found)
		return say_none(c, &q, why);
	strbuf__add(path, group_of(found, &q)->s, group_of(found, &q)->len);
	return path->err;
}
