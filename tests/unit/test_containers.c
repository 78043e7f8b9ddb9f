/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Containers and pods by name, from trees that look like /proc, /var/log and /var/lib. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/containers.h"

#define DIGITS60 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab"
#define WEB	 "6f2c" DIGITS60
#define DB	 "6f2d" DIGITS60
#define CAFE	 "cafe" DIGITS60
#define APP	 "aaaa" DIGITS60
#define SIDE	 "bbbb" DIGITS60
#define APP2	 "cccc" DIGITS60
#define PAUSE	 "dddd" DIGITS60

#define UID	 "0123abcd-0123-4567-89ab-0123456789ab"
#define UID2	 "1123abcd-0123-4567-89ab-0123456789ab"
#define SLICE                                                                                      \
	"/kubepods.slice/kubepods-burstable.slice/"                                                \
	"kubepods-burstable-pod0123abcd_0123_4567_89ab_0123456789ab.slice"
#define FLAT   "/kubepods/besteffort/pod" UID2

#define LONG   DIGITS60 DIGITS60 DIGITS60 DIGITS60 DIGITS60 /* 300: no name is as long */

#define PODMAN "/var/lib/containers/storage/overlay-containers/containers.json"

struct tree {
	char root[64];
	struct containers c;
	struct strbuf path, why;
};

