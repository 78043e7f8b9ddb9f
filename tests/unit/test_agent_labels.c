/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Labels of processes, from trees that look like /proc and /var/log. */
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

#include "agent/labels.h"

#define ID	    "6f2c0123456789abcdef0123456789abcdef0123456789abcdef0123456789e1"
#define UID	    "0123abcd-0123-4567-89ab-0123456789ab"
#define UNDERSCORED "0123abcd_0123_4567_89ab_0123456789ab"

/* ---- a tree ---------------------------------------------------------------------------------- */

struct tree {
	char root[64];
	struct labels_config config;
	struct label_set *set;
};

static void make_parents(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
}

static void put(const struct tree *t, const char *name, const void *data, size_t len)
{
	char path[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", t->root, name);
	make_parents(path);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
}

static void put_z(const struct tree *t, const char *name, const char *text)
{
	put(t, name, text, strlen(text));
}

#define PUT(t, name, text) put(t, name, text, sizeof(text) - 1) /* NULs count */

static int setup(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	strcpy(t->root, "/tmp/pyperf-labels.XXXXXX");
	if (!mkdtemp(t->root) || labels_config__init(&t->config))
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
	label_set__put(t->set);
	labels_config__free(&t->config);
	free(t);
	return 0;
}

static void read_labels(struct tree *t)
{
	const struct labelled_process p = { .tgid = 7,
					    .comm = "comm",
					    .exe = "/usr/bin/python3.11",
					    .python = "3.11.2",
					    .container = "" };

	label_set__put(t->set);
	t->set = labels__read(t->root, &t->config, &p);
	assert_non_null(t->set);
	for (size_t i = 1; i < t->set->cnt; i++)
		assert_true(strcmp(t->set->labels[i - 1].name, t->set->labels[i].name) < 0);
}

static void expect(const struct tree *t, const char *name, const char *value)
{
	const char *have = label_set__get(t->set, name);

	if (!value) {
		assert_null(have);
	} else {
		assert_non_null(have);
		assert_string_equal(have, value);
	}
}

/* ---- what every process has ------------------------------------------------------------------ */

static void of_a_plain_process(void **state)
{
	struct tree *t = *state;

	put_z(t, "proc/7/cgroup", "0::/\n");
	read_labels(t);
	expect(t, "comm", "comm");
	expect(t, "exe", "/usr/bin/python3.11");
	expect(t, "python", "3.11.2");
	expect(t, "container_id", NULL);
	expect(t, "unit", NULL);
	expect(t, "service_name", "comm");
	assert_non_null(label_set__get(t->set, "host"));
}

static void of_a_process_that_is_gone(void **state)
{
	struct tree *t = *state;
	const struct labelled_process p = {
		.tgid = 7, .comm = "worker", .exe = "", .python = "3.11.2, 3.13.0", .container = ID
	};

	t->set = labels__of_gone(&t->config, &p);
	expect(t, "exe", NULL);
	expect(t, "python", "3.11.2");
	expect(t, "container_id", ID);
	expect(t, "service_name", "6f2c01234567");
}

/* ---- containers ------------------------------------------------------------------------------ */

static const struct {
	const char *cgroup, *runtime, *pod;
} containers[] = {
	{ "0::/system.slice/docker-" ID ".scope\n", "docker", NULL },
	{ "0::/docker/" ID "\n", "docker", NULL },
	{ "12:memory:/docker/" ID "\n1:name=systemd:/docker/" ID
	  "\n0::/system.slice/containerd.service\n",
	  "docker", NULL },
	{ "0::/machine.slice/libpod-" ID ".scope/container\n", "podman", NULL },
	{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UNDERSCORED
	  ".slice/cri-containerd-" ID ".scope\n",
	  "containerd", UID },
	{ "0::/system.slice/containerd.service/kubepods-burstable-pod" UNDERSCORED
	  ".slice:cri-containerd:" ID "\n",
	  "containerd", UID },
	{ "0::/kubepods.slice/kubepods-pod" UNDERSCORED ".slice/crio-" ID ".scope\n", "cri-o",
	  UID },
	{ "0::/kubepods/besteffort/pod" UID "/" ID "\n", NULL, UID },
	{ "0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n", NULL,
	  "0123456789abcdef0123456789abcdef" },
	{ "0::/kubepods/pod0123abcd-0123-4567-89ab-0123-56789ab/" ID "\n", NULL, NULL },
};

static void containers_and_their_runtimes(void **state)
{
	struct tree *t = *state;

	for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++) {
		put_z(t, "proc/7/cgroup", containers[i].cgroup);
		read_labels(t);
		expect(t, "container_id", ID);
		expect(t, "container_runtime", containers[i].runtime);
		expect(t, "k8s_pod_uid", containers[i].pod);
		expect(t, "unit", NULL);
		expect(t, "service_name", "6f2c01234567");
	}
}

