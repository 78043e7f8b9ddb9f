/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/opener.h"
#include "process/application.h"
#include "process/cgroup.h"
#include "process/pod.h"

#define FILE_MAX_BYTES	 262144U /* of environ: the rest is cut */
#define ARGS_MAX_BYTES	 16384U
#define OWN_LABELS	 8  /* of a set: room for ours, however many attributes a process has */
#define CONTAINER_DIGITS 12 /* of its id, as docker shows it */

/* ---- sets ------------------------------------------------------------------------------------ */

/* Labels before they become a set. Values lie in one buffer, by offset. */
struct gather {
	struct {
		size_t name, value;
	} at[LABELS_MAX];
	size_t cnt;
	bool drop;
	uint32_t one_in;
	struct strbuf text;
};

static const char *gathered(const struct gather *g, const char *name)
{
	for (size_t i = 0; i < g->cnt; i++)
		if (!strcmp(g->text.s + g->at[i].name, name))
			return g->text.s + g->at[i].value;
	return NULL;
}

/* The first value of a name counts. Empty values and bad names are left out. */
static void add(struct gather *g, const char *name, const char *value, size_t len)
{
	if (!len || g->cnt == LABELS_MAX || !window_label__valid(name) || gathered(g, name))
		return;
	g->at[g->cnt].name = g->text.len;
	strbuf__add(&g->text, name, strlen(name) + 1);
	g->at[g->cnt].value = g->text.len;
	str_sanitise(&g->text, value, len, LABEL_VALUE_MAX);
	strbuf__addc(&g->text, '\0');
	if (!g->text.err)
		g->cnt++;
}

static void add_z(struct gather *g, const char *name, const char *value)
{
	add(g, name, value, strlen(value));
}