static void put(const struct tree *t, const char *name, const char *text)
{
	char path[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", t->root, name);
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_process(const struct tree *t, int pid, const char *cgroup)
{
	char name[64];

	snprintf(name, sizeof(name), "proc/%d/cgroup", pid);
	put(t, name, cgroup);
}

static void put_docker(const struct tree *t, const char *id, const char *config)
{
	char name[256];

	snprintf(name, sizeof(name), "var/lib/docker/containers/%s/config.v2.json", id);
	put(t, name, config);
}

static int setup(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	strcpy(t->root, "/tmp/pyperf-containers.XXXXXX");
	if (!mkdtemp(t->root))
		return -1;
	*state = t;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct tree *t = *state;

	nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	containers__free(&t->c);
	strbuf__free(&t->path);
	strbuf__free(&t->why);
	free(t);
	return 0;
}

static void read_all(struct tree *t)
{
	containers__free(&t->c);
	assert_int_equal(containers__read(&t->c, t->root), 0);
}

static int choose(struct tree *t, const char *pod, const char *name)
{
	strbuf__clear(&t->path);
	strbuf__clear(&t->why);
	return containers__choose(&t->c, pod, name, &t->path, &t->why);
}

static void takes(struct tree *t, const char *pod, const char *name, const char *path)
{
	int err = choose(t, pod, name);

	if (err)
		fail_msg("%s %s: %s", pod ? pod : "", name ? name : "", t->why.s);
	assert_string_equal(t->path.s, path);
}

static void refuses(struct tree *t, const char *pod, const char *name, int err, const char *why)
{
	assert_int_equal(choose(t, pod, name), err);
	assert_int_equal(t->path.len, 0);
	if (!t->why.len || !strstr(t->why.s, why))
		fail_msg("'%s' does not say '%s'", t->why.len ? t->why.s : "", why);
}

/* ---- containers ------------------------------------------------------------------------------ */

static void containers_of_docker(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::/system.slice/docker-" WEB ".scope\n");
	put_process(t, 8, "0::/system.slice/docker-" WEB ".scope\n");
	put_process(t, 9, "4:cpu:/docker/" DB "/init\n0::/system.slice/containerd.service\n");
	put_process(t, 10, "0::/user.slice\n");
	put_docker(t, WEB,
		   "{\"State\":{\"Name\":\"no\",\"Pid\":7},\"ID\":\"" WEB
		   "\",\"Name\":\"/shop-web\",\"Config\":{\"Env\":[\"Name=x\"]}}");
	put_docker(t, DB, "{\"Name\":\"/shop-db\"}");
	read_all(t);
	assert_int_equal(t->c.cnt, 2);
	takes(t, NULL, "shop-web", "/system.slice/docker-" WEB ".scope");
	takes(t, NULL, "shop-db", "/docker/" DB);
	takes(t, NULL, "6f2c", "/system.slice/docker-" WEB ".scope");
	takes(t, NULL, DB, "/docker/" DB);
	refuses(t, NULL, "6f2", -ESRCH, "no container");
	refuses(t, NULL, WEB "0", -ESRCH, "no container");
	refuses(t, NULL, "shop-wbe", -ESRCH, "did you mean shop-web?");
	refuses(t, NULL, "elsewhere", -ESRCH, "shop-web (6f2c01234567)");
	refuses(t, "shop/web", NULL, -ESRCH, "there are: none");
}

/* A name that consists of digits goes before the same id. */
static void names_go_before_ids(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::/system.slice/docker-" WEB ".scope\n");
	put_process(t, 8, "0::/system.slice/docker-" CAFE ".scope\n");
	put_docker(t, WEB, "{\"Name\":\"/cafe\"}");
	put_docker(t, CAFE, "{\"Name\":\"/tea\"}");
	read_all(t);
	takes(t, NULL, "cafe", "/system.slice/docker-" WEB ".scope");
	takes(t, NULL, "cafe0", "/system.slice/docker-" CAFE ".scope");
}

static void several_containers(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::/system.slice/docker-" WEB ".scope\n");
	put_process(t, 8, "0::/machine.slice/libpod-" DB ".scope/container\n");
	put_docker(t, WEB, "{\"Name\":\"/web\"}");
	put(t, PODMAN, "[{\"names\":[\"web\"],\"id\":\"" DB "\"}]");
	read_all(t);
	refuses(t, NULL, "web", -ENOTUNIQ, "web (6f2c01234567), web (6f2d01234567)");
	takes(t, NULL, "6f2d", "/machine.slice/libpod-" DB ".scope");
}

/* Whoever may make control groups can take the id of somebody else's container. */
static void an_id_that_somebody_else_took(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::/user.slice/user-1000.slice/x/docker-" WEB ".scope\n");
	put_process(t, 8, "0::/system.slice/docker-" WEB ".scope\n");
	put_docker(t, WEB, "{\"Name\":\"/web\"}");
	read_all(t);
	refuses(t, NULL, "web", -ENOTUNIQ, "/user.slice/user-1000.slice/x/docker-" WEB ".scope");
	refuses(t, NULL, "6f2c", -ENOTUNIQ, "choose one with -C");
}

/* ... and the uid of somebody else's pod. */
static void a_uid_that_somebody_else_took(void **state)
{
	struct tree *t = *state;
	const char *taken = "/user.slice/x/pod" UID2;

	put_process(t, 7, "0::" FLAT "/" APP2 "\n");
	put_process(t, 8, "0::/user.slice/x/pod" UID2 "/" APP "\n");
	put_process(t, 9, "0::" FLAT "/" SIDE "/pod" UID "/" DB "\n");
	put(t, "var/log/pods/stage_web-0_" UID2 "/app/0.log", "");
	put(t, "var/log/pods/shop_web-0_" UID "/app/0.log", "");
	put(t, "var/log/containers/web-0_shop_app-" DB ".log", "");
	read_all(t);
	refuses(t, "stage/web-0", NULL, -ENOTUNIQ, taken);
	refuses(t, UID2, NULL, -ENOTUNIQ, "choose one with -C");
	/* Within a pod, a group with another pod's uid stays a part of the pod. */
	refuses(t, "shop/web-0", NULL, -ESRCH, "no container of a pod");
	refuses(t, NULL, "app", -ESRCH, "no container");
}

static void too_many(void **state)
{
	struct tree *t = *state;
	char cgroup[128];

	for (int i = 0; i < 30; i++) {
		snprintf(cgroup, sizeof(cgroup), "0::/docker/%04x" DIGITS60 "\n", i);
		put_process(t, 100 + i, cgroup);
	}
	t->c.max = 30;
	assert_int_equal(containers__read(&t->c, t->root), 0);
	containers__free(&t->c);
	t->c.max = 29;
	assert_int_equal(containers__read(&t->c, t->root), -E2BIG);
	assert_int_equal(t->c.cnt, 29);
}

static const char *const broken[] = {
	"",
	"{",
	"[]",
	"{\"Name\":7}",
	"{\"Name\":\"\"}",
	"{\"Name\":\"/\"}",
	"{\"Name\":\"/a b\"}",
	"{\"Name\":\"/\\u001b[2J\"}",
	"{\"Name\":\"web",
	"{\"Name\":\"/" LONG "\"}",
	"{\"Config\":{\"Name\":\"web\"},\"Args\":[{\"Name\":\"web\"}]}",
	"[{\"id\":\"" WEB "\",\"names\":\"web\"}]",
	"[{\"id\":\"" WEB "\",\"names\":[\"a\\nb\"]}]",
	"[{\"id\":\"6f2c\",\"names\":[\"web\"]}]",
	"[{\"names\":[\"web\"]}]",
	"[{\"id\":\"" WEB "\"",
};

static void files_that_are_broken(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::/docker/" WEB "\n");
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		put_docker(t, WEB, broken[i]);
		put(t, PODMAN, broken[i]);
		read_all(t);
		assert_int_equal(t->c.cnt, 1);
		if (*t->c.all[0].name)
			fail_msg("%s names %s", broken[i], t->c.all[0].name);
		takes(t, NULL, "6f2c", "/docker/" WEB);
		refuses(t, NULL, "web", -ESRCH, "(6f2c01234567)");
	}
}

/* ---- pods ------------------------------------------------------------------------------------ */

static void put_pods(const struct tree *t)
{
	put_process(t, 7, "0::" SLICE "/cri-containerd-" APP ".scope\n");
	put_process(t, 8, "0::" SLICE "/cri-containerd-" SIDE ".scope\n");
	put_process(t, 9, "0::" SLICE "/cri-containerd-" PAUSE ".scope\n");
	put_process(t, 10, "0::" FLAT "/" APP2 "\n");
	put(t, "var/log/containers/web-0_shop_app-" APP ".log", "");
	put(t, "var/log/containers/web-0_shop_proxy-" SIDE ".log", "");
	put(t, "var/log/containers/web-0_stage_app-" APP2 ".log", "");
	put(t, "var/log/pods/shop_web-0_" UID "/app/0.log", "");
	put(t, "var/log/pods/stage_web-0_" UID2 "/app/0.log", "");
}

static void pods_by_name(void **state)
{
	struct tree *t = *state;

	put_pods(t);
	read_all(t);
	takes(t, "shop/web-0", NULL, SLICE);
	takes(t, "stage/web-0", NULL, FLAT);
	takes(t, UID, NULL, SLICE);
	takes(t, "shop/web-0", "proxy", SLICE "/cri-containerd-" SIDE ".scope");
	takes(t, "stage/web-0", "app", FLAT "/" APP2);
	takes(t, "shop/web-0", "dddd", SLICE "/cri-containerd-" PAUSE ".scope");
	takes(t, NULL, "proxy", SLICE "/cri-containerd-" SIDE ".scope");
	refuses(t, "web-0", NULL, -ENOTUNIQ, "shop/web-0, stage/web-0");
	refuses(t, NULL, "app", -ENOTUNIQ, "shop/web-0 app (aaaa01234567)");
	refuses(t, "shop/web-1", NULL, -ESRCH, "did you mean shop/web-0?");
	refuses(t, "other", NULL, -ESRCH, "shop/web-0, stage/web-0");
	refuses(t, "other", "app", -ESRCH, "no container of a pod other runs");
	refuses(t, "shop/web-0", "prxoy", -ESRCH, "did you mean proxy?");
	refuses(t, "stage/web-0", "proxy", -ESRCH, "stage/web-0 app (cccc01234567)");
	refuses(t, "", NULL, -ESRCH, "no container of a pod");
}

/* A name of a pod that nobody but the pod itself gave. */
static void claims_of_pods_are_no_names(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::" FLAT "/" APP2 "\n");
	put(t, "proc/7/environ", "POD_NAME=web-0");
	put(t,
	    "proc/7/root"
	    "/etc/hostname",
	    "web-0\n");
	read_all(t);
	refuses(t, "web-0", NULL, -ESRCH, UID2);
	takes(t, UID2, NULL, FLAT);
}

#define COLON "/system.slice/containerd.service/kubepods-pod" UID ".slice:cri-containerd:"

static void pods_without_a_group(void **state)
{
	struct tree *t = *state;

	put_process(t, 7, "0::" COLON APP "\n");
	put(t, "var/log/containers/web-0_shop_app-" APP ".log", "");
	read_all(t);
	refuses(t, "shop/web-0", NULL, -ENOTUNIQ, "--container: shop/web-0 app (aaaa01234567)");
	takes(t, "shop/web-0", "app", COLON APP);
}

static void lists_are_short(void **state)
{
	struct tree *t = *state;
	char cgroup[128];

	for (int i = 0; i < 30; i++) {
		snprintf(cgroup, sizeof(cgroup), "0::/docker/%04x" DIGITS60 "\n", i);
		put_process(t, 100 + i, cgroup);
	}
	read_all(t);
	refuses(t, NULL, "web", -ESRCH, " and 22 more");
}

/* ---- processes ------------------------------------------------------------------------------- */

static void processes_of_a_group(void **state)
{
	struct tree *t = *state;
	pid_t *pids;
	size_t cnt;

	put_pods(t);
	put_process(t, 11, "0::" SLICE "x\n1:name=systemd:/" SLICE "\n");
	put_process(t, 12, "5:cpu,cpuacct:" SLICE "\n0::/\n");
	assert_int_equal(containers__processes(t->root, SLICE, &pids, &cnt), 0);
	assert_int_equal(cnt, 4);
	for (size_t i = 0; i < cnt; i++)
		assert_true((pids[i] >= 7 && pids[i] <= 9) || pids[i] == 12);
	free(pids);
	assert_int_equal(containers__processes("/nonexistent", SLICE, &pids, &cnt), -ENOENT);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(containers_of_docker),
		T(names_go_before_ids),
		T(several_containers),
		T(an_id_that_somebody_else_took),
		T(a_uid_that_somebody_else_took),
		T(too_many),
		T(files_that_are_broken),
		T(pods_by_name),
		T(claims_of_pods_are_no_names),
		T(pods_without_a_group),
		T(lists_are_short),
		T(processes_of_a_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