static void names_of_pods_from_logs(void **state)
{
	struct tree *t = *state;

	put_z(t, "proc/7/cgroup", "0::/kubepods/pod" UID "/" ID "\n");
	put_z(t, "var/log/containers/no-underscores-" ID ".log", "");
	put_z(t,
	      "var/log/containers/other_ns_app-"
	      "0"
	      "f2c0123456789abcdef0123456789abcdef0123456789abcdef0123456789e1.log",
	      "");
	put_z(t, "var/log/containers/web-5d9c_shop_app-" ID ".log", "");
	read_labels(t);
	expect(t, "k8s_pod", "web-5d9c");
	expect(t, "k8s_namespace", "shop");
	expect(t, "k8s_container", "app");
	expect(t, "k8s_workload", "web-5d9c");
	expect(t, "service_name", "web-5d9c");
}

static void names_of_pods_from_directories(void **state)
{
	struct tree *t = *state;

	put_z(t, "proc/7/cgroup", "0::/kubepods/pod" UID "/" ID "\n");
	put_z(t, "var/log/pods/shop_web-5d9c_" UID "/x", "");
	read_labels(t);
	expect(t, "k8s_pod", "web-5d9c");
	expect(t, "k8s_namespace", "shop");
	expect(t, "k8s_container", NULL);
	expect(t, "service_name", "web-5d9c");
}

#define POD_ROOT "proc/7/root"
#define IN_POD	 "0::/kubepods/pod" UID "/" ID "\n"

/* Two deployments whose containers have the same name, as the kubelet's logs tell them apart. */
static void workloads_are_services(void **state)
{
	struct tree *t = *state;

	put_z(t, "proc/7/cgroup", IN_POD);
	PUT(t, "proc/7/cmdline", "python3\0main.py\0");
	put_z(t, "var/log/containers/shop-6955765f44-x2k8p_prod_app-" ID ".log", "");
	read_labels(t);
	expect(t, "k8s_pod", "shop-6955765f44-x2k8p");
	expect(t, "k8s_namespace", "prod");
	expect(t, "k8s_container", "app");
	expect(t, "k8s_workload", "shop");
	expect(t, "service_name", "shop");
	PUT(t, "proc/7/environ", "DD_SERVICE=checkout\0");
	read_labels(t);
	expect(t, "k8s_workload", "shop");
	expect(t, "service_name", "checkout");
	expect(t, "env_DD_SERVICE", NULL);
	PUT(t, "proc/7/environ",
	    "DD_SERVICE=checkout\0OTEL_RESOURCE_ATTRIBUTES=service.name=till\0");
	read_labels(t);
	expect(t, "service_name", "till");
}

/*
 * Without the kubelet's logs: environment, then files of the pod; the host's own name is no pod's.
 */
static void pods_that_the_logs_do_not_name(void **state)
{
	struct tree *t = *state;
	const char *why;

	assert_int_equal(labels_config__set(&t->config, "host", "node7.example", &why), 0);
	put_z(t, "proc/7/cgroup", IN_POD);
	put_z(t, POD_ROOT "/etc/hostname", "shop-0\n");
	put_z(t, POD_ROOT "/var/run/secrets/kubernetes.io/serviceaccount/..data/namespace", "prod");
	read_labels(t);
	expect(t, "k8s_pod", "shop-0");
	expect(t, "k8s_namespace", "prod");
	expect(t, "service_name", "shop");
	PUT(t, "proc/7/environ", "HOSTNAME=cart-x2k8p\0POD_NAMESPACE=test\0");
	read_labels(t);
	expect(t, "k8s_pod", "cart-x2k8p");
	expect(t, "k8s_namespace", "test");
	expect(t, "k8s_workload", "cart");
	PUT(t, "proc/7/environ", "HOSTNAME=node7\0POD_NAME=mail-29123456-x2k8p\0");
	read_labels(t);
	expect(t, "k8s_workload", "mail");
	PUT(t, "proc/7/environ", "HOSTNAME=node7\0");
	put_z(t, POD_ROOT "/etc/hostname", "node7\n");
	read_labels(t);
	expect(t, "k8s_pod", NULL);
	expect(t, "k8s_workload", NULL);
	expect(t, "service_name", "6f2c01234567");
	PUT(t, "proc/7/environ",
	    "OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=x-1,k8s.deployment.name=till,"
	    "k8s.namespace.name=b\0");
	read_labels(t);
	expect(t, "k8s_workload", "till");
	expect(t, "k8s_namespace", "b");
	put_z(t, POD_ROOT "/etc/podinfo/..data/labels",
	      "app=\"web\"\napp.kubernetes.io/name=\"Shop.Front\"\nz=\"\"");
	read_labels(t);
	expect(t, "k8s_app", "Shop.Front");
	expect(t, "service_name", "Shop.Front");
	/* Of a process that is in no pod nobody asks. */
	put_z(t, "proc/7/cgroup", "0::/\n");
	PUT(t, "proc/7/environ", "HOSTNAME=x-0\0POD_NAME=x-0\0");
	read_labels(t);
	expect(t, "k8s_pod", NULL);
	expect(t, "k8s_app", NULL);
	expect(t, "service_name", "comm");
}

