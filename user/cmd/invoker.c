/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/invoker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/opener.h"
#include "base/str.h"
#include "process/called.h"

#define ENVIRON_MAX    (1U << 20)
#define SUDO_ANCESTORS 4 /* sudo, its monitor, a shell script that it runs */

struct invoker {
	uid_t uid;
	gid_t gid;
	char *name;	     /* owned; NULL: the user has none */
	struct strbuf texts; /* of the environment, one behind the other */
	char **env;	     /* owned; into `texts`, or into our own */
	size_t env_cnt;
};

/* ---- who ------------------------------------------------------------------------------------- */

static bool id_of(const char *variable, unsigned long *id)
{
	const char *value = getenv(variable);
	long long n;

	if (!value || parse_int(value, 0, UINT32_MAX - 1, &n))
		return false;
	*id = (unsigned long)n;
	return true;
}

/* ---- the environment ------------------------------------------------------------------------- */

static bool is_sudo(pid_t pid)
{
	char path[64], comm[32] = "";
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(comm, sizeof(comm), f))
		comm[0] = '\0';
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return !strcmp(comm, "sudo\n") && !stat(path, &st) && !st.st_uid;
}

/* sudo keeps its own as the user's shell made it. Nothing, if sudo is not there any more. */
static void read_environ_of_sudo(struct strbuf *out)
{
	struct readers *rs;
	pid_t pid = getppid();

	for (int i = 0; i < SUDO_ANCESTORS && pid > 1 && !is_sudo(pid); i++)
		pid = called__parent(pid);
	if (pid <= 1 || !is_sudo(pid))
		return;
	rs = readers__new();
	opener__text_of(rs, (uint32_t)pid, "environ", ENVIRON_MAX, out);
	readers__free(rs);
	if (out->len && out->s[out->len - 1])
		strbuf__addc(out, '\0');
}

static char **find_variable(struct invoker *in, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < in->env_cnt; i++)
		if (!strncmp(in->env[i], entry, len))
			return &in->env[i];
	return NULL;
}

static void set_variable(struct invoker *in, char *entry)
{
	char **old = find_variable(in, entry);

	if (old)
		*old = entry;
	else
		in->env[in->env_cnt++] = entry; /* there is room: see build_environment() */
}

/* Does sudo set this variable for the program that it runs? */
static bool is_of_sudo(const char *entry)
{
	static const char *const names[] = { "HOME=", "USER=", "LOGNAME=", "SHELL=",
					     "MAIL=", "PATH=", "TERM=" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(entry, names[i], strlen(names[i])))
			return true;
	return false;
}

static bool is_about_sudo(const char *entry)
{
	return !strncmp(entry, "SUDO_", 5);
}

/* "sudo X=1 pyperf-bpf": adds the variables of our environment that sudo itself has not set. */
static void add_own(struct invoker *in)
{
	bool has_base = in->env_cnt > 0;

	for (char **e = environ; *e; e++)
		if (strchr(*e, '=') && !is_about_sudo(*e) && !(has_base && is_of_sudo(*e)))
			set_variable(in, *e);
}

/* As login(1) sets them. */
static void add_login(struct invoker *in, const struct passwd *pw, size_t *at)
{
	const char *const values[] = { pw->pw_dir, pw->pw_name, pw->pw_name, pw->pw_shell };
	static const char *const names[] = { "HOME", "USER", "LOGNAME", "SHELL" };

	for (size_t i = 0; i < 4; i++) {
		at[i] = in->texts.len;
		strbuf__addf(&in->texts, "%s=%s", names[i], values[i] ? values[i] : "");
		strbuf__addc(&in->texts, '\0');
	}
}

static size_t count_words(const char *text, size_t len)
{
	size_t cnt = 0;

	for (size_t i = 0; i < len; i++)
		cnt += !text[i];
	return cnt;
}

static int build_environment(struct invoker *in, const struct passwd *pw)
{
	size_t own = 0, base, login[4];
	char *word;

	for (char **e = environ; *e; e++)
		own++;
	read_environ_of_sudo(&in->texts);
	base = in->texts.len;
	if (pw)
		add_login(in, pw, login);
	if (in->texts.err)
		return -ENOMEM;
	in->env = calloc(own + count_words(in->texts.s, in->texts.len) + 1, sizeof(*in->env));
	if (!in->env)
		return -ENOMEM;
	for (word = in->texts.s; base && word < in->texts.s + base; word += strlen(word) + 1)
		if (strchr(word, '=') && !is_about_sudo(word))
			set_variable(in, word);
	add_own(in);
	for (size_t i = 0; pw && !base && i < 4; i++)
		set_variable(in, in->texts.s + login[i]);
	return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

int invoker__find(struct invoker **found)
{
	unsigned long uid, gid;
	const struct passwd *pw;
	struct invoker *in;

	*found = NULL;
	if (geteuid() || !id_of("SUDO_UID", &uid) || !uid)
		return 0;
	in = calloc(1, sizeof(*in));
	if (!in)
		return -ENOMEM;
	pw = getpwuid((uid_t)uid);
	in->uid = (uid_t)uid;
	in->gid = id_of("SUDO_GID", &gid) ? (gid_t)gid : pw ? pw->pw_gid : (gid_t)uid;
	in->name = pw ? strdup(pw->pw_name) : NULL;
	if (!build_environment(in, pw) && (in->name || !pw)) {
		*found = in;
		return 0;
	}
	invoker__free(in);
	return -ENOMEM;
}

void invoker__free(struct invoker *in)
{
	if (!in)
		return;
	strbuf__free(&in->texts);
	free(in->env);
	free(in->name);
	free(in);
}

char *const *invoker__environment(const struct invoker *in)
{
	return in->env;
}

int invoker__become(const struct invoker *in)
{
	int err = in->name ? initgroups(in->name, in->gid) : setgroups(1, &in->gid);

	if (err || setresgid(in->gid, in->gid, in->gid) || setresuid(in->uid, in->uid, in->uid))
		return -errno;
	return 0;
}
