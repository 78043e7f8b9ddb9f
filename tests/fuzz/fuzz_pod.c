/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a pod claims to be: names in the kubelet's logs, files of the pod. What is taken is a name
 * that is safe in a label.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* For what is private to it. */
#include "../../user/process/pod.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);
extern const char *const fuzz_words[];

#define UID "11111111-2222-3333-4444-555555555555"
#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void check_name(const char name[POD_NAME_MAX + 1], const char *chars)
{
	size_t len = strnlen(name, POD_NAME_MAX + 1);

	if (len > POD_NAME_MAX || strspn(name, chars) != len)
		abort();
}

static void check_names(const struct pod_names *n)
{
	check_name(n->pod, LOWER DIGITS "-.");
	check_name(n->namespace, LOWER DIGITS "-.");
	check_name(n->container, LOWER DIGITS "-.");
	check_name(n->app, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-._");
}

static void find_workload(const char *pod, const char *host)
{
	struct strbuf b = { 0 };

	pod_workload(pod, host, &b);
	if (b.len > strlen(pod) || (b.len && strncmp(b.s, pod, b.len)))
		abort();
	strbuf__free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size < FILE_BYTES_MAX ? size : FILE_BYTES_MAX;
	struct pod_names by_log = { 0 }, by_dir = { 0 }, by_file = { 0 };
	char *text = malloc(len + 1); /* of its own size, so that ASan sees one byte too far */

	if (!text)
		abort();
	if (len)
		memcpy(text, data, len);
	text[len] = '\0';
	if (take_log_name(&by_log, text, ID))
		check_names(&by_log);
	if (take_pod_dir(&by_dir, text, UID))
		check_names(&by_dir);
	take_app(by_file.app, text);
	take_name(by_file.pod, text, strcspn(text, "\r\n"));
	pod_names__claim(by_file.container, text);
	check_names(&by_file);
	find_workload(text, "node7");
	find_workload(text, "");
	free(text);
	return 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

const char *const fuzz_words[] = { "_",	     "-",	    ".",      "\"",
				   "\n",     ".log",	    ID,	      UID,
				   "-x2k8p", "-6955765f44", "-node7", "app.kubernetes.io/name=\"",
				   NULL };

/* A label, or a name, of one character more than is allowed. */
static size_t seed_long(bool label, uint8_t *buf, size_t cap)
{
	static const char key[] = "app.kubernetes.io/name=\"";
	size_t at = label ? strlen(key) : 0, size = at + POD_NAME_MAX + 1;

	if (size + 1 > cap)
		return 0;
	memcpy(buf, key, at);
	memset(buf + at, 'a', POD_NAME_MAX + 1);
	buf[size] = label ? '"' : '\n';
	return size + 1;
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	static const char *const seeds[] = {
		"shop-6955765f44-x2k8p_prod_web-" ID ".log",
		"prod_shop-0_" UID,
		"app=\"shop\"\napp.kubernetes.io/name=\"Shop_1\"\npod-template-hash=\"6955765f44\"",
		"shop-29123456-x2k8p\n",
		"shop-node7",
	};
	const size_t cnt = sizeof(seeds) / sizeof(seeds[0]);

	if (i >= cnt)
		return i < cnt + 2 ? seed_long(i == cnt, buf, cap) : 0;
	if (strlen(seeds[i]) > cap)
		return 0;
	memcpy(buf, seeds[i], strlen(seeds[i]));
	return strlen(seeds[i]);
}
