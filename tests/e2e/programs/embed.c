/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A program that embeds CPython:
 *
 *	embed [OPTION...] PROGRAM...
 *
 * Each program has a life of its own of the interpreter that this is linked with, or:
 *
 *	--load LIBPYTHON   of a library that it loads; with several, the first program runs in
 *			   the first one and so on, all at once, each in its own thread
 *	--wait		   says "ready" and takes a byte from stdin before all else
 *	--mappings N	   makes N executable mappings first
 *	--rest MS	   between a library and its first life
 *	--sleeper	   a thread of C that sleeps from here on
 *
 * A life ends when stdin has a byte, which is taken, or is closed. Only functions of the stable ABI
 * are called, so one binary does for all versions. What programs find in the module `host`:
 *
 *	call(f)    f(), through two C functions
 *	start(f)   f() again and again, in a thread of C that enters Python each time
 *	more()     False when this life is to end
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_HOSTS   4
#define MAX_THREADS 4
#define METH_NOARGS 4
#define METH_O	    8
/* Has a frame of its own, so it is in stacks; no call in it is a tail call. */
#define FRAME	    __attribute__((noinline, optimize("no-optimize-sibling-calls")))

typedef struct object *object;

struct method {
	const char *name;
	object (*function)(object self, object arg);
	int flags;
	const char *doc;
};

#define FUNCTIONS(X)                                                                               \
	X(void, Py_InitializeEx, (int signals))                                                    \
	X(int, Py_FinalizeEx, (void))                                                              \
	X(int, PyRun_SimpleFileExFlags, (FILE * file, const char *name, int close, void *flags))   \
	X(object, PyImport_AddModule, (const char *name))                                          \
	X(object, PyCFunction_NewEx, (struct method * method, object self, object module))         \
	X(int, PyObject_SetAttrString, (object where, const char *name, object value))             \
	X(object, PyObject_CallObject, (object callable, object args))                             \
	X(object, PyBool_FromLong, (long value))                                                   \
	X(void, PyErr_Print, (void))                                                               \
	X(void, Py_DecRef, (object o))                                                             \
	X(void, Py_IncRef, (object o))                                                             \
	X(void *, PyEval_SaveThread, (void))                                                       \
	X(void, PyEval_RestoreThread, (void *state))                                               \
	X(int, PyGILState_Ensure, (void))                                                          \
	X(void, PyGILState_Release, (int state))

struct worker {
	struct host *host;
	object function;
	pthread_t thread;
};

/* One interpreter, and what runs in it. */
struct host {
#define X(type, name, args) type(*name) args;
	FUNCTIONS(X)
#undef X
	char **programs;
	int program_cnt;
	pthread_t thread;
	struct worker workers[MAX_THREADS];
	int worker_cnt;
};

static __thread struct host *host; /* of this thread */

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "embed: %s: %s\n", what, why);
	exit(1);
}

/* Stdin stays silent for so long. */
static int more(int wait_ms)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return !poll(&in, 1, wait_ms);
}

static void take_byte(void)
{
	char byte;

	if (read(STDIN_FILENO, &byte, 1) < 0)
		fail("standard input", "cannot be read");
}

/* ---- the module `host` ---------------------------------------------------------------------- */

static FRAME object host_inner(object function)
{
	return host->PyObject_CallObject(function, NULL);
}

static FRAME object host_call(object self, object function)
{
	(void)self;
	return host_inner(function);
}

static object host_more(object self, object unused)
{
	(void)self;
	(void)unused;
	return host->PyBool_FromLong(more(0));
}

static FRAME void enter_python(struct worker *w)
{
	int state = host->PyGILState_Ensure();
	object result = host->PyObject_CallObject(w->function, NULL);

	if (result)
		host->Py_DecRef(result);
	else
		host->PyErr_Print();
	host->PyGILState_Release(state);
}

static FRAME void *run_worker(void *arg)
{
	struct worker *w = arg;

	host = w->host;
	while (more(2)) /* others wait for the GIL */
		enter_python(w);
	return NULL;
}

static object host_start(object self, object function)
{
	struct worker *w = &host->workers[host->worker_cnt];

	(void)self;
	if (host->worker_cnt == MAX_THREADS)
		fail("start", "too many threads");
	host->Py_IncRef(function);
	*w = (struct worker){ .host = host, .function = function };
	if (pthread_create(&w->thread, NULL, run_worker, w))
		fail("start", "no thread");
	host->worker_cnt++;
	return host->PyBool_FromLong(1);
}