/* A pod cannot have the agent read what is not its own, wait, or show what is no name. */
static void files_of_a_hostile_pod(void **state)
{
	static const char *const bad[] = { "",	 "\n",	"../x",	    "a b", "A",
					   "-a", "a_b", "a\x1b[0m", "\xff" };
	struct tree *t = *state;
	char path[256], target[128];
	char *big = malloc(300);

	put_z(t, "proc/7/cgroup", IN_POD);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_z(t, POD_ROOT "/etc/hostname", bad[i]);
		read_labels(t);
		expect(t, "k8s_pod", NULL);
	}
	memset(big, 'a', 300);
	put(t, POD_ROOT "/etc/hostname", big, 300);
	read_labels(t);
	expect(t, "k8s_pod", NULL);
	free(big);
	/* A link leads below the pod's root directory, not below ours. */
	snprintf(path, sizeof(path), "%s/" POD_ROOT "/etc", t->root);
	snprintf(target, sizeof(target), "%s/outside", t->root);
	put_z(t, POD_ROOT "/x", "");
	put_z(t, "outside/hostname", "secret");
	put_z(t, "outside/..data/labels", "app.kubernetes.io/name=\"secret\"");
	snprintf(path, sizeof(path), "%s/" POD_ROOT "/etc/hostname", t->root);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/" POD_ROOT "/etc/podinfo", t->root);
	assert_int_equal(symlink(target, path), 0);
	read_labels(t);
	expect(t, "k8s_app", NULL);
	snprintf(path, sizeof(path), "%s/" POD_ROOT "/etc/hostname", t->root);
	assert_int_equal(mkfifo(path, 0666), 0);
	read_labels(t); /* nobody writes to it */
	expect(t, "k8s_pod", NULL);
	expect(t, "service_name", "6f2c01234567");
}

/* ---- units ----------------------------------------------------------------------------------- */

static const struct {
	const char *cgroup, *unit, *service;
} units[] = {
	{ "0::/system.slice/shop.service\n", "shop.service", "shop" },
	{ "0::/system.slice/shop.service/workers\n", "shop.service", "shop" },
	{ "0::/system.slice/system-shop.slice/shop@blue\\x2dgreen.service\n",
	  "shop@blue-green.service", "shop@blue-green" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/notes.service\n",
	  "notes.service", "notes" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", "init.scope", "comm" },
	{ "0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope", "comm" },
	{ "4:memory:/x\n1:name=systemd:/system.slice/shop.service\n", "shop.service", "shop" },
	{ "0::/system.slice/_cgroup.shop.service\n", "cgroup.shop.service", "cgroup.shop" },
	{ "0::/system.slice/a\\x0ab.service\n",
	  "a\xef\xbf\xbd"
	  "b.service",
	  "a\xef\xbf\xbd"
	  "b" },
	{ "0::/system.slice/.service\n", NULL, "comm" },
	{ "0::/docker/" ID "/system.slice/inner.service\n", "inner.service", "inner" },
	/* Hybrid: the first that says something. */
	{ "1:name=systemd:/\n0::/system.slice/shop.service\n", "shop.service", "shop" },
	{ "5:pids:/system.slice/shop.service\n1:name=systemd:/\n0::/\n", "shop.service", "shop" },
	{ "1:name=systemd:/system.slice/shop.service\n0::/system.slice/other.service\n",
	  "shop.service", "shop" },
	{ "1:name=systemd:/docker/" ID "\n0::/system.slice/docker.service\n", NULL,
	  "6f2c01234567" },
	{ "", NULL, "comm" },
	{ "0:", NULL, "comm" },
	{ "::", NULL, "comm" },
};

static void units_of_systemd(void **state)
{
	struct tree *t = *state;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		put_z(t, "proc/7/cgroup", units[i].cgroup);
		read_labels(t);
		expect(t, "unit", units[i].unit);
		expect(t, "service_name", units[i].service);
	}
}

