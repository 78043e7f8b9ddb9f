/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/str.h"
#include "cmd/options.h"
#include "cmd/targets.h"

#define ERRORS_MAX  20	  /* further errors are not reported */
#define SEEN_MAX    65536 /* keys in a file */
#define SECTION_LEN 49	  /* inih cuts longer sections and keys silently */

/* ---- values ---------------------------------------------------------------------------------- */

static int set_bool(bool *out, const char *value, const char **why)
{
	*why = "yes or no";
	*out = !strcmp(value, "yes");
	return *out || !strcmp(value, "no") ? 0 : -EINVAL;
}

static int set_number(uint32_t *out, const char *value, uint32_t min, uint32_t max)
{
	long long n;

	if (parse_int(value, min, max, &n))
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

#define DIGITS_MAX 16

/* Parses a number whose unit may be left out. */
static int without_unit(char digits[DIGITS_MAX], const char *value, const char *unit)
{
	size_t len = strlen(value), tail = strlen(unit);

	if (len > tail && !strcmp(value + len - tail, unit))
		len -= tail;
	while (len && value[len - 1] == ' ')
		len--;
	if (len >= DIGITS_MAX)
		return -EINVAL;
	memcpy(digits, value, len);
	digits[len] = '\0';
	return 0;
}

static int set_with_unit(uint32_t *out, const char *value, const char *unit, uint32_t min,
			 uint32_t max)
{
	char digits[DIGITS_MAX];
	int err = without_unit(digits, value, unit);

	return err ? err : set_number(out, digits, min, max);
}

static int set_string(char **out, const char *value)
{
	char *copy = *value ? strdup(value) : NULL;

	if (*value && !copy)
		return -ENOMEM;
	free(*out);
	*out = copy;
	return 0;
}

static int set_path(char **out, const char *value, const char **why)
{
	*why = "an absolute path";
	return !*value || *value == '/' ? set_string(out, value) : -EINVAL;
}

/* ---- [agent] --------------------------------------------------------------------------------- */

/* The label of an attribute has '_' for what its name must not have. NULL: out of memory. */
static char *group_word(const char *value, size_t len, bool *attribute)
{
	static const char prefix[] = "attribute.";
	char *word;

	*attribute = !strncmp(value, prefix, strlen(prefix));
	if (*attribute) {
		value += strlen(prefix);
		len -= strlen(prefix);
	}
	word = strndup(value, len);
	for (char *s = word; *attribute && s && *s; s++)
		if (strchr(".-/", *s))
			*s = '_';
	return word;
}

static int set_group(struct agent_config *c, const char *value, const char **why)
{
	bool attribute[GROUP_WORDS] = { false };
	char *words[GROUP_WORDS + 1] = { NULL };
	size_t cnt = 0;
	int err = 0;

	*why = "one to eight names of labels, with commas between them";
	while (!err && *(value += strspn(value, " \t,"))) {
		size_t len = strcspn(value, " \t,");

		if (cnt < GROUP_WORDS)
			words[cnt] = group_word(value, len, &attribute[cnt]);
		if (cnt == GROUP_WORDS || !words[cnt] || !window_label__valid(words[cnt]))
			err = -EINVAL;
		cnt += cnt < GROUP_WORDS;
		value += len;
	}
	if (!cnt)
		err = -EINVAL;
	for (size_t i = 0; i < GROUP_WORDS; i++) {
		free(err ? words[i] : c->group[i]);
		if (!err)
			c->group[i] = words[i];
	}
	if (!err)
		memcpy(c->group_attribute, attribute, sizeof(attribute));
	return err;
}

static int set_log_level(struct agent_config *c, const char *value, const char **why)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	*why = "error, warning, info or debug";
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(value, names[i])) {
			c->log_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_log_format(struct agent_config *c, const char *value, const char **why)
{
	*why = "text or json";
	c->log_json = !strcmp(value, "json");
	return c->log_json || !strcmp(value, "text") ? 0 : -EINVAL;
}

/* Tests want shorter windows, and less memory than the agent ever needs. */
static uint32_t least(uint32_t value)
{
	return getenv("PYPERF_AGENT_SHORT_WINDOWS") ? 1 : value;
}

static bool has_event(const struct source *const *events, uint32_t cnt, uint32_t event)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (events[i]->type.event == event)
			return true;
	return false;
}

