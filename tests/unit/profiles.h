/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_PROFILES_H
#define PYPERF_TEST_PROFILES_H
/* Profiles built by hand, for the tests of what reads them. Behind cmocka.h. */
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

/* Not every test uses all of it. */
#define TEST_UNUSED __attribute__((unused))

/* A frame word that stands for sym `sym`. */
TEST_UNUSED static uint64_t word(const struct profile *p, int sym)
{
	static const uint32_t tags[] = { FRAME_MARKER, FRAME_PYTHON, FRAME_NATIVE, FRAME_KERNEL,
					 FRAME_MARKER };

	return FRAME_WORD(tags[p->syms[sym].kind], sym);
}

TEST_UNUSED static int add_sym(struct profile *p, enum sym_kind kind, const char *func,
			       const char *file, uint32_t line, uint32_t start_line, int module,
			       uint64_t addr)
{
	struct sym s = {
		.kind = (uint8_t)kind,
		.func = profile__intern_z(p, func),
		.file = profile__intern_z(p, file),
		.line = line,
		.start_line = start_line,
		.module = module,
		.addr = addr,
		.inlined = -1,
	};

	return profile__add_sym(p, &s);
}

TEST_UNUSED static int py(struct profile *p, const char *func, const char *file, uint32_t line,
			  uint32_t start)
{
	return add_sym(p, SYM_PYTHON, func, file, line, start, -1, line * 16);
}

TEST_UNUSED static int native(struct profile *p, const char *func, int module, uint64_t addr)
{
	return add_sym(p, SYM_NATIVE, func, "", 0, 0, module, addr);
}

TEST_UNUSED static int kern(struct profile *p, const char *func, uint64_t addr)
{
	return add_sym(p, SYM_KERNEL, func, "", 0, 0, -1, addr);
}

TEST_UNUSED static int marker(struct profile *p, const char *func)
{
	return add_sym(p, SYM_MARKER, func, "", 0, 0, -1, 0);
}

TEST_UNUSED static int add_module(struct profile *p, const char *path, const char *build_id,
				  uint64_t start, uint64_t limit)
{
	return profile__add_module(p, &(struct profile_module){
					      .file = (uint32_t)p->module_cnt + 1,
					      .path = profile__intern_z(p, path),
					      .build_id = profile__intern_z(p, build_id),
					      .start = start,
					      .limit = limit,
				      });
}

TEST_UNUSED static int add_proc(struct profile *p, uint32_t tgid, const char *comm, const char *exe,
				const char *python, const char *native_only, const char *container)
{
	return profile__add_proc(p, &(struct profile_proc){
					    .space = tgid + 100000,
					    .tgid = tgid,
					    .comm = profile__intern_z(p, comm),
					    .exe = profile__intern_z(p, exe),
					    .python = profile__intern_z(p, python),
					    .native_only = profile__intern_z(p, native_only),
					    .container = profile__intern_z(p, container),
				    });
}

/* Syms outermost first, ending in -1. */
TEST_UNUSED static void add_stack(struct profile *p, int proc, uint32_t tid, uint64_t count,
				  const int *syms)
{
	uint64_t words[128];
	size_t cnt = 0;

	for (; syms[cnt] >= 0; cnt++)
		words[cnt] = word(p, syms[cnt]);
	assert_true(profile__add_stack(p, (uint32_t)proc, tid, words, cnt, count) >= 0);
}

#define STACK(p, proc, tid, count, ...)                                                            \
	add_stack(p, proc, tid, count, (const int[]){ __VA_ARGS__, -1 })

TEST_UNUSED static void symbolized(struct profile *p)
{
	free(p->frame_syms);
	p->frame_syms = calloc(p->frame_cnt + 1, sizeof(*p->frame_syms));
	assert_non_null(p->frame_syms);
	for (size_t i = 0; i < p->frame_cnt; i++)
		p->frame_syms[i] = (uint32_t)(p->frames[i] & FRAME_PAYLOAD);
}

