/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/cgroup.h"

#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- controllers -------------------------------------------------------------------------- */

/* enum cgroup_subsys_id numbers the controllers built into this kernel: the index we need. */
static int subsys_by_btf(const char *name)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *type;
	const struct btf_enum *values;
	char want[64];
	int id, found = -ENOENT;

	if (!btf)
		return -ENOENT;
	id = btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM);
	if (id < 0)
		goto out;
	/* v1 calls it blkio, the kernel's variable is io_cgrp_subsys. */
	snprintf(want, sizeof(want), "%s_cgrp_id", strcmp(name, "blkio") ? name : "io");
	type = btf__type_by_id(btf, (uint32_t)id);
	values = btf_enum(type);
	for (int i = 0; i < btf_vlen(type); i++) {
		const char *have = btf__name_by_offset(btf, values[i].name_off);

		if (have && !strcmp(have, want))
			found = values[i].val;
	}
out:
	btf__free(btf);
	return found;
}

/*
 * Without BTF: the lines of /proc/cgroups are in the order of the index. Kernels that leave the
 * v2-only controllers out (6.14 and later) all have BTF.
 */
static int subsys_by_proc(const char *name)
{
	FILE *f = fopen("/proc/cgroups", "re");
	char line[256], have[64];
	int index = 0, found = -ENOENT;

	if (!f)
		return -ENOENT;
	while (found < 0 && fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || sscanf(line, "%63s", have) != 1)
			continue;
		if (!strcmp(have, name))
			found = index;
		index++;
	}
	fclose(f);
	return found;
}

int cgroup__subsys(const char *controller)
{
	int index = subsys_by_btf(controller);

	return index >= 0 ? index : subsys_by_proc(controller);
}

/* ---- mounted hierarchies -------------------------------------------------------------------- */

struct hierarchy {
	char mount[PATH_MAX];
	char super_options[512]; /* "rw,memory"; v1 names its controllers here */
	bool v2;
};

/* mountinfo writes blank, tab, newline and backslash as three octal digits. In place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* Copies up to the next blank. False: nothing there, or too long. */
static bool take_word(const char **p, char *buf, size_t size)
{
	size_t n = strcspn(*p, " \n");

	if (!n || n >= size)
		return false;
	memcpy(buf, *p, n);
	buf[n] = '\0';
	*p += n;
	*p += strspn(*p, " ");
	return true;
}

/* "36 32 0:33 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory" */
static bool parse_mount(const char *line, struct hierarchy *h)
{
	char skip[PATH_MAX], type[64];
	const char *p = line;

	for (int i = 0; i < 4; i++) {
		if (!take_word(&p, skip, sizeof(skip)))
			return false;
	}
	if (!take_word(&p, h->mount, sizeof(h->mount)))
		return false;
	p = strstr(p, " - ");
	if (!p)
		return false;
	p += 3;
	if (!take_word(&p, type, sizeof(type)) || !take_word(&p, skip, sizeof(skip)) ||
	    !take_word(&p, h->super_options, sizeof(h->super_options)))
		return false;
	unescape(h->mount);
	h->v2 = !strcmp(type, "cgroup2");
	return h->v2 || !strcmp(type, "cgroup");
}

/* The first of the mount's options that is a controller. */
static int first_subsys(const struct hierarchy *h)
{
	char options[sizeof(h->super_options)], *save = NULL;
	int index = -ENOTSUP;

	memcpy(options, h->super_options, sizeof(options));
	for (char *o = strtok_r(options, ",", &save); o && index < 0;
	     o = strtok_r(NULL, ",", &save)) {
		if (strcmp(o, "rw") && strcmp(o, "ro") && !strchr(o, '='))
			index = cgroup__subsys(o);
	}
	return index < 0 ? -ENOTSUP : index;
}

static bool is_cgroup_dir(const char *path, bool *v2, struct stat *st)
{
	struct statfs fs;

	if (stat(path, st) || !S_ISDIR(st->st_mode) || statfs(path, &fs))
		return false;
	*v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
	return *v2 || fs.f_type == CGROUP_SUPER_MAGIC;
}

static bool has_processes(const char *dir)
{
	char path[PATH_MAX + 16], byte;
	bool any;
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	any = read(fd, &byte, 1) > 0;
	close(fd);
	return any;
}

/*
 * The directory as the user's name means it in this hierarchy: below its root, or the whole path of
 * a directory in it. False: not here.
 */
static bool locate(const struct hierarchy *h, const char *path, char *dir, size_t size,
		   struct stat *st)
{
	size_t root = strlen(h->mount);
	struct stat at_root;
	bool v2;
	int n;

	n = snprintf(dir, size, "%s/%s", h->mount, path);
	if (n > 0 && (size_t)n < size && is_cgroup_dir(dir, &v2, st) && v2 == h->v2)
		return true;
	/* Two hierarchies are two file systems, so the device tells which one the path is in. */
	n = snprintf(dir, size, "%s", path);
	return path[0] == '/' && n > 0 && (size_t)n < size && root && is_cgroup_dir(dir, &v2, st) &&
	       v2 == h->v2 && !stat(h->mount, &at_root) && at_root.st_dev == st->st_dev;
}