/* Events that exist, but not for the agent, or not with these. */
static const char *why_not(const struct source *const *events, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (events[i]->to_end)
			return "growth is known when a program ends: pyperf-bpf memory counts it";
	if (has_event(events, cnt, EVENT_OFF_CPU) && has_event(events, cnt, EVENT_WALL))
		return "off-cpu and wall exclude each other: wall includes off-cpu";
	return NULL;
}

/* "cpu-clock, page-faults". Each row of a source that takes no arguments. */
static int set_events(struct agent_config *c, const char *value, const char **why)
{
	const struct source *events[SAMPLED_MAX];
	const char * not ;
	uint32_t cnt = 0;

	*why = "up to 4 names of events, which pyperf-bpf(8) lists, with commas between (gil "
	       "counts as two), cpu-clock or task-clock first";
	for (;; value++) {
		const struct source *s;
		size_t len;

		value += strspn(value, " ");
		len = strcspn(value, ", ");
		s = source__find(value, len);
		for (uint32_t i = 0; i < cnt; i++)
			if (events[i] == s)
				return -EINVAL;
		if (!s || s->parse || cnt + (s->with != 0) >= SAMPLED_MAX ||
		    (!cnt && !value_type__is_clock(&s->type)))
			return -EINVAL;
		events[cnt++] = s;
		if (s->with)
			events[cnt++] = source__of_event(s->with);
		value += len;
		value += strspn(value, " ");
		if (*value && *value != ',')
			return -EINVAL;
		if (!*value)
			break;
	}
	not = why_not(events, cnt);
	if (not ) {
		*why = not ;
		return -EINVAL;
	}
	memcpy(c->events, events, cnt * sizeof(events[0]));
	c->event_cnt = cnt;
	return 0;
}

static int agent_set(struct agent_config *c, const char *key, const char *value, const char **why)
{
	if (!strcmp(key, "frequency")) {
		*why = "samples per second and CPU, from 1 to 999";
		return set_with_unit(&c->frequency_hz, value, "Hz", 1, 999);
	}
	if (!strcmp(key, "events"))
		return set_events(c, value, why);
	if (!strcmp(key, "window")) {
		*why = "seconds, from 10 to 60";
		return set_with_unit(&c->window_s, value, "s", least(10), 60);
	}
	if (!strcmp(key, "table-memory")) {
		*why = "MiB, from 1 to 65536";
		return set_with_unit(&c->table_mib, value, "MiB", 1, TABLE_MIB_MAX);
	}
	if (!strcmp(key, "state-dir"))
		return *value ? set_path(&c->state_dir, value, why) : -EINVAL;
	if (!strcmp(key, "directory"))
		return set_path(&c->directory, value, why);
	if (!strcmp(key, "group"))
		return set_group(c, value, why);
	if (!strcmp(key, "small")) {
		*why = "samples in a window, from 0 (none is small) to 1000000";
		return set_number(&c->small, value, 0, 1000000);
	}
	if (!strcmp(key, "comm")) {
		*why = "a pattern of at most 63 characters";
		return strlen(value) < GLOB_LEN ? set_string(&c->comm, value) : -EINVAL;
	}
	if (!strcmp(key, "cgroup"))
		return set_string(&c->cgroup, value);
	if (!strcmp(key, "native"))
		return set_bool(&c->native, value, why);
	if (!strcmp(key, "kernel"))
		return set_bool(&c->kernel, value, why);
	if (!strcmp(key, "lines"))
		return set_bool(&c->lines, value, why);
	if (!strcmp(key, "log-level"))
		return set_log_level(c, value, why);
	if (!strcmp(key, "log-format"))
		return set_log_format(c, value, why);
	return -ENOENT;
}