/* Many jobs may have one unit; a name that anything may have tells less than it. */
static void applications_before_units(void **state)
{
	struct tree *t = *state;

	put_z(t, "proc/7/cgroup", "0::/system.slice/cron.service\n");
	PUT(t, "proc/7/cmdline", "python3\0/opt/bills.py\0");
	read_labels(t);
	expect(t, "service_name", "bills");
	PUT(t, "proc/7/cmdline", "python3\0/opt/shop/main.py\0");
	read_labels(t);
	expect(t, "service_name", "cron");
	put_z(t, "proc/7/cgroup", "0::/\n");
	read_labels(t);
	expect(t, "service_name", "main");
}

/* ---- what a process says of itself ----------------------------------------------------------- */

static void environment_by_list(void **state)
{
	struct tree *t = *state;
	const char *why;

	PUT(t, "proc/7/environ",
	    "SECRET=x\0OTEL_SERVICE_NAME=shop\0"
	    "OTEL_RESOURCE_ATTRIBUTES=service.name=other,deployment.environment=pro%64,"
	    "team=a%zz,bad,=x,9x=1\0"
	    "REGION=eu\0OTEL_SERVICE_NAMES=no\0CUT=of");
	put_z(t, "proc/7/cgroup", "0::/system.slice/unit.service\n");
	read_labels(t);
	expect(t, "service_name", "shop");
	expect(t, "deployment_environment", "prod");
	expect(t, "team", "a%zz");
	expect(t, "env_REGION", NULL);
	for (size_t i = 0; i < t->set->cnt; i++)
		assert_null(strstr(t->set->labels[i].name, "SECRET"));
	assert_int_equal(labels_config__set(&t->config, "environment", "REGION, CUT", &why), 0);
	read_labels(t);
	expect(t, "env_REGION", "eu");
	expect(t, "env_CUT", NULL); /* its end was not read */
	expect(t, "service_name", "unit");
}

static void attributes_name_the_service(void **state)
{
	struct tree *t = *state;

	PUT(t, "proc/7/environ", "OTEL_RESOURCE_ATTRIBUTES=host=fake,service.name=shop\0");
	read_labels(t);
	expect(t, "service_name", "shop");
	assert_string_not_equal(label_set__get(t->set, "host"), "fake");
}

static void hostile_values(void **state)
{
	struct tree *t = *state;
	size_t size = 3 << 20;
	char *big = malloc(size);

	memset(big, 'A', size);
	memcpy(big, "OTEL_SERVICE_NAME=\x1b[31m\xff", 24);
	put(t, "proc/7/environ", big, size); /* one variable, without an end */
	read_labels(t);
	expect(t, "service_name", "comm");
	big[600] = '\0';
	put(t, "proc/7/environ", big, size);
	read_labels(t);
	assert_memory_equal(label_set__get(t->set, "service_name"),
			    "\xef\xbf\xbd[31m\xef\xbf\xbd"
			    "A",
			    11);
	assert_in_range(strlen(label_set__get(t->set, "service_name")), 250, LABEL_VALUE_MAX + 16);
	memset(big, ',', size);
	memcpy(big, "OTEL_RESOURCE_ATTRIBUTES=", 25);
	big[200000] = '\0';
	put(t, "proc/7/environ", big, size);
	for (int i = 0; i < 10000; i++)
		memcpy(big + 25 + 6 * i, "a0=1,,", 6),
			big[26 + 6 * i] = (char)('a' + i % 26),
				     big[25 + 6 * i] = (char)('a' + i / 26 % 26);
	put(t, "proc/7/environ", big, size);
	read_labels(t);
	assert_in_range(t->set->cnt, LABELS_MAX / 2, LABELS_MAX);
	expect(t, "service_name", "comm"); /* for that there is room */
	free(big);
}

static void command_lines(void **state)
{
	struct tree *t = *state;
	const char *why;

	PUT(t, "proc/7/cmdline", "/usr/bin/python3\0-m\0shop.web\0--token\0secret\0");
	read_labels(t);
	expect(t, "service_name", "shop.web");
	expect(t, "cmdline", NULL);
	assert_int_equal(labels_config__set(&t->config, "command-line", "yes", &why), 0);
	read_labels(t);
	expect(t, "cmdline", "/usr/bin/python3 -m shop.web --token secret");
}