TEST_UNUSED static void set_stats(struct profile *p, uint64_t filtered, uint64_t lost)
{
	struct profile_stats *s = &p->stats;
	uint64_t total = profile__total(p);

	s->counters[CTR_delivered] = total + filtered + lost;
	s->counters[CTR_counted] = total;
	s->counters[CTR_user_stacks] = total;
	s->counters[CTR_complete] = total - total / 100;
	s->counters[CTR_filtered_python] = filtered;
	s->counters[CTR_lost_counts_full] = lost;
	s->start_unix_ns = 1700000000000000000;
	s->duration_ns = 30000000000;
	s->values[0].frequency_hz = 99;
	s->cpus = 8;
	s->self_cpu_ns = 41000000;
	s->bpf_ns = 63000000;
	s->bpf_runs = 12000;
	s->counters[CTR_follow_ns] = 15000000;
	s->rss_bytes = 12 << 20;
	s->map_bytes = 17 << 20;
}

/* What a web service with three kinds of processes looks like. */
TEST_UNUSED static struct profile *service(void)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "a1b2c3d4e5f60718293a4b5c6d7e8f9001122334",
			     0x1000, 0x300000);
	int libc = add_module(p, "/usr/lib/x86_64-linux-gnu/libc.so.6",
			      "51657f818beb1ae70372216a99b7412b8a100a20", 0x26000, 0x17b000);
	int ext = add_module(p, "/srv/app/venv/lib/python3.11/site-packages/orjson/orjson.so", "",
			     0x2000, 0x40000);
	int web = add_proc(p, 4211, "gunicorn", "/usr/bin/python3.11", "3.11.2", "", "3f9c2a");
	int job = add_proc(p, 977, "celery", "/opt/python3.8/bin/python3.8", "3.8.18", "", "");
	int old = add_proc(p, 15, "uwsgi", "/usr/bin/uwsgi", "3.6.15",
			   "the self-check of a stack failed", "");
	int start = native(p, "_start", exe, 0x2071),
	    rmain = native(p, "Py_RunMain", exe, 0x1f2c44);
	int lmain = native(p, "__libc_start_main", libc, 0x27285);
	int module = py(p, "<module>", "/srv/app/venv/bin/gunicorn", 8, 1);
	int run = py(p, "Arbiter.run",
		     "/srv/app/venv/lib/python3.11/site-packages/gunicorn/arbiter.py", 202, 193);
	int handle =
		py(p, "SyncWorker.handle_request",
		   "/srv/app/venv/lib/python3.11/site-packages/gunicorn/workers/sync.py", 177, 165);
	int view = py(p, "orders.<locals>.view", "/srv/app/shop/views.py", 88, 71);
	int view2 = py(p, "orders.<locals>.view", "/srv/app/shop/views.py", 93, 71);
	int price = py(p, "Cart.price", "/srv/app/shop/cart.py", 41, 38);
	int price2 = py(p, "Cart.price", "/srv/app/shop/cart.py", 43, 38);
	int dumps = native(p, "orjson::serialize::dict", ext, 0x8120);
	int dumps_in = native(p, "core::str::escape", ext, 0x8120);
	int mem = native(p, "__memmove_avx_unaligned_erms", libc, 0x16d0a0);
	int bare = native(p, "", ext, 0x2fb0);
	int sys = kern(p, "do_syscall_64", 0xffffffff81a00010);
	int send = kern(p, "tcp_sendmsg", 0xffffffff818f1234);
	int dict = native(p, "dict_subscript", exe, 0x15aa10);
	int fib = py(p, "fib", "/opt/jobs/math.py", 5, 3),
	    fib2 = py(p, "fib", "/opt/jobs/math.py", 4, 3);
	int jmod = py(p, "<module>", "/opt/jobs/run.py", 12, 1), cut = marker(p, "truncated");
	int umain = native(p, "uwsgi_main", -1, 0x7f0000001234);
	int lost = marker(p, "[no-unwind-info orjson.so]");

	p->syms[dumps].inlined = dumps_in;
	STACK(p, web, 4211, 610, start, lmain, rmain, module, run, handle, view, price);
	STACK(p, web, 4211, 95, start, lmain, rmain, module, run, handle, view2, price);
	STACK(p, web, 4211, 120, start, lmain, rmain, module, run, handle, view, price2, dict);
	STACK(p, web, 4220, 230, start, lmain, rmain, module, run, handle, view2, dumps, mem);
	STACK(p, web, 4220, 31, start, lmain, rmain, module, run, handle, view2, dumps);
	STACK(p, web, 4220, 17, start, lmain, rmain, module, run, handle, view2, bare);
	STACK(p, web, 4211, 77, start, lmain, rmain, module, run, handle, sys, send);
	STACK(p, job, 977, 44, jmod, fib, fib, fib, fib2);
	STACK(p, job, 977, 9, cut, fib, fib, fib2);
	STACK(p, old, 15, 12, umain, sys);
	p->syms[lost].module = ext;
	p->syms[dumps_in].flags = SYM_INLINED;
	p->syms[send].module = add_module(p, "[tls]", "", 0, 0);
	p->modules[p->syms[send].module].file = PROFILE_NO_FILE;
	STACK(p, web, 4220, 5, lost, mem);
	profile__add_thread(
		p, &(struct profile_thread){ 104211, 4211, profile__intern_z(p, "gunicorn") });
	profile__add_thread(
		p, &(struct profile_thread){ 104211, 4220, profile__intern_z(p, "io;pool-1") });
	symbolized(p);
	set_stats(p, 2310, 6);
	p->stats.counters[CTR_note_truncated] = 9;
	p->stats.counters[CTR_note_native_lost] = 5;
	return p;
}

