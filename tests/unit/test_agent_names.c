/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of services, from arguments and from names of pods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "process/application.h"
#include "process/pod.h"

#define ARGS(text) text, sizeof(text)

static const struct {
	const char *args;
	size_t len;
	const char *name;
} scripts[] = {
	{ ARGS("python3\0x.py"), "x" },
	{ ARGS("/usr/bin/python3.11\0-O\0/srv/shop/run.py\0arg"), "run" },
	{ ARGS("python\0-X\0dev\0-W\0ignore\0a/b.py"), "b" },
	{ ARGS("python\0-Xdev\0-uB\0a/b.pyc"), "b" },
	{ ARGS("python\0-m\0pkg"), "pkg" },
	{ ARGS("python\0-um\0pkg.__main__"), "pkg" },
	{ ARGS("python\0-mpkg.sub"), "pkg.sub" },
	{ ARGS("python\0--check-hash-based-pycs\0always\0c.py"), "c" },
	{ ARGS("python\0/opt/pkg/__main__.py"), "pkg" },
	{ ARGS("python\0/usr/bin/gunicorn\0app:app"), "gunicorn" },
	{ ARGS("gunicorn: worker [app]"), "gunicorn" },
	{ ARGS("/usr/sbin/uwsgi\0--ini\0x.ini"), "uwsgi" },
	{ ARGS("python\0-c\0print(1)"), NULL },
	{ ARGS("python\0-"), NULL },
	{ ARGS("python\0-m"), NULL },
	{ ARGS("python"), NULL },
	{ ARGS(""), NULL },
	{ "python\0x.py", 11, NULL }, /* cut */
	{ "", 0, NULL },
};

static void what_an_interpreter_runs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		struct strbuf out = { 0 };
		bool found = application__script(scripts[i].args, scripts[i].len, &out);

		assert_int_equal(found, scripts[i].name != NULL);
		if (found)
			assert_string_equal(out.s, scripts[i].name);
		strbuf__free(&out);
	}
}

static const struct {
	const char *args;
	size_t len;
	const char *name;
} applications[] = {
	{ ARGS("python3\0/usr/bin/gunicorn\0svc:app"), "svc" },
	{ ARGS("/usr/bin/python3\0/usr/bin/gunicorn\0-w\0"
	       "4\0-b\0localhost:8000\0-k\0"
	       "uvicorn.workers.UvicornWorker\0shop.wsgi:application"),
	  "shop" },
	{ ARGS("python\0-m\0gunicorn\0-c\0conf.py\0--bind=unix:/run/x.sock\0shop.web:create_app()"),
	  "shop" },
	{ ARGS("python\0/usr/bin/gunicorn\0--reload\0-w\0"
	       "2\0shop"),
	  "shop" },
	{ ARGS("python\0/usr/bin/gunicorn\0-w\0"
	       "2"),
	  NULL },
	{ ARGS("python\0/usr/bin/gunicorn\0app:app"), NULL },
	{ ARGS("python\0/usr/bin/gunicorn\0src.main:app"), NULL },
	{ ARGS("gunicorn: worker [shop.wsgi:app]"), "shop" },
	{ ARGS("gunicorn: master [shop]"), "shop" },
	{ ARGS("gunicorn: worker [shop:app]\0\0\0\0\0"), "shop" },
	{ ARGS("[celeryd: celery@vm:MainProcess] -active- (-A proj worker -c 1)\0\0"), "proj" },
	{ ARGS("gunicorn: worker [app]"), NULL },
	{ ARGS("python\0/opt/venv/bin/celery\0-A\0proj\0worker\0-c\0"
	       "8"),
	  "proj" },
	{ ARGS("python\0-m\0celery\0--app=proj.tasks:app\0beat"), "proj" },
	{ ARGS("python\0/opt/venv/bin/celery\0worker\0-Aproj"), "proj" },
	{ ARGS("python\0/opt/venv/bin/celery\0worker"), NULL },
	{ ARGS("python\0/opt/venv/bin/celery\0-A"), NULL },
	{ ARGS("[celeryd: celery@host:MainProcess] -active- (-A proj worker)"), "proj" },
	{ ARGS("python\0/usr/bin/uvicorn\0--host\0"
	       "0.0.0.0\0pkg.main:app"),
	  "pkg" },
	{ ARGS("python\0/usr/bin/flask\0--app\0shop\0run"), "shop" },
	{ ARGS("python\0/usr/bin/flask\0run"), NULL },
	{ ARGS("uwsgi\0--http\0:80\0-w\0shop.wsgi:app"), "shop" },
	{ ARGS("uwsgi\0--wsgi-file\0/srv/shop.py"), "shop" },
	{ ARGS("python\0/usr/bin/dramatiq\0-p\0"
	       "4\0shop.tasks"),
	  "shop" },
	{ ARGS("python\0/usr/bin/streamlit\0run\0/srv/board.py\0--x"), "board" },
	{ ARGS("python\0-m\0shop.web\0a:b"), "shop.web" },
	{ ARGS("python\0-m\0shop.main"), "shop.main" },
	{ ARGS("python\0-m\0app.main"), NULL },
	{ ARGS("python\0bill.py\0main:app"), "bill" },
	{ ARGS("python\0/srv/shop/manage.py\0runserver"), NULL },
	{ ARGS("python\0/srv/shop/__main__.py"), "shop" },
	{ ARGS("python\0-c\0pass"), NULL },
	{ ARGS("/opt/tool\0serve"), "tool" },
	{ ARGS("gunicorn: "), NULL },
	{ ARGS("[celeryd:"), NULL },
	{ ARGS("gunicorn\0\0\0"), NULL },
	{ ARGS("gunicorn\0:\0a:\0:b\0.:x\0a.:b"), NULL },
	{ ARGS(""), NULL },
};