/* ---- configuration --------------------------------------------------------------------------- */

static void keys_of_the_section(void **state)
{
	struct tree *t = *state;
	const char *why = NULL;

	assert_int_equal(labels_config__set(&t->config, "host", "node-7", &why), 0);
	assert_int_equal(labels_config__set(&t->config, "add.region", "eu", &why), 0);
	assert_int_equal(labels_config__set(&t->config, "add.9x", "eu", &why), -EINVAL);
	assert_int_equal(labels_config__set(&t->config, "environment", "A=B", &why), -EINVAL);
	assert_int_equal(labels_config__set(&t->config, "command-line", "maybe", &why), -EINVAL);
	assert_string_equal(why, "yes or no");
	assert_int_equal(labels_config__set(&t->config, "hosts", "x", &why), -ENOENT);
	for (int i = 0; i < 15; i++)
		assert_int_equal(labels_config__set(&t->config, "add.x", "", &why), 0);
	assert_int_equal(labels_config__set(&t->config, "add.x", "", &why), -EINVAL);
	read_labels(t);
	expect(t, "host", "node-7");
	expect(t, "region", "eu");
	expect(t, "x", NULL);
}

static void add_rule(struct tree *t, const char *const *pairs)
{
	struct rule *r = labels_config__add_rule(&t->config);
	const char *why;

	assert_non_null(r);
	for (; *pairs; pairs += 2)
		assert_int_equal(rule__set(r, pairs[0], pairs[1], &why), 0);
	assert_int_equal(rule__check(r, &why), 0);
}

#define RULE(...) add_rule(t, (const char *const[]){ __VA_ARGS__, NULL })

static void rules_set_labels(void **state)
{
	struct tree *t = *state;

	put_z(t, "proc/7/cgroup", "0::/system.slice/shop@7.service\n");
	RULE("match.unit", "shop@*.service", "set.service_name", "shop", "set.team",
	     "{unit}-{none}-{unit", "set.unit", "");
	RULE("match.unit", "?*", "set.seen", "1"); /* taken away by then */
	RULE("match.service_name", "s[g-i]op", "match.comm", "comm", "set.region", "eu", "rate",
	     "1/10");
	RULE("match.comm", "comm", "match.team", "", "drop", "yes");
	RULE("match.nothing", "", "rate", "1/20");
	read_labels(t);
	expect(t, "service_name", "shop");
	expect(t, "team", "shop@7.service--{unit");
	expect(t, "unit", NULL);
	expect(t, "seen", NULL);
	expect(t, "region", "eu");
	assert_false(t->set->drop);
	assert_int_equal(t->set->one_in, 20);
	RULE("match.region", "e?", "drop", "yes", "set.service_name", "");
	read_labels(t);
	assert_true(t->set->drop);
	expect(t, "service_name", "unknown"); /* each has one */
}

static void a_rule_sets_no_more_than_a_label_may_be(void **state)
{
	struct tree *t = *state;
	char *big = malloc(70000);

	memset(big, 'A', 70000);
	memcpy(big, "OTEL_SERVICE_NAME=", 18);
	big[69999] = '\0';
	put(t, "proc/7/environ", big, 70000);
	free(big);
	RULE("match.comm", "*", "set.x", "{service_name}{service_name}\x1b{service_name}");
	read_labels(t);
	assert_in_range(strlen(label_set__get(t->set, "x")), 250, LABEL_VALUE_MAX + 16);
	for (size_t i = 1; i < RULES_MAX; i++)
		RULE("match.comm", "*", "set.x", "");
	assert_null(labels_config__add_rule(&t->config));
	read_labels(t);
	expect(t, "x", NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(of_a_plain_process),
		CASE(of_a_process_that_is_gone),
		CASE(containers_and_their_runtimes),
		CASE(names_of_pods_from_logs),
		CASE(names_of_pods_from_directories),
		CASE(workloads_are_services),
		CASE(pods_that_the_logs_do_not_name),
		CASE(files_of_a_hostile_pod),
		CASE(units_of_systemd),
		CASE(applications_before_units),
		CASE(environment_by_list),
		CASE(attributes_name_the_service),
		CASE(hostile_values),
		CASE(command_lines),
		CASE(keys_of_the_section),
		CASE(rules_set_labels),
		CASE(a_rule_sets_no_more_than_a_label_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