/* ---- [budget] -------------------------------------------------------------------------------- */

static int set_percent(double *out, const char *value)
{
	char digits[DIGITS_MAX];

	return without_unit(digits, value, "%") || parse_double(digits, 0.05, 100, out) ? -EINVAL
											: 0;
}

static int budget_set(struct budget_config *c, const char *key, const char *value, const char **why)
{
	if (!strcmp(key, "cpu")) {
		*why = "percent of one CPU, from 0.05 to 100";
		return set_percent(&c->cpu_percent, value);
	}
	if (!strcmp(key, "memory")) {
		*why = "MiB, from 32 to 65536";
		return set_with_unit(&c->memory_mib, value, "MiB", least(32), 65536);
	}
	if (!strcmp(key, "processes")) {
		*why = "a number from 1 to 100000";
		return set_number(&c->processes, value, 1, 100000);
	}
	if (!strcmp(key, "stacks")) {
		*why = "a number from 100 to 1000000";
		return set_number(&c->stacks, value, 100, 1000000);
	}
	return -ENOENT;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int init(struct config *c)
{
	const char *why;

	*c = (struct config){ .refs = 1, .store_enabled = true };
	c->agent.events[c->agent.event_cnt++] = source__of_event(EVENT_CPU_CLOCK);
	c->agent.frequency_hz = 19;
	c->agent.window_s = 60;
	c->agent.small = 5;
	c->agent.native = c->agent.kernel = c->agent.lines = true;
	c->agent.table_mib = TABLE_MIB_DEFAULT;
	c->agent.log_level = LOG_LEVEL_INFO;
	c->budget = (struct budget_config){
		.cpu_percent = 1, .memory_mib = 128, .processes = 1000, .stacks = 20000
	};
	store_config__init(&c->store);
	http_config__init(&c->http);
	c->agent.state_dir = strdup(STATE_DIR_DEFAULT);
	if (!c->agent.state_dir || set_group(&c->agent, GROUP_DEFAULT, &why))
		return -ENOMEM;
	return labels_config__init(&c->labels);
}

struct config *config__hold(struct config *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void config__put(struct config *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	free(c->agent.state_dir);
	free(c->agent.directory);
	free(c->agent.comm);
	free(c->agent.cgroup);
	for (size_t i = 0; i < GROUP_WORDS; i++)
		free(c->agent.group[i]);
	labels_config__free(&c->labels);
	for (size_t i = 0; i < c->push_cnt; i++)
		push_config__free(&c->push[i]);
	for (size_t i = 0; i < c->file_cnt; i++) {
		free(c->files[i].section);
		free(c->files[i].key);
		free(c->files[i].path);
	}
	free(c->files);
	free(c);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A key that the file has set. */
struct seen {
	char *name; /* "section key" */
	unsigned line;
};

struct config_reader {
	struct config *config;
	const char *path;
	FILE *f;
	unsigned line, errors;
	unsigned section_line; /* of its last header */
	unsigned push_line[PUSHES_MAX], http_line, group_line;
	unsigned rule_line[RULES_MAX]; /* of its header */
	struct seen *seen;	       /* keys */
	size_t seen_cnt, seen_cap;
	char refused[SECTION_LEN + 1]; /* an impossible section, reported once */
};

static void complain(struct config_reader *r, const char *key, const char *why)
{
	if (r->errors++ < ERRORS_MAX)
		log_err("%s:%u: %s: %s", r->path, r->line, key, why);
}

static void complain_once(struct config_reader *r, const char *section, const char *why)
{
	if (strcmp(section, r->refused))
		complain(r, section, why);
	snprintf(r->refused, sizeof(r->refused), "%s", section);
}

static int store_set(struct config *c, const char *key, const char *value, const char **why)
{
	if (!strcmp(key, "enabled"))
		return set_bool(&c->store_enabled, value, why);
	c->store_path_set |= !strcmp(key, "path");
	return store_config__set(&c->store, key, value, why);
}

/* The destination of that name, made at its first key; NULL after a message. */
static struct push_config *find_push(struct config_reader *r, const char *name)
{
	struct config *c = r->config;

	for (size_t i = 0; i < c->push_cnt; i++)
		if (!strcmp(c->push[i].name, name))
			return &c->push[i];
	if (c->push_cnt == PUSHES_MAX) {
		complain_once(r, name, "there may be 16 destinations");
		return NULL;
	}
	if (push_config__init(&c->push[c->push_cnt], name)) {
		complain_once(
			r, name,
			"a destination's name is 1 to 64 of a-z, 0-9, '_' and '-', which it does "
			"not begin with");
		return NULL;
	}
	r->push_line[c->push_cnt] = r->line;
	return &c->push[c->push_cnt++];
}

/* The rule of this section, made at its first key; NULL after a message. */
static struct rule *find_rule(struct config_reader *r)
{
	struct labels_config *c = &r->config->labels;
	struct rule *rule;

	if (c->rule_cnt && r->rule_line[c->rule_cnt - 1] == r->section_line)
		return &c->rules[c->rule_cnt - 1];
	if (c->rule_cnt == RULES_MAX) {
		complain_once(r, "rule", "there may be 64 rules");
		return NULL;
	}
	rule = labels_config__add_rule(c);
	if (rule)
		r->rule_line[c->rule_cnt - 1] = r->section_line;
	else
		complain(r, "rule", strerror(ENOMEM));
	return rule;
}

static void check_rules(struct config_reader *r)
{
	const struct labels_config *c = &r->config->labels;
	const char *why;

	for (size_t i = 0; i < c->rule_cnt; i++) {
		if (!rule__check(&c->rules[i], &why))
			continue;
		r->line = r->rule_line[i];
		complain(r, "rule", why);
	}
}

/* Checked last: a label may be defined after the group that names it. */
static void check_group(struct config_reader *r)
{
	const struct agent_config *c = &r->config->agent;
	char why[512];

	for (size_t i = 0; i < GROUP_WORDS && c->group[i]; i++) {
		if (c->group_attribute[i] || config__has_label(r->config, c->group[i]))
			continue;
		r->line = r->group_line;
		snprintf(why, sizeof(why),
			 "there is no label '%.64s': docs/agent.md lists them; write an attribute "
			 "of OTEL_RESOURCE_ATTRIBUTES as attribute.%.64s, or add it as add.%.64s "
			 "in [labels]",
			 c->group[i], c->group[i], c->group[i]);
		complain(r, "group", why);
	}
}

/* Checks what concerns several keys. */
static void check_sections(struct config_reader *r)
{
	const char *why;

	check_group(r);
	check_rules(r);
	for (size_t i = 0; i < r->config->push_cnt; i++) {
		if (!push_config__check(&r->config->push[i], &why))
			continue;
		r->line = r->push_line[i];
		complain(r, r->config->push[i].name, why);
	}
	if (r->http_line && http_config__check(&r->config->http, &why)) {
		r->line = r->http_line;
		complain(r, "http", why);
	}
}

/* -ESRCH: the section was refused with a message. */
static int set_value(struct config_reader *r, const char *section, const char *key,
		     const char *value, const char **why)
{
	struct config *c = r->config;
	struct push_config *push;

	if (!strcmp(section, "agent"))
		return agent_set(&c->agent, key, value, why);
	if (!strcmp(section, "labels"))
		return labels_config__set(&c->labels, key, value, why);
	if (!strcmp(section, "budget"))
		return budget_set(&c->budget, key, value, why);
	if (!strcmp(section, "store"))
		return store_set(c, key, value, why);
	if (!strcmp(section, "http")) {
		r->http_line = r->line;
		return http_config__set(&c->http, key, value, why);
	}
	if (!strcmp(section, "rule")) {
		struct rule *rule = find_rule(r);

		return rule ? rule__set(rule, key, value, why) : -ESRCH;
	}
	if (!strncmp(section, "push.", 5)) {
		push = find_push(r, section + 5);
		return push ? push_config__set(push, key, value, why) : -ESRCH;
	}
	if (!*section)
		complain(r, key, "stands in no section");
	else
		complain_once(r, section, "there is no such section");
	return -ESRCH;
}

/* Keys that may be repeated. */
static bool is_list(const char *section, const char *key)
{
	return !strncmp(section, "push.", 5) &&
	       (!strcmp(key, "header") || !strcmp(key, "header-file"));
}

/*
 * True, after a message, if the key was set before: otherwise one of two values would silently win.
 * A section may be divided, except for kinds of which there may be several.
 */
static bool is_second(struct config_reader *r, const char *section, const char *key)
{
	unsigned part = !strncmp(section, "rule", 4) ? r->section_line : 0;
	char name[3 * SECTION_LEN], why[128];

	if (is_list(section, key))
		return false;
	snprintf(name, sizeof(name), "%s %u %s", section, part, key);
	for (size_t i = 0; i < r->seen_cnt; i++) {
		if (strcmp(r->seen[i].name, name))
			continue;
		snprintf(why, sizeof(why), "line %u sets it already: remove one of the two",
			 r->seen[i].line);
		complain(r, key, why);
		return true;
	}
	if (ARRAY_GROW(r->seen, r->seen_cap, r->seen_cnt, SEEN_MAX))
		return false; /* out of memory: a repeated value does no harm */
	r->seen[r->seen_cnt] = (struct seen){ strdup(name), r->line };
	r->seen_cnt += r->seen[r->seen_cnt].name != NULL;
	return false;
}

/* Remembers a file that a value names. 0 or -ENOMEM. */
static int note_file(struct config_reader *r, const char *section, const char *key,
		     const char *value)
{
	static const char *const keys[] = { "token-file",	"tls-cert",    "tls-key",
					    "directory",	"header-file", "ca-file",
					    "cert-file",	"key-file",    "password-file",
					    "bearer-token-file" };
	struct config *c = r->config;
	const char *path = strchr(value, '/');
	struct config_file *f;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i], key) || !path)
			continue;
		if (ARRAY_GROW(c->files, c->file_cap, c->file_cnt, SEEN_MAX))
			return -ENOMEM;
		f = &c->files[c->file_cnt++];
		*f = (struct config_file){ .line = r->line,
					   .directory = !strcmp(key, "directory"),
					   .section = strdup(section),
					   .key = strdup(key),
					   .path = strdup(path) };
		return f->section && f->key && f->path ? 0 : -ENOMEM;
	}
	return 0;
}