static void what_a_launcher_runs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(applications) / sizeof(applications[0]); i++) {
		struct strbuf out = { 0 };
		bool found = application__name(applications[i].args, applications[i].len, &out);

		if (found != (applications[i].name != NULL))
			fail_msg("%zu: %s", i, found ? out.s : "no name");
		if (found)
			assert_string_equal(out.s, applications[i].name);
		strbuf__free(&out);
	}
}

static const struct {
	const char *args;
	size_t len;
	const char *title;
} titles[] = {
	{ ARGS("python\0-u\0-c\0import sys;exec(eval(sys.stdin.readline()))"), "execnet worker" },
	{ ARGS("/srv/venv/bin/python3.11\0-c\0from multiprocessing.spawn import spawn_main; "
	       "spawn_main(tracker_fd=5, pipe_handle=7)\0--multiprocessing-fork"),
	  "multiprocessing worker" },
	{ ARGS("python3\0-I\0-c\0from multiprocessing.forkserver import main; main(5, 7)"),
	  "multiprocessing forkserver" },
	{ ARGS("python3\0-c\0from multiprocessing.resource_tracker import main;main(4)"),
	  "multiprocessing resource tracker" },
	{ ARGS("python\0-u\0-c\0import sys;exec(eval(sys.stdin.read()))"), NULL },
	{ ARGS("python\0-u\0-c"), NULL },
	{ ARGS("python3\0/usr/bin/gunicorn\0-w\0"
	       "4\0djapp:application"),
	  "gunicorn djapp:application" },
	{ ARGS("gunicorn: worker [djapp:application]\0\0\0"), "gunicorn djapp:application" },
	{ ARGS("python\0-m\0pytest\0-x\0tests"), "pytest" },
	{ ARGS("python\0/opt/venv/bin/pytest\0tests"), "pytest" },
	{ ARGS("python\0/opt/venv/bin/celery\0-A\0proj\0worker\0-c\0"
	       "8"),
	  "celery worker proj" },
	{ ARGS("python\0-m\0celery\0worker"), "celery worker" },
	{ ARGS("python\0/srv/manage.py\0runserver\0"
	       "8000"),
	  "manage.py runserver" },
	{ ARGS("python\0/srv/manage.py\0--version"), "manage.py" },
	{ ARGS("python\0/srv/app.py\0secret"), "app.py" },
	{ ARGS("python\0/srv/shop/__main__.py"), "shop" },
	{ ARGS("python\0/usr/bin/uvicorn\0--host\0"
	       "0.0.0.0\0pkg.main:app"),
	  "uvicorn pkg.main:app" },
	{ ARGS("sh\0-c\0python x.py"), "sh" },
	{ ARGS("python\0-c\0print(1)"), NULL },
	{ ARGS("python"), NULL },
	{ "", 0, NULL },
};