static void add_module(void)
{
	static struct method methods[] = {
		{ "call", host_call, METH_O, NULL },
		{ "more", host_more, METH_NOARGS, NULL },
		{ "start", host_start, METH_O, NULL },
	};
	object module = host->PyImport_AddModule("host");

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		object f = host->PyCFunction_NewEx(&methods[i], NULL, NULL);

		if (!module || !f || host->PyObject_SetAttrString(module, methods[i].name, f))
			fail("host", "no such module");
		host->Py_DecRef(f);
	}
}

/* ---- lives ---------------------------------------------------------------------------------- */

static void join_workers(void)
{
	void *state = host->PyEval_SaveThread();

	while (host->worker_cnt)
		pthread_join(host->workers[--host->worker_cnt].thread, NULL);
	host->PyEval_RestoreThread(state);
}

static FRAME void run_program(const char *program)
{
	FILE *file = fopen(program, "r");

	if (!file)
		fail(program, "cannot be opened");
	if (host->PyRun_SimpleFileExFlags(file, program, 1, NULL))
		fail(program, "failed");
}

static FRAME void run_life(const char *program)
{
	host->Py_InitializeEx(1);
	add_module();
	run_program(program);
	join_workers();
	if (host->Py_FinalizeEx())
		fail(program, "did not finish");
}

static void *run_host(void *arg)
{
	host = arg;
	for (int i = 0; i < host->program_cnt; i++) {
		if (i)
			take_byte();
		run_life(host->programs[i]);
	}
	return NULL;
}

/* ---- command line --------------------------------------------------------------------------- */

/* `where`: RTLD_DEFAULT, or a library that was loaded. */
static void find_functions(struct host *h, void *where)
{
#define X(type, name, args)                                                                        \
	*(void **)&h->name = dlsym(where, #name);                                                  \
	if (!h->name)                                                                              \
		fail(#name, dlerror());
	FUNCTIONS(X)
#undef X
}

/* Extension modules look for their interpreter among the global symbols, where but one can be. */
static void *load(const char *library, int alone)
{
	void *handle = dlopen(library, RTLD_NOW | (alone ? RTLD_GLOBAL : RTLD_LOCAL));

	if (!handle)
		fail(library, dlerror());
	return handle;
}

/* At low addresses, with gaps, so that they are not one: where libraries come behind them. */
static void make_mappings(int cnt)
{
	for (int i = 0; i < cnt; i++) {
		void *at = (void *)(0x10000000UL + 8192UL * (unsigned long)i);

		if (mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != at)
			fail("mmap", "not there");
	}
}

static void *sleep_on(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

static void start_sleeper(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleep_on, NULL))
		fail("--sleeper", "no thread");
}

static void run_side_by_side(char **libraries, int cnt, char **programs)
{
	static struct host hosts[MAX_HOSTS];

	for (int i = 0; i < cnt; i++) {
		struct host *h = &hosts[i];

		find_functions(h, load(libraries[i], 0));
		h->programs = programs + i;
		h->program_cnt = 1;
		if (pthread_create(&h->thread, NULL, run_host, h))
			fail(libraries[i], "no thread");
	}
	for (int i = 0; i < cnt; i++)
		pthread_join(hosts[i].thread, NULL);
}

FRAME int main(int argc, char **argv)
{
	char *libraries[MAX_HOSTS];
	struct host alone = { .programs = argv + 1, .program_cnt = argc - 1 };
	int cnt = 0, rest_ms = 0, i;

	for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--wait")) {
			puts("ready");
			fflush(stdout);
			take_byte();
		} else if (!strcmp(argv[i], "--sleeper")) {
			start_sleeper();
		} else if (!strcmp(argv[i], "--mappings") && i + 1 < argc) {
			make_mappings(atoi(argv[++i]));
		} else if (!strcmp(argv[i], "--rest") && i + 1 < argc) {
			rest_ms = atoi(argv[++i]);
		} else if (!strcmp(argv[i], "--load") && i + 1 < argc && cnt < MAX_HOSTS) {
			libraries[cnt++] = argv[++i];
		} else {
			fail(argv[i], "unknown option");
		}
	}
	if (argc - i < (cnt ? cnt : 1))
		fail("programs", "too few");
	if (cnt > 1) {
		run_side_by_side(libraries, cnt, argv + i);
		return 0;
	}
	alone.programs = argv + i;
	alone.program_cnt = argc - i;
	find_functions(&alone, cnt ? load(libraries[0], 1) : RTLD_DEFAULT);
	usleep((useconds_t)rest_ms * 1000);
	run_host(&alone);
	return 0;
}