/* 1: continue. */
static int on_value(void *user, const char *section, const char *key, const char *value)
{
	struct config_reader *r = user;
	const char *why = "cannot be set to that";
	int err = set_value(r, section, key, value, &why);

	if (!err && !is_second(r, section, key))
		err = note_file(r, section, key, value);
	if (!err && !strcmp(section, "agent") && !strcmp(key, "group"))
		r->group_line = r->line;
	if (err == -ENOENT)
		complain(r, key, "there is no such key in this section");
	else if (err && err != -ESRCH)
		complain(r, key, err == -EINVAL ? why : strerror(-err));
	return 1;
}

/*
 * inih reports only the first line that it cannot read, and takes an indented line as a part of the
 * last value.
 */
static bool is_readable(struct config_reader *r, const char *line)
{
	size_t end = strcspn(line, "]");

	if (!*line || *line == '#' || *line == ';')
		return true;
	if (*line == '[' && line[end] && end - 1 <= SECTION_LEN) {
		r->section_line = r->line;
		return true;
	}
	if (*line != '[' && strchr(line, '=') && strcspn(line, "=") <= SECTION_LEN && *line != '=')
		return true;
	complain(r, "syntax", "neither [section] nor key = value");
	return false;
}

static char *read_line(char *out, int size, void *stream)
{
	struct config_reader *r = stream;
	char line[512], *text = line;
	size_t len;

	*out = '\0';
	if (!fgets(line, sizeof(line), r->f))
		return NULL;
	r->line++;
	len = strlen(line);
	if (len && line[len - 1] != '\n' && !feof(r->f)) {
		for (int c = 0; c != '\n' && c != EOF;)
			c = fgetc(r->f);
		len = sizeof(line);
	}
	while (*text && isspace((unsigned char)*text))
		text++;
	if (len == sizeof(line) || (int)strlen(text) >= size) {
		complain(r, "syntax", "the line is too long");
	} else {
		text[strcspn(text, "\n")] = '\0';
		if (is_readable(r, text))
			strcpy(out, text);
	}
	strcat(out, "\n");
	return out;
}