static void what_people_call_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		struct strbuf out = { 0 };
		bool found = application__title(titles[i].args, titles[i].len, &out);

		if (found != (titles[i].title != NULL))
			fail_msg("%zu: %s", i, found ? out.s : "no title");
		if (found)
			assert_string_equal(out.s, titles[i].title);
		strbuf__free(&out);
	}
}

/* Arguments that are cut anywhere: nothing behind them is read. */
static void arguments_that_are_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(applications) / sizeof(applications[0]); i++) {
		for (size_t len = 0; len < applications[i].len; len++) {
			struct strbuf out = { 0 };
			char *copy = test_malloc(len + 1);

			memcpy(copy, applications[i].args, len);
			application__name(copy, len, &out);
			strbuf__clear(&out);
			application__title(copy, len, &out);
			strbuf__clear(&out);
			if (len)
				copy[len - 1] = '\0';
			application__name(copy, len, &out);
			strbuf__free(&out);
			test_free(copy);
		}
	}
}

static void what_pods_of_a_workload_have_in_common(void **state)
{
	static const char *const pods[][2] = {
		{ "shop-6955765f44-x2k8p", "shop" },
		{ "shop-front-7c5ddbdf54-9zbvt", "shop-front" },
		{ "shop-2345678901-9zbvt", "shop" },
		{ "coredns-74ff55c5b-wlv4m", "coredns" },
		{ "proxy-x2k8p", "proxy" },
		{ "db-0", "db" },
		{ "db-main-12", "db-main" },
		{ "backup-29123456-x2k8p", "backup" },
		{ "backup-1700000000-x2k8p", "backup" },
		{ "index-3-x2k8p", "index" },
		{ "etcd-node7", "etcd" },
		{ "kube-proxy-node7", "kube-proxy" },
		/* Names that only look like it. */
		{ "shop", "shop" },
		{ "shop-front", "shop-front" },
		{ "shop-redis", "shop-redis" },
		{ "app-x2k-x2k8p", "app-x2k" },
		{ "-x2k8p", "-x2k8p" },
		{ "x2k8p", "x2k8p" },
		{ "0", "0" },
		{ "-0", "-0" },
		{ "node7", "node7" },
		{ "", "" },
		/* Cut to 58 characters before the suffix. */
		{ "a-name-of-forty-nine-characters-for-one-deployment-6955765x2k8p",
		  "a-name-of-forty-nine-characters-for-one-deployment" },
		{ "a-name-of-fifty-eight-characters-for-one-statefulset-or-so-x2k8",
		  "a-name-of-fifty-eight-characters-for-one-statefulset-or-so-x2k8" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
		struct strbuf out = { 0 };

		pod_workload(pods[i][0], "node7", &out);
		assert_string_equal(out.s ? out.s : "", pods[i][1]);
		strbuf__free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_interpreter_runs),
		cmocka_unit_test(what_a_launcher_runs),
		cmocka_unit_test(what_people_call_it),
		cmocka_unit_test(arguments_that_are_cut),
		cmocka_unit_test(what_pods_of_a_workload_have_in_common),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