int cgroup__resolve(const char *path, struct cgroup *out, char *why, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct hierarchy *h = malloc(sizeof(*h));
	char *line = NULL, dir[PATH_MAX];
	int best = 0, err = -ENOENT;
	size_t cap = 0;
	struct stat st;

	snprintf(why, size, "no such control group in any mounted hierarchy");
	if (!f || !h) {
		err = f ? -ENOMEM : -errno;
		snprintf(why, size, "cannot read /proc/self/mountinfo");
		goto out;
	}
	/* best: 3 v2; 2 v1 with processes; 1 v1; 0 none yet. The first of the best wins. */
	while (best < 3 && getline(&line, &cap, f) > 0) {
		int subsys = -1, rank;

		if (!parse_mount(line, h) || !locate(h, path, dir, sizeof(dir), &st))
			continue;
		rank = h->v2 ? 3 : has_processes(dir) ? 2 : 1;
		if (rank <= best)
			continue;
		if (!h->v2)
			subsys = first_subsys(h);
		if (!h->v2 && subsys < 0) {
			if (err == -ENOENT) {
				snprintf(why, size,
					 "%s has no controller, so the kernel cannot match it",
					 h->mount);
				err = -ENOTSUP;
			}
			continue;
		}
		*out = (struct cgroup){ .id = st.st_ino, .subsys = subsys };
		best = rank;
		err = 0;
	}
out:
	free(line);
	free(h);
	if (f)
		fclose(f);
	if (!err && size)
		why[0] = '\0';
	return err;
}

/* ---- containers ----------------------------------------------------------------------------- */

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/*
 * Whether the digits at [at, at + 64) are an id by what stands around them:
 *
 *	/docker/ID            /kubepods/burstable/podUID/ID       cgroupfs driver
 *	docker-ID.scope       cri-containerd-ID.scope             systemd driver
 *	crio-ID.scope         libpod-ID.scope/container           CRI-O, Podman
 *	kubepods-podUID.slice:cri-containerd:ID                   containerd without systemd's help
 *
 * conmon, the monitor of a container, has a scope of the same name and is not in the container.
 */
static bool is_container_id(const char *text, size_t len, size_t at)
{
	size_t behind = at + CONTAINER_ID_LEN;
	char before = at ? text[at - 1] : '\0';

	if (before != '/' && before != '-' && before != ':')
		return false;
	if (str_ends_with(text, at, "conmon-"))
		return false;
	return behind == len || text[behind] == '/' || text[behind] == '.' || text[behind] == '\n';
}

int cgroup__container(const char *text, size_t len, char *id)
{
	size_t best_depth = 0, line = 0, run = 0;
	bool found = false;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && is_hex(text[i])) {
			run++;
			continue;
		}
		/* Innermost: the furthest to the right of any line. Hierarchies of v1 that were not
		 * given to an inner container still name the outer one.
		 */
		if (run == CONTAINER_ID_LEN && is_container_id(text, len, i - run) &&
		    (!found || i - line > best_depth)) {
			memcpy(id, text + i - run, CONTAINER_ID_LEN);
			id[CONTAINER_ID_LEN] = '\0';
			best_depth = i - line;
			found = true;
		}
		run = 0;
		if (i < len && text[i] == '\n')
			line = i + 1;
	}
	return found ? 0 : -ENOENT;
}

/* ---- pods ----------------------------------------------------------------------------------- */

/*
 * "pod" and a UUID, with _ for - where systemd makes the slice, or the 32 digits of a static pod.
 * /kubepods/burstable/podUID/ID, kubepods-burstable-podUID.slice
 */
static bool is_pod_uid(const char *uid, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool between = len == POD_UID_LEN && (i == 8 || i == 13 || i == 18 || i == 23);

		if (between != (uid[i] == '-'))
			return false;
	}
	return true;
}

const char *cgroup__pod(const char *text, char uid[POD_UID_LEN + 1])
{
	const char *p = text;

	for (; p && (p = strstr(p, "pod")); p += 3) {
		size_t len = strspn(p + 3, "0123456789abcdef-_");

		if (p == text || (p[-1] != '/' && p[-1] != '-') ||
		    (len != POD_UID_LEN && len != 32))
			continue;
		for (size_t i = 0; i < len; i++)
			uid[i] = p[3 + i] == '_' ? '-' : p[3 + i];
		uid[len] = '\0';
		if (is_pod_uid(uid, len))
			return p;
	}
	return NULL;
}

/* ---- paths ---------------------------------------------------------------------------------- */

/* The path of a line "4:cpu,cpuacct:/docker/ID"; NULL: the line has none. */
static const char *path_of_line(const char *line)
{
	const char *path = line + strcspn(line, ":\n");

	path += *path == ':' ? 1 + strcspn(path + 1, ":\n") : 0;
	return *path == ':' && path[1] == '/' ? path + 1 : NULL;
}

void cgroup__path_at(const char *text, const char *at, struct strbuf *path)
{
	const char *line = at, *begin;

	while (line > text && line[-1] != '\n')
		line--;
	begin = path_of_line(line);
	if (begin && begin < at)
		strbuf__add(path, begin, (size_t)(at - begin) + strcspn(at, "/\n"));
}

bool cgroup__is_below(const char *text, const char *path)
{
	size_t len = strlen(path);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *have = path_of_line(line);

		if (have && !strncmp(have, path, len) && strchr("/\n", have[len]))
			return true; /* strchr() finds the NUL, too */
	}
	return false;
}