static int read_file(struct config *c, const char *path)
{
	struct config_reader r = { .config = c, .path = path, .f = fopen(path, "re") };
	int err = 0;

	if (!r.f) {
		err = -errno;
		log_err("%s: %s", path, strerror(errno));
		return err;
	}
	ini_parse_stream(read_line, &r, on_value, &r);
	check_sections(&r);
	if (ferror(r.f)) {
		err = -EIO;
		log_err("%s: cannot be read", path);
	}
	fclose(r.f);
	for (size_t i = 0; i < r.seen_cnt; i++)
		free(r.seen[i].name);
	free(r.seen);
	if (r.errors > ERRORS_MAX)
		log_err("%s: %u more errors", path, r.errors - ERRORS_MAX);
	if (r.errors)
		config__check_files(c, path, LOG_LEVEL_ERR);
	return err ? err : r.errors ? -EINVAL : 0;
}

/* Paths that are in the state directory unless the file says otherwise. */
static void place_files(struct config *c)
{
	http_config__place_token(&c->http, c->agent.state_dir);
	if (!c->store_path_set)
		snprintf(c->store.path, sizeof(c->store.path), "%s/store.db", c->agent.state_dir);
}

struct config *config__new(const char *path)
{
	struct config *c = calloc(1, sizeof(*c));
	int err = c ? init(c) : -ENOMEM;

	if (err)
		log_no_memory();
	else if (path)
		err = read_file(c, path);
	if (!err)
		place_files(c);
	if (!err)
		return c;
	config__put(c);
	errno = -err;
	return NULL;
}

struct config *config__load(const char *path, bool *required)
{
	*required |= !access(path, F_OK) || errno != ENOENT;
	return config__new(*required ? path : NULL);
}

static bool same(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

const char *config__stay(struct config *c, const struct config *running)
{
	const struct agent_config *a = &running->agent, *b = &c->agent;
	const char *late = NULL;

	if (a->event_cnt != b->event_cnt ||
	    memcmp(a->events, b->events, a->event_cnt * sizeof(a->events[0])))
		late = "events";
	if (a->table_mib != b->table_mib)
		late = "table-memory";
	if (a->kernel != b->kernel)
		late = "kernel";
	if (a->native != b->native)
		late = "native";
	if (!same(a->cgroup, b->cgroup))
		late = "cgroup";
	if (!same(a->comm, b->comm))
		late = "comm";
	if (!same(a->state_dir, b->state_dir)) {
		late = "state-dir";
		if (set_string(&c->agent.state_dir, a->state_dir))
			log_no_memory();
		place_files(c);
	}
	return late;
}