static int cmp_labels(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

/* One allocation: the set, then its texts. */
static struct label_set *make_set(struct gather *g)
{
	struct label_set *set = NULL;
	size_t head = sizeof(*set) + g->cnt * sizeof(set->labels[0]);
	char *text;

	if (!g->text.err)
		set = malloc(head + g->text.len);
	if (set) {
		text = (char *)set + head;
		if (g->text.len)
			memcpy(text, g->text.s, g->text.len);
		set->refs = 1;
		set->cnt = g->cnt;
		set->drop = g->drop;
		set->one_in = g->one_in;
		for (size_t i = 0; i < g->cnt; i++)
			set->labels[i] = (struct label){ .name = text + g->at[i].name,
							 .value = text + g->at[i].value };
		qsort(set->labels, set->cnt, sizeof(set->labels[0]), cmp_labels);
	}
	strbuf__free(&g->text);
	return set;
}

struct label_set *label_set__hold(struct label_set *set)
{
	__atomic_add_fetch(&set->refs, 1, __ATOMIC_RELAXED);
	return set;
}

void label_set__put(struct label_set *set)
{
	if (set && !__atomic_sub_fetch(&set->refs, 1, __ATOMIC_ACQ_REL))
		free(set);
}

const char *label_set__get(const struct label_set *set, const char *name)
{
	for (size_t i = 0; i < set->cnt; i++)
		if (!strcmp(set->labels[i].name, name))
			return set->labels[i].value;
	return NULL;
}

/* ---- configuration --------------------------------------------------------------------------- */

static void free_words(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

/* Words between blanks and commas. 0, -ENOMEM; -EINVAL: more than `max`. */
static int split_words(const char *text, size_t max, char ***out)
{
	char **words = calloc(max + 1, sizeof(*words));
	size_t cnt = 0;

	if (!words)
		return -ENOMEM;
	for (;;) {
		size_t len;

		text += strspn(text, " \t,");
		len = strcspn(text, " \t,");
		if (!len)
			break;
		if (cnt == max || !(words[cnt] = strndup(text, len))) {
			free_words(words);
			return cnt == max ? -EINVAL : -ENOMEM;
		}
		cnt++;
		text += len;
	}
	*out = words;
	return 0;
}

#define ENVIRONMENT_DEFAULT                                                                        \
	"OTEL_SERVICE_NAME,OTEL_RESOURCE_ATTRIBUTES,DD_SERVICE,POD_NAME,POD_NAMESPACE,HOSTNAME"
#define ENVIRONMENT_MAX 32
#define FIXED_MAX	16

int labels_config__init(struct labels_config *c)
{
	const char *host = getenv("NODE_NAME"); /* of a pod, whose own name is not the host's */
	char name[HOST_NAME_MAX + 1] = "";

	*c = (struct labels_config){ 0 };
	gethostname(name, sizeof(name) - 1);
	if (!host || !*host)
		host = name[0] ? name : "localhost";
	str_sanitise(&c->host, host, strlen(host), LABEL_VALUE_MAX);
	if (c->host.err)
		return -ENOMEM;
	return split_words(ENVIRONMENT_DEFAULT, ENVIRONMENT_MAX, &c->environment);
}

void labels_config__free(struct labels_config *c)
{
	strbuf__free(&c->host);
	free_words(c->environment);
	for (size_t i = 0; i < c->fixed_cnt; i++) {
		free((char *)c->fixed[i].name);
		free((char *)c->fixed[i].value);
	}
	free(c->fixed);
	for (size_t i = 0; i < c->rule_cnt; i++)
		rule__free(&c->rules[i]);
	free(c->rules);
	*c = (struct labels_config){ 0 };
}

struct rule *labels_config__add_rule(struct labels_config *c)
{
	if (ARRAY_GROW(c->rules, c->rule_cap, c->rule_cnt, RULES_MAX))
		return NULL;
	c->rules[c->rule_cnt] = (struct rule){ 0 };
	return &c->rules[c->rule_cnt++];
}

static int set_environment(struct labels_config *c, const char *value, const char **why)
{
	char **words;
	int err = split_words(value, ENVIRONMENT_MAX, &words);

	*why = "names of environment variables, 32 at most, with commas between them";
	if (err)
		return err;
	for (char **w = words; *w; w++) {
		if (strchr(*w, '=')) {
			free_words(words);
			return -EINVAL;
		}
	}
	free_words(c->environment);
	c->environment = words;
	return 0;
}

static int add_fixed(struct labels_config *c, const char *name, const char *value, const char **why)
{
	struct strbuf clean = { 0 };
	int err;

	*why = "16 of them at most, each add.NAME with a name of letters, digits and _";
	if (!window_label__valid(name) || c->fixed_cnt == FIXED_MAX)
		return -EINVAL;
	str_sanitise(&clean, value, strlen(value), LABEL_VALUE_MAX);
	err = ARRAY_GROW(c->fixed, c->fixed_cap, c->fixed_cnt, FIXED_MAX);
	name = strdup(name);
	if (err || !name || clean.err) {
		free((char *)name);
		strbuf__free(&clean);
		return -ENOMEM;
	}
	c->fixed[c->fixed_cnt++] = (struct label){ name, clean.s ? clean.s : strdup("") };
	return 0;
}

int labels_config__set(struct labels_config *c, const char *key, const char *value,
		       const char **why)
{
	if (!strcmp(key, "host")) {
		*why = "a name";
		if (!*value)
			return -EINVAL;
		strbuf__clear(&c->host);
		str_sanitise(&c->host, value, strlen(value), LABEL_VALUE_MAX);
		return c->host.err;
	}
	if (!strcmp(key, "environment"))
		return set_environment(c, value, why);
	if (!strcmp(key, "command-line")) {
		*why = "yes or no";
		c->command_line = !strcmp(value, "yes");
		return c->command_line || !strcmp(value, "no") ? 0 : -EINVAL;
	}
	if (!strncmp(key, "add.", 4))
		return add_fixed(c, key + 4, value, why);
	return -ENOENT;
}

/* ---- files ----------------------------------------------------------------------------------- */

/*
 * The readable part of a process's file, NUL-terminated; empty if there is none. Arguments and
 * environment lie in its memory.
 */
static void read_file(const char *root, const struct labelled_process *p, const char *name,
		      size_t max, struct strbuf *out)
{
	int proc_fd = opener__proc_dir_below(root, p->tgid);

	strbuf__clear(out);
	if (proc_fd < 0)
		return;
	opener__proc_text(p->readers, p->tgid, proc_fd, name, max, out);
	close(proc_fd);
}

/* ---- control groups -------------------------------------------------------------------------- */

static bool is_hex_string(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr("0123456789abcdef", s[i]) || !s[i])
			return false;
	return true;
}

/* The prefix of the id, or a directory above it, tells which runtime made the container. */
static const char *runtime_of(const char *text, size_t at)
{
	static const struct {
		const char *before, *runtime;
	} known[] = {
		{ "/docker/", "docker" },
		{ "docker-", "docker" },
		{ "cri-containerd-", "containerd" },
		{ ":cri-containerd:", "containerd" },
		{ "nerdctl-", "containerd" },
		{ "crio-", "cri-o" },
		{ "libpod-", "podman" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t len = strlen(known[i].before);

		if (at >= len && !memcmp(text + at - len, known[i].before, len))
			return known[i].runtime;
	}
	return "";
}

static const char *container_runtime(const struct strbuf *cgroup, const char *id)
{
	const char *runtime = "";

	for (const char *p = cgroup->s; p && !*runtime && (p = strstr(p, id)); p++)
		runtime = runtime_of(cgroup->s, (size_t)(p - cgroup->s));
	return runtime;
}

static void add_pod_uid(struct gather *g, const struct strbuf *cgroup)
{
	char uid[POD_UID_LEN + 1];

	if (cgroup__pod(cgroup->s, uid))
		add_z(g, "k8s_pod_uid", uid);
}

/*
 * systemd writes what a path cannot have as \xHH, and what the kernel would take for its own with _
 * before it.
 */
static void unescape_unit(const char *name, size_t len, struct strbuf *out)
{
	size_t i = len && name[0] == '_';

	for (; i < len; i++) {
		unsigned hex;

		if (len - i >= 4 && name[i] == '\\' && name[i + 1] == 'x' &&
		    is_hex_string(name + i + 2, 2) && sscanf(name + i + 2, "%2x", &hex) == 1) {
			strbuf__addc(out, (char)hex);
			i += 3;
		} else {
			strbuf__addc(out, name[i]);
		}
	}
}

static bool ends_with(const char *s, size_t len, const char *tail)
{
	size_t n = strlen(tail);

	return len > n && !memcmp(s + len - n, tail, n);
}

/* The part of a path that is a container: ID, docker-ID.scope, ...:cri-containerd:ID */
static bool is_container(const char *s, size_t len)
{
	if (ends_with(s, len, ".scope"))
		len -= 6;
	return len >= CONTAINER_ID_LEN &&
	       is_hex_string(s + len - CONTAINER_ID_LEN, CONTAINER_ID_LEN);
}

/*
 * Finds the innermost service or scope of a path, inside the container if there is one. False:
 * none. Sets `*outside` if there is a container without one: the unit outside belongs to its host.
 */
static bool find_unit(const char *path, size_t len, const char **unit, size_t *unit_len,
		      bool *outside)
{
	size_t end = len;

	while (end) {
		size_t begin = end, n;

		while (begin && path[begin - 1] != '/')
			begin--;
		n = end - begin;
		if (is_container(path + begin, n)) {
			*outside = true;
			return false;
		}
		if (ends_with(path + begin, n, ".service") ||
		    ends_with(path + begin, n, ".scope")) {
			*unit = path + begin;
			*unit_len = n;
			return true;
		}
		end = begin ? begin - 1 : 0;
	}
	return false;
}

/*
 * The path in the hierarchy with these names: "0::/path", "1:name=systemd:/path". NULL: there is
 * none.
 */
static const char *path_in(const struct strbuf *cgroup, const char *names, size_t *path_len)
{
	const char *line = cgroup->s;

	while (line && *line) {
		size_t len = strcspn(line, "\n"), n = strlen(names);
		const char *colon = memchr(line, ':', len);

		if (colon && !strncmp(colon, names, n)) {
			*path_len = len - (size_t)(colon + n - line);
			return colon + n;
		}
		line += len + (line[len] == '\n');
	}
	return NULL;
}

/*
 * systemd's own hierarchy in v1, v2's, or one of those in which systemd makes a group for each
 * unit. Where several are mounted (hybrid), any of them may have the process at its root, which
 * says nothing.
 */
static void add_unit(struct gather *g, const struct strbuf *cgroup, struct strbuf *tmp)
{
	static const char *const hierarchies[] = { ":name=systemd:", "::", ":pids:", ":memory:" };
	bool found = false, outside = false;
	const char *path, *unit;
	size_t len, unit_len;

	for (size_t i = 0; !found && !outside && i < sizeof(hierarchies) / sizeof(*hierarchies);
	     i++) {
		path = path_in(cgroup, hierarchies[i], &len);
		found = path && find_unit(path, len, &unit, &unit_len, &outside);
	}
	if (!found)
		return;
	strbuf__clear(tmp);
	unescape_unit(unit, unit_len, tmp);
	if (tmp->len)
		add(g, "unit", tmp->s, tmp->len);
}

/* ---- environment ----------------------------------------------------------------------------- */

/* The value of a variable, or NULL; a variable that was cut does not count. */
static const char *variable(const struct strbuf *environ, const char *name)
{
	size_t len = strlen(name);
	const char *p = environ->s, *end = p ? p + environ->len : p;

	while (p && p < end) {
		const char *next = memchr(p, '\0', (size_t)(end - p));

		if (!next)
			return NULL;
		if (!strncmp(p, name, len) && p[len] == '=')
			return p + len + 1;
		p = next + 1;
	}
	return NULL;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* OpenTelemetry's resource SDK: values are percent-encoded. */
static void percent_decode(const char *s, size_t len, struct strbuf *out)
{
	strbuf__clear(out);
	for (size_t i = 0; i < len; i++) {
		int high = len - i > 2 && s[i] == '%' ? hex_digit(s[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(s[i + 2]) : -1;

		if (low >= 0) {
			strbuf__addc(out, (char)(high << 4 | low));
			i += 2;
		} else {
			strbuf__addc(out, s[i]);
		}
	}
}

/*
 * "service.name=shop,deployment.environment=prod": each a label, with _ for what a label's name
 * cannot have.
 */
static void add_attributes(struct gather *g, const char *text, struct strbuf *tmp)
{
	while (*text && g->cnt < LABELS_MAX - OWN_LABELS) {
		size_t len = strcspn(text, ","), name_len = strcspn(text, "=,"), n = 0;
		char name[64];

		for (; n < name_len && n < sizeof(name) - 1; n++)
			name[n] = strchr(".-/ ", text[n]) ? '_' : text[n];
		name[n] = '\0';
		if (name_len < len && n == name_len) {
			percent_decode(text + name_len + 1, len - name_len - 1, tmp);
			if (tmp->len)
				add(g, name, tmp->s, tmp->len);
		}
		text += len + (text[len] == ',');
	}
}

static void add_variable(struct gather *g, const char *name, const char *value)
{
	char label[128] = "env_";
	size_t n = 4;

	for (; *name && n < sizeof(label) - 1; name++)
		label[n++] = *name;
	label[n] = '\0';
	add_z(g, label, value);
}

/* The value of a variable that the configuration lists, or NULL. */
static const char *listed(const struct labels_config *c, const struct strbuf *environ,
			  const char *name)
{
	for (char **word = c->environment; word && *word; word++)
		if (!strcmp(*word, name))
			return variable(environ, name);
	return NULL;
}

/* These name the service or the pod, and are not labels themselves. */
static bool is_known_elsewhere(const char *name)
{
	static const char *const names[] = { "DD_SERVICE", "POD_NAME", "POD_NAMESPACE",
					     "HOSTNAME" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* The name that the process gives itself comes first. */
static void add_environment(struct gather *g, const struct labels_config *c,
			    const struct strbuf *environ, struct strbuf *tmp)
{
	const char *attributes = NULL, *value;

	for (char **name = c->environment; name && *name; name++) {
		value = variable(environ, *name);
		if (!value)
			continue;
		if (!strcmp(*name, "OTEL_SERVICE_NAME"))
			add_z(g, "service_name", value);
		else if (!strcmp(*name, "OTEL_RESOURCE_ATTRIBUTES"))
			attributes = value;
		else if (!is_known_elsewhere(*name))
			add_variable(g, *name, value);
	}
	if (attributes)
		add_attributes(g, attributes, tmp);
	if ((value = listed(c, environ, "DD_SERVICE")))
		add_z(g, "service_name", value);
}

/* ---- Kubernetes ------------------------------------------------------------------------------ */

/* Up to the first dot: a machine has its name with or without a domain. */
static bool same_host(const char *a, const char *b)
{
	size_t len = strcspn(a, ".");

	return len == strcspn(b, ".") && !strncmp(a, b, len);
}

/* In the network of its host a pod has the host's name. */
static void forget_host(struct pod_names *n, const struct labels_config *c)
{
	if (c->host.s && same_host(n->pod, c->host.s))
		n->pod[0] = '\0';
}

static void claim_attribute(char name[POD_NAME_MAX + 1], const struct gather *g, const char *label)
{
	const char *value = gathered(g, label);

	if (value)
		pod_names__claim(name, value);
}

static void claim_variable(char name[POD_NAME_MAX + 1], const struct labels_config *c,
			   const struct strbuf *environ, const char *variable_name)
{
	const char *value = listed(c, environ, variable_name);

	if (value)
		pod_names__claim(name, value);
}

/*
 * The kubelet knows best; then the pod's description; then the files of the container.
 */
static void find_pod(struct pod_names *n, const struct gather *g, const char *root,
		     const struct labels_config *c, const struct labelled_process *p,
		     const char *container, const struct strbuf *environ)
{
	pod_names__from_logs(n, root, gathered(g, "k8s_pod_uid"), container);
	claim_attribute(n->pod, g, "k8s_pod_name");
	claim_attribute(n->namespace, g, "k8s_namespace_name");
	claim_attribute(n->container, g, "k8s_container_name");
	claim_variable(n->pod, c, environ, "POD_NAME");
	claim_variable(n->namespace, c, environ, "POD_NAMESPACE");
	forget_host(n, c);
	claim_variable(n->pod, c, environ, "HOSTNAME");
	forget_host(n, c);
	pod_names__from_root(n, root, p->readers, p->tgid);
	forget_host(n, c);
}

/*
 * Controllers that an operator of OpenTelemetry names in the attributes, else what the pod's name
 * begins with.
 */
static void add_workload(struct gather *g, const struct pod_names *n, const struct labels_config *c,
			 struct strbuf *tmp)
{
	static const char *const attributes[] = { "k8s_deployment_name", "k8s_statefulset_name",
						  "k8s_daemonset_name", "k8s_cronjob_name",
						  "k8s_job_name" };
	char name[POD_NAME_MAX + 1] = "";

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		claim_attribute(name, g, attributes[i]);
	strbuf__clear(tmp);
	if (*name)
		strbuf__addz(tmp, name);
	else
		pod_workload(n->pod, c->host.s ? c->host.s : "", tmp);
	if (tmp->len)
		add(g, "k8s_workload", tmp->s, tmp->len);
}

static void add_pod(struct gather *g, const char *root, const struct labels_config *c,
		    const struct labelled_process *p, const char *container,
		    const struct strbuf *environ, struct strbuf *tmp)
{
	struct pod_names n = { 0 };

	if (!gathered(g, "k8s_pod_uid"))
		return;
	find_pod(&n, g, root, c, p, container, environ);
	add_z(g, "k8s_pod", n.pod);
	add_z(g, "k8s_namespace", n.namespace);
	add_z(g, "k8s_container", n.container);
	add_z(g, "k8s_app", n.app);
	add_workload(g, &n, c, tmp);
}

/* ---- the command line ------------------------------------------------------------------------ */

static void add_command_line(struct gather *g, struct strbuf *args)
{
	size_t len = args->len;

	while (len && !args->s[len - 1])
		len--;
	for (size_t i = 0; i < len; i++)
		if (!args->s[i])
			args->s[i] = ' ';
	if (len)
		add(g, "cmdline", args->s, len);
}

/* ---- a process ------------------------------------------------------------------------------- */

static void add_known(struct gather *g, const struct labels_config *c,
		      const struct labelled_process *p)
{
	size_t len = strcspn(p->python, ",");

	add(g, "host", c->host.s, c->host.len);
	add_z(g, "comm", p->comm);
	add_z(g, "exe", p->exe);
	add(g, "python", p->python, len);
	add_z(g, "container_id", p->container);
	for (size_t i = 0; i < c->fixed_cnt; i++)
		add_z(g, c->fixed[i].name, c->fixed[i].value);
}

/* A login session or the init of a user is not a service. */
static bool names_service(const char *unit)
{
	return strncmp(unit, "session-", 8) && strncmp(unit, "user@", 5) &&
	       strcmp(unit, "init.scope");
}

/* The value of a label as a service name; nothing if there is no such label. */
static void name_by_label(const struct gather *g, const char *label, struct strbuf *name)
{
	const char *value = gathered(g, label);

	if (!value || name->len || (!strcmp(label, "unit") && !names_service(value)))
		return;
	if (!strcmp(label, "container_id"))
		strbuf__add(name, value, strnlen(value, CONTAINER_DIGITS));
	else
		strbuf__addz(name, value);
	if (!strcmp(label, "unit")) /* without .service or .scope */
		while (name->len && name->s[--name->len] != '.')
			;
}

/* `args`: of the process; NULL: not known any more. */
static void add_service_name(struct gather *g, const struct strbuf *args)
{
	struct strbuf name = { 0 };
	size_t len = args ? args->len : 0;

	name_by_label(g, "k8s_app", &name);
	name_by_label(g, "k8s_workload", &name);
	if (!name.len && len)
		application__name(args->s, len, &name);
	name_by_label(g, "unit", &name);
	name_by_label(g, "k8s_container", &name);
	name_by_label(g, "container_id", &name);
	if (!name.len && len)
		application__script(args->s, len, &name);
	name_by_label(g, "comm", &name);
	if (name.len)
		add(g, "service_name", name.s, name.len);
	strbuf__free(&name);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const char *get_gathered(void *ctx, const char *name)
{
	return gathered(ctx, name);
}

/* The name in "{name}" at the start of a text, and its length with the braces. 0: there is none. */
static size_t reference(const char *text, char name[128])
{
	size_t len = *text == '{' ? strcspn(text, "}") : 0;

	if (len < 2 || len > 127 || !text[len])
		return 0;
	memcpy(name, text + 1, len - 1);
	name[len - 1] = '\0';
	return window_label__valid(name) ? len + 1 : 0;
}

/* Replaces names by the values of their labels: "{k8s_namespace}-web". */
static void expand(const struct gather *g, const char *text, struct strbuf *out)
{
	char name[128];

	while (*text) {
		size_t len = reference(text, name);
		const char *value = len ? gathered(g, name) : NULL;

		if (value)
			strbuf__addz(out, value);
		if (!len)
			strbuf__addc(out, *text);
		text += len ? len : 1;
	}
}

/* Empty: removes the label. */
static void replace(struct gather *g, const char *name, const char *value, size_t len)
{
	for (size_t i = 0; i < g->cnt; i++) {
		if (strcmp(g->text.s + g->at[i].name, name))
			continue;
		g->at[i] = g->at[--g->cnt];
		break;
	}
	add(g, name, value, len);
}

static void apply_rules(struct gather *g, const struct labels_config *c)
{
	struct strbuf value = { 0 };

	for (const struct rule *r = c->rules; r < c->rules + c->rule_cnt; r++) {
		if (g->text.err || !rule__matches(r, get_gathered, g))
			continue;
		for (size_t i = 0; i < r->set_cnt; i++) {
			strbuf__clear(&value);
			expand(g, r->set[i].value, &value);
			replace(g, r->set[i].name, value.s, value.len);
		}
		g->drop |= r->drop;
		g->one_in = r->one_in ? r->one_in : g->one_in;
	}
	add_z(g, "service_name", "unknown"); /* each has one */
	strbuf__free(&value);
}

struct label_set *labels__of_gone(const struct labels_config *c, const struct labelled_process *p)
{
	struct gather g = { 0 };

	add_known(&g, c, p);
	add_service_name(&g, NULL);
	apply_rules(&g, c);
	return make_set(&g);
}

/* Labels from the control group. */
static void add_cgroup(struct gather *g, const struct strbuf *cgroup, char *id, struct strbuf *tmp)
{
	if (!cgroup->len)
		return;
	if (!cgroup__container(cgroup->s, cgroup->len, id)) {
		add_z(g, "container_id", id);
		add_z(g, "container_runtime", container_runtime(cgroup, id));
	}
	add_pod_uid(g, cgroup);
	add_unit(g, cgroup, tmp);
}

struct label_set *labels__read(const char *root, const struct labels_config *c,
			       const struct labelled_process *p)
{
	struct strbuf file = { 0 }, tmp = { 0 };
	char id[CONTAINER_ID_LEN + 1] = "";
	struct gather g = { 0 };

	add_known(&g, c, p);
	read_file(root, p, "cgroup", ARGS_MAX_BYTES, &file);
	add_cgroup(&g, &file, id, &tmp);
	read_file(root, p, "environ", FILE_MAX_BYTES, &file);
	add_environment(&g, c, &file, &tmp);
	add_pod(&g, root, c, p, id, &file, &tmp);
	read_file(root, p, "cmdline", ARGS_MAX_BYTES, &file);
	add_service_name(&g, &file);
	if (c->command_line)
		add_command_line(&g, &file);
	apply_rules(&g, c);
	strbuf__free(&file);
	strbuf__free(&tmp);
	return make_set(&g);
}