/* Names that want to do harm; also a frame without a sym. */
TEST_UNUSED static int copy_sym(struct profile *p, int sym)
{
	const struct sym copy = p->syms[sym];

	return profile__add_sym(p, &copy);
}

static __attribute__((unused)) struct profile *hostile(void)
{
	struct profile *p = profile__new();
	char *big = malloc(10001);
	int mod, proc, a, b, c, d, e, f, g, h, loop;

	assert_non_null(big);
	memset(big, 'x', 10000);
	big[10000] = '\0';
	mod = add_module(p, "/tmp/\033[2Jlib;c.so\n", "not hex\033", 0, 0);
	proc = add_proc(p, 1, "a;b\nc\033]0;t\a", "/tmp/\033[31mexe", "3\n.11", "",
			"con\033tainer");
	a = py(p, "f\033[31m;drop", "/tmp/x;y\nz.py", 1, 1);
	b = py(p, big, "", 2, 1);
	c = py(p, "bad\xff\xc0\x80utf8", "/tmp/\xe2\x80\xaeyp.py", 3, 1);
	d = py(p, "", "", 0, 0);
	e = native(p, "ns::f(int; char)\n", mod, 0x10);
	f = py(p, "\u51fd\u6570\u51fd\u6570", "/tmp/\u6a21\u5757.py", 7, 7);
	g = kern(p, "", 0xffffffff81000000);
	h = native(p, "", -1, 0x7f00deadbeef);
	loop = copy_sym(p, e);
	p->syms[loop].flags = SYM_INLINED;
	p->syms[e].inlined = p->syms[loop].inlined = loop; /* a cycle */
	STACK(p, proc, 0, 3, a, b, c, d);
	STACK(p, proc, 0, 2, e, f, g);
	STACK(p, proc, 0, 1, h, f);
	add_stack(p, proc, 0, 4, (const int[]){ -1 });
	symbolized(p);
	p->frame_syms[0] = UINT32_MAX;
	set_stats(p, 0, 0);
	free(big);
	return p;
}

#endif /* PYPERF_TEST_PROFILES_H */
