/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Native stacks of a thread that is where the test has sent it: every frame, in order, or a marker
 * that says why not. Truth: the sections that functions of this program lie in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include "elf/elf.h"
#include "object_fixture.h"

/*
 * Each function of the chain has a section of its own, whose bounds the linker gives: where a
 * frame may lie, without a symbol table or an unwinder.
 */
#define IN_SECTION(name) __attribute__((noinline, used, section(#name)))
#define BOUNDS(name)	 extern const char __start_##name[], __stop_##name[]
#define RANGE(name)                                                                                \
	{                                                                                          \
#name, (uintptr_t)__start_##name, (uintptr_t)__stop_##name, false                  \
	}
#define OPTIONAL(name)                                                                             \
	{                                                                                          \
#name, (uintptr_t)__start_##name, (uintptr_t)__stop_##name, true                   \
	}

BOUNDS(chain_thread);
BOUNDS(chain_outer);
BOUNDS(chain_aligned);
BOUNDS(chain_alloca);
BOUNDS(chain_small);
BOUNDS(chain_pushes);
BOUNDS(leaf_loop);
BOUNDS(leaf_plt);
BOUNDS(leaf_handler);
BOUNDS(leaf_jit);
BOUNDS(leaf_callback);

struct range {
	const char *name;
	uint64_t start, end;
	bool optional;
};

static struct chain {
	void (*leaf)(void);
	volatile pid_t tid;
	volatile bool there; /* the thread is where it is to be sampled */
	volatile bool stop;
} chain;

static void arrive(void)
{
	chain.there = true;
}

/* Pushes and pops all that a function may save: its CFA is another at each instruction. */
IN_SECTION(chain_pushes) static void call_pushes(void)
{
#ifdef __x86_64__
	__asm__ volatile("" ::: "rbx", "rbp", "r12", "r13", "r14", "r15", "memory");
#endif
}

IN_SECTION(leaf_loop) static void loop_leaf(void)
{
	arrive();
	while (!chain.stop)
		call_pushes();
	__asm__ volatile("" ::: "memory");
}

IN_SECTION(leaf_plt) static void plt_leaf(void)
{
	unsigned seed = 1;

	arrive();
	while (!chain.stop)
		rand_r(&seed);
}

IN_SECTION(chain_small) static void call_leaf(void)
{
	chain.leaf();
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

/* rbp is the base, sp moves. */
IN_SECTION(chain_alloca) static void call_with_alloca(volatile int size)
{
	char *room = __builtin_alloca((size_t)size);

	__asm__ volatile("" ::"r"(room) : "memory");
	call_leaf();
	__asm__ volatile("" ::"r"(room) : "memory");
}

/*
 * The stack is realigned. Where the arguments on the old one are is kept in another register and,
 * as that is not saved by callees, in memory: the CFA is what is read there.
 */
IN_SECTION(chain_aligned)
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
static int
call_aligned(int a, int b, int c, int d, int e, int f, volatile int size, volatile int h)
{
	_Alignas(128) char room[512];
	char *more = __builtin_alloca((size_t)size);

	__asm__ volatile("" ::"r"(room), "r"(more) : "memory");
	call_with_alloca(1000);
	__asm__ volatile("" ::"r"(room), "r"(more) : "memory");
	return a + b + c + d + e + f + size + h;
}

IN_SECTION(chain_outer) static void call_outer(void)
{
	call_aligned(1, 2, 3, 4, 5, 6, 700, 8);
	__asm__ volatile("" ::: "memory");
}

IN_SECTION(chain_thread) static void *chain_main(void *arg)
{
	chain.tid = self_tid();
	call_outer();
	__asm__ volatile("" ::: "memory");
	return arg;
}

/* What is above every leaf, innermost first. */
#define CALLERS                                                                                    \
	RANGE(chain_small), RANGE(chain_alloca), RANGE(chain_aligned), RANGE(chain_outer),         \
		RANGE(chain_thread)

/* ---- truth: where our files are mapped */

#define MAPS_MAX 256

static struct map_entry {
	uint64_t start, end, offset;
	char path[512];
} maps_now[MAPS_MAX];
static size_t maps_cnt;

static void read_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[1024], perms[8];

	assert_non_null(f);
	maps_cnt = 0;
	while (fgets(line, sizeof(line), f)) {
		struct map_entry *m = &maps_now[maps_cnt];
		unsigned long start, end, offset;

		m->path[0] = '\0';
		assert_true(sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &start, &end, perms,
				   &offset, m->path) >= 4);
		if (perms[2] != 'x')
			continue;
		m->start = start;
		m->end = end;
		m->offset = offset;
		assert_true(++maps_cnt < MAPS_MAX);
	}
	fclose(f);
}

/* The address that a frame word stands for, 0 when its file is not mapped there. */
static uint64_t word_address(const struct process_table *pt, uint64_t word)
{
	const struct elf_file *ef;

	if (FRAME_TAG(word) == FRAME_ANON)
		return word & FRAME_PAYLOAD;
	if (FRAME_TAG(word) != FRAME_NATIVE)
		return 0;
	ef = process_table__file(pt, NATIVE_FILE(word));
	for (size_t i = 0; ef && i < maps_cnt; i++) {
		uint64_t off = NATIVE_OFFSET(word) - maps_now[i].offset;

		if (!strcmp(maps_now[i].path, elf_file__path(ef)) &&
		    off < maps_now[i].end - maps_now[i].start)
			return maps_now[i].start + off;
	}
	return 0;
}

static const char *file_of(uint64_t addr)
{
	for (size_t i = 0; i < maps_cnt; i++)
		if (addr >= maps_now[i].start && addr < maps_now[i].end)
			return maps_now[i].path;
	return "";
}

/* ---- one case */

struct expectation {
	struct rig *r;
	const struct range *frames; /* innermost first */
	size_t cnt;
	bool to_the_root;	      /* behind the frames: libc's thread start, and nothing else */
	bool gaps;		      /* frames may be missing, but none is wrong */
	uint32_t marker;	      /* enum marker_why: this ends it; 0: none */
	uint64_t complete, cut, hits; /* samples; those whose first range was there */
};

static void print_stack(const struct expectation *e, const struct read_stack *s)
{
	for (uint32_t i = 0; i < s->cnt; i++) {
		uint64_t addr = word_address(e->r->pt, s->words[i]);
		const char *name = addr ? file_of(addr) : "marker";

		for (size_t k = 0; k < e->cnt; k++)
			if (addr >= e->frames[k].start && addr < e->frames[k].end)
				name = e->frames[k].name;
		print_error("  %016llx 0x%llx %s\n", (unsigned long long)s->words[i],
			    (unsigned long long)addr, name);
	}
}

/* Memory may be unreadable for a moment (it is being moved): the stack says so and ends. */
static bool is_read_failure(const struct read_stack *s, uint32_t i)
{
	return FRAME_TAG(s->words[i]) == FRAME_MARKER &&
	       MARKER_WHY(s->words[i]) == MARK_READ_FAILED && i + 1 == s->cnt;
}

/* The frames from word *i on are the expected ones. False: something else. Sets *cut. */
static bool match_frames(struct expectation *e, const struct read_stack *s, uint32_t *i, bool *cut)
{
	for (size_t k = 0; k < e->cnt; k++) {
		const struct range *want = &e->frames[k];
		uint64_t addr;

		if (*i >= s->cnt)
			return false;
		if (is_read_failure(s, *i)) {
			*cut = true;
			return true;
		}
		addr = word_address(e->r->pt, s->words[*i]);
		if (addr >= want->start && addr < want->end) {
			e->hits += k ? 0 : s->count;
			++*i;
		} else if (!want->optional && !e->gaps) {
			return false;
		}
	}
	return true;
}

/* Behind the frames: thread start in libc, or the marker. */
static bool match_end(const struct expectation *e, const struct read_stack *s, uint32_t i)
{
	uint32_t libc = 0;

	if (e->marker)
		return i + 1 == s->cnt && FRAME_TAG(s->words[i]) == FRAME_MARKER &&
		       MARKER_WHY(s->words[i]) == e->marker;
	for (; i < s->cnt && libc < 3; i++, libc++)
		if (!strstr(file_of(word_address(e->r->pt, s->words[i])), "/libc"))
			return e->gaps && FRAME_TAG(s->words[i]) == FRAME_MARKER && i + 1 == s->cnt;
	return i == s->cnt && (libc == 2 || e->gaps);
}

static void check_stack(void *ctx, const struct read_stack *s)
{
	struct expectation *e = ctx;
	bool cut = false;
	uint32_t i = 0;

	if (!match_frames(e, s, &i, &cut) || (!cut && !match_end(e, s, i))) {
		print_stack(e, s);
		fail_msg("a wrong stack, %llu times", (unsigned long long)s->count);
	}
	if (cut)
		e->cut += s->count;
	else
		e->complete += s->count;
}

static void chain_start(struct rig *r, void (*leaf)(void), pthread_t *t)
{
	const pid_t self = getpid();

	chain = (struct chain){ .leaf = leaf };
	rig_open(r, CFG_NATIVE);
	rig_load(r);
	rig_analyse(r, &self, 1);
	read_maps();
	assert_int_equal(pthread_create(t, NULL, chain_main, NULL), 0);
	RIG_WAIT(chain.there);
}

#define CHAIN_SAMPLES 1000

/* Samples the thread where it is now, and checks all stacks. */
static void chain_check(struct expectation *e)
{
	uint64_t before[CTR_CNT], after[CTR_CNT];

	rig_counters(e->r, before);
	rig_sample(e->r, chain.tid, CHAIN_SAMPLES);
	rig_counters(e->r, after);
	check_balance(after);
	e->complete = e->cut = e->hits = 0;
	assert_int_equal(rig_drain(e->r, check_stack, e), after[CTR_counted] - before[CTR_counted]);
	assert_true(e->cut * 10 < e->complete);
	if (e->to_the_root)
		assert_int_equal(after[CTR_complete] - before[CTR_complete], e->complete);
	if (e->marker)
		assert_int_equal(after[CTR_complete] - before[CTR_complete], 0);
}

static void chain_stop(struct rig *r, pthread_t t)
{
	chain.stop = true;
	assert_int_equal(pthread_join(t, NULL), 0);
	rig_close(r);
}

/* Every frame, in order, at each instruction of a function that saves all registers. */
static void unwinds_compiled_functions(void **state)
{
	const struct range frames[] = { OPTIONAL(chain_pushes), RANGE(leaf_loop), CALLERS };
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 7, .to_the_root = true };
	pthread_t t;

	(void)state;
	chain_start(&r, loop_leaf, &t);
	chain_check(&e);
	assert_true(e.hits > 0);
	chain_stop(&r, t);
}

/* Where a section of this program is mapped; empty when it has none of that name. */
static struct range section_range(const char *name)
{
	struct elf_file *ef = elf_file__open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "self");
	struct range out = { .name = name, .optional = true };
	char exe[512] = "";
	struct elf_section sec;

	assert_non_null(ef);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	for (size_t i = 0; i < maps_cnt && elf_file__section_info(ef, name, &sec); i++)
		if (!strcmp(maps_now[i].path, exe) && sec.off >= maps_now[i].offset &&
		    sec.off - maps_now[i].offset < maps_now[i].end - maps_now[i].start) {
			out.start = maps_now[i].start + sec.off - maps_now[i].offset;
			out.end = out.start + sec.size;
		}
	elf_file__close(ef);
	return out;
}

static struct range function_range(const char *name, void *function)
{
	struct range out = { .name = name, .optional = true };
	ElfW(Sym) *sym = NULL;
	Dl_info info;

	assert_true(dladdr1(function, &info, (void **)&sym, RTLD_DL_SYMENT));
	assert_non_null(sym);
	out.start = (uintptr_t)function;
	out.end = out.start + sym->st_size;
	return out;
}

/* A call through the PLT: in its entry, in the library's function, and in the caller. */
static void unwinds_plt_calls(void **state)
{
	struct range frames[] = {
		{ 0 }, { 0 }, { 0 }, { 0 }, RANGE(leaf_plt), CALLERS,
	};
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 10, .to_the_root = true };
	pthread_t t;

	(void)state;
	chain_start(&r, plt_leaf, &t);
	frames[0] = section_range(".plt");
	frames[1] = section_range(".plt.sec");
	frames[2] = section_range(".plt.got");
	frames[3] = function_range("rand_r", dlsym(RTLD_DEFAULT, "rand_r"));
	chain_check(&e);
	chain_stop(&r, t);
}

#ifdef __x86_64__
typedef int (*rand_fn)(unsigned *seed);

static rand_fn lazy_entry; /* behind the jump of rand_r's PLT entry, as if it was not bound yet */

IN_SECTION(leaf_lazy) static void lazy_leaf(void)
{
	unsigned seed = 1;

	arrive();
	while (!chain.stop)
		lazy_entry(&seed);
}
BOUNDS(leaf_lazy);

/* jmp *GOT; push INDEX; jmp PLT0. The entry that plt_leaf() calls, 0: another kind of PLT. */
static uint64_t find_lazy_entry(const struct range *plt)
{
	const unsigned char *code = (const unsigned char *)__start_leaf_plt;
	size_t size = (size_t)(__stop_leaf_plt - __start_leaf_plt);

	for (size_t i = 0; i + 5 <= size; i++) {
		const unsigned char *entry;
		int32_t rel;

		memcpy(&rel, code + i + 1, sizeof(rel));
		entry = code + i + 5 + rel;
		if (code[i] == 0xe8 && (uintptr_t)entry > plt->start &&
		    (uintptr_t)entry < plt->end && entry[0] == 0xff && entry[6] == 0x68 &&
		    entry[11] == 0xe9)
			return (uintptr_t)entry;
	}
	return 0;
}

/* Every sample is of this instruction, and has these frames. False: no breakpoints. */
static bool check_instruction(struct expectation *e, uint64_t addr)
{
	struct bpf_link *link = rig_attach_at(e->r, chain.tid, addr);
	uint64_t before = rig_counter(e->r, CTR_delivered), complete;

	if (!link)
		return false;
	RIG_WAIT(rig_counter(e->r, CTR_delivered) > before + 20);
	bpf_link__destroy(link);
	e->complete = e->cut = e->hits = 0;
	complete = rig_drain(e->r, check_stack, e);
	assert_true(complete > 20 && e->cut * 10 < e->complete);
	return true;
}

/* The binding of a function at its first call: after each push the CFA is another. */
static void unwinds_lazy_binding(void **state)
{
	const uint64_t steps[] = { 6, 11 }, first_steps[] = { 0, 6 };
	struct range plt, frames[] = { { .name = "instruction" }, RANGE(leaf_lazy), CALLERS };
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 7, .to_the_root = true };
	uint64_t entry, at;
	bool ok = true;
	pthread_t t;

	(void)state;
	read_maps();
	plt = section_range(".plt");
	entry = find_lazy_entry(&plt);
	if (!entry) {
		print_message("no lazily bound PLT in this program\n");
		skip();
	}
	lazy_entry = (rand_fn)(uintptr_t)(entry + 6);
	chain_start(&r, lazy_leaf, &t);
	for (size_t i = 0; i < 4 && ok; i++) {
		at = i < 2 ? entry + steps[i] : plt.start + first_steps[i - 2];
		frames[0].start = at;
		frames[0].end = at + 1;
		ok = check_instruction(&e, at);
	}
	chain_stop(&r, t);
	if (!ok) {
		print_message("no hardware breakpoints: %s\n", strerror(errno));
		skip();
	}
}
#endif /* __x86_64__ */

IN_SECTION(leaf_handler) static void handler_leaf(int sig)
{
	(void)sig;
	chain.there = true;
	while (!chain.stop)
		;
	__asm__ volatile("" ::: "memory");
}

/* Where a handler returns to, as the kernel knows it. */
static uint64_t signal_restorer(int sig)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { 0 };

	assert_int_equal(syscall(SYS_rt_sigaction, sig, NULL, &action, sizeof(uint64_t)), 0);
	return (uintptr_t)action.restorer;
}

static char alt_stack[65536] __attribute__((aligned(16)));

/* The thread's own stack is the one that is sampled, so it sets up its other stack itself. */
static void alt_stack_leaf(void)
{
	const stack_t st = { .ss_sp = alt_stack, .ss_size = sizeof(alt_stack) };
	const stack_t none = { .ss_flags = SS_DISABLE };

	sigaltstack(&st, NULL);
	loop_leaf();
	sigaltstack(&none, NULL);
}

static void check_handler(void (*leaf)(void), int flags, bool more)
{
	struct range frames[] = { RANGE(leaf_handler),
				  { .name = "restorer" },
				  OPTIONAL(chain_pushes),
				  RANGE(leaf_loop),
				  { .name = "alt_stack_leaf", .optional = true },
				  CALLERS };
	const struct sigaction action = { .sa_handler = handler_leaf, .sa_flags = flags };
	struct sigaction old;
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 10, .to_the_root = true };
	pthread_t t;

	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	chain_start(&r, leaf, &t);
	/* A word holds the return address - 1. */
	frames[1].start = signal_restorer(SIGUSR1) - 1;
	frames[1].end = frames[1].start + 1;
	if (more) {
		frames[4].start = (uintptr_t)leaf;
		frames[4].end = frames[4].start + 256;
	}
	chain.there = false;
	assert_int_equal(pthread_kill(t, SIGUSR1), 0);
	RIG_WAIT(chain.there);
	chain_check(&e);
	assert_true(e.hits == e.complete + e.cut);
	chain_stop(&r, t);
	sigaction(SIGUSR1, &old, NULL);
}

/* Through a signal handler, to the very instruction that was interrupted and to the root. */
static void unwinds_signal_handlers(void **state)
{
	(void)state;
	check_handler(loop_leaf, 0, false);
	check_handler(loop_leaf, SA_SIGINFO, false);
}

/* The handler's stack is another one, above or below: sp may go either way. */
static void unwinds_alternate_stacks(void **state)
{
	(void)state;
	check_handler(alt_stack_leaf, SA_ONSTACK, true);
}

#ifdef __x86_64__
/* ---- code without unwind information */

typedef void (*stub_fn)(void (*callback)(void), uint64_t arg);

static struct {
	stub_fn call;
	uint64_t arg;
	uint64_t words[2]; /* {caller's fp, return address}, as far as anyone knows */
} jit;

/* push %rbp; mov %rsp,%rbp; call *%rdi; leave; ret */
static const unsigned char frame_stub[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0xc9, 0xc3 };
/* rbp = the second argument, so no frame pointer at all; mov (%rsp),%rbp; add $8,%rsp; ret */
static const unsigned char lost_stub[] = { 0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x48, 0x8b,
					   0x2c, 0x24, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
/* The same, but with pop %rbp; ret; and sub $8,%rsp; call *%rdi; add $8,%rsp; ret */
static const unsigned char pop_stub[] = { 0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3 };
static const unsigned char drop_stub[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
					   0x48, 0x83, 0xc4, 0x08, 0xc3 };
/* 1: cmpb $0,(%rsi); je 1b; ret */
static const unsigned char leaf_stub[] = { 0x80, 0x3e, 0x00, 0x74, 0xfb, 0xc3 };
#define STUB_RETURN 6 /* offset behind the call */

static stub_fn make_stub(const unsigned char *code, size_t size)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	memcpy(at, code, size);
	assert_int_equal(mprotect(at, 4096, PROT_READ | PROT_EXEC), 0);
	return (stub_fn)(uintptr_t)at;
}

IN_SECTION(leaf_callback) static void callback_leaf(void)
{
	arrive();
	while (!chain.stop)
		;
	__asm__ volatile("" ::: "memory");
}

IN_SECTION(leaf_jit) static void jit_leaf(void)
{
	uint64_t fake[4] = { 0, (uintptr_t)&chain, 0, 0 }; /* data: nobody returns there */
	uint64_t arg = jit.arg;

	__asm__ volatile("" ::"r"(fake) : "memory");
	if (arg == 2)
		arg = (uintptr_t)fake;
	else if (arg == 3)
		arg = (uintptr_t)fake + 4;
	jit.call(callback_leaf, arg);
	__asm__ volatile("" ::"r"(fake) : "memory");
}

static void check_stub(struct expectation *e, struct range *stub, const unsigned char *code,
		       size_t size, bool late)
{
	struct rig r;
	pthread_t t;

	e->r = &r;
	jit.call = make_stub(code, size);
	stub->start = (uintptr_t)jit.call + STUB_RETURN - 1;
	stub->end = stub->start + 1;
	if (late) { /* hidden from the analysis, as if it were mapped after it */
		assert_int_equal(mprotect((void *)(uintptr_t)jit.call, 4096, PROT_READ), 0);
		chain = (struct chain){ .leaf = jit_leaf };
		rig_open(&r, CFG_NATIVE);
		rig_load(&r);
		rig_analyse(&r, &(pid_t){ getpid() }, 1);
		assert_int_equal(mprotect((void *)(uintptr_t)jit.call, 4096, PROT_READ | PROT_EXEC),
				 0);
		read_maps();
		assert_int_equal(pthread_create(&t, NULL, chain_main, NULL), 0);
		RIG_WAIT(chain.there);
	} else {
		chain_start(&r, jit_leaf, &t);
	}
	chain_check(e);
	assert_true(e->hits > 0);
	chain_stop(&r, t);
	munmap((void *)(uintptr_t)jit.call, 4096);
}

/* Generated code that keeps a frame pointer is walked through, to the root. */
static void generated_code_by_frame_pointer(void **state)
{
	struct range frames[] = {
		RANGE(leaf_callback), { .name = "stub" }, RANGE(leaf_jit), CALLERS
	};
	struct expectation e = { .frames = frames, .cnt = 8, .to_the_root = true };

	(void)state;
	check_stub(&e, &frames[1], frame_stub, sizeof(frame_stub), false);
	check_stub(&e, &frames[1], frame_stub, sizeof(frame_stub), true);
}

/* What the code does next says where its caller is, as a perf trampoline's does. */
static void generated_code_by_its_epilogue(void **state)
{
	struct range frames[] = {
		RANGE(leaf_callback), { .name = "stub" }, RANGE(leaf_jit), CALLERS
	};
	struct expectation e = { .frames = frames, .cnt = 8, .to_the_root = true };

	(void)state;
	jit.arg = 8;
	check_stub(&e, &frames[1], pop_stub, sizeof(pop_stub), false);
	check_stub(&e, &frames[1], drop_stub, sizeof(drop_stub), false);
}

/* Without a frame pointer the stack ends there, and says why: it is never continued by guess. */
static void generated_code_without_frame_ends(void **state)
{
	/* 2: a frame whose return address is data; 3: the same, not aligned */
	static const uint64_t values[] = { 0, 1, 8, 2, 3, 0x7ffffffffff8, 0xffff800000000000 };
	struct range frames[] = { RANGE(leaf_callback), { .name = "stub" } };
	struct expectation e = { .frames = frames, .cnt = 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		jit.arg = values[i];
		e.marker = MARK_NO_UNWIND_INFO;
		check_stub(&e, &frames[1], lost_stub, sizeof(lost_stub), false);
	}
	e.marker = MARK_UNMAPPED;
	check_stub(&e, &frames[1], lost_stub, sizeof(lost_stub), true);
}

IN_SECTION(leaf_loop_jit) static void jit_loop_leaf(void)
{
	arrive(); /* and into the stub, which is where most samples fall */
	jit.call(NULL, (uintptr_t)&chain.stop);
	__asm__ volatile("" ::: "memory");
}
BOUNDS(leaf_loop_jit);

/* In generated code itself: callers may be missing, but none is wrong. */
static void generated_leaf_has_no_wrong_caller(void **state)
{
	struct range frames[] = { { .name = "stub" }, RANGE(leaf_loop_jit), CALLERS };
	struct rig r;
	struct expectation e = { .r = &r, .frames = frames, .cnt = 7, .gaps = true };
	pthread_t t;

	(void)state;
	jit.call = make_stub(leaf_stub, sizeof(leaf_stub));
	frames[0].start = (uintptr_t)jit.call;
	frames[0].end = frames[0].start + sizeof(leaf_stub);
	chain_start(&r, jit_loop_leaf, &t);
	chain_check(&e);
	assert_true(e.hits > 0);
	chain_stop(&r, t);
	munmap((void *)(uintptr_t)jit.call, 4096);
}
#endif /* __x86_64__ */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unwinds_compiled_functions),
		cmocka_unit_test(unwinds_plt_calls),
		cmocka_unit_test(unwinds_signal_handlers),
		cmocka_unit_test(unwinds_alternate_stacks),
#ifdef __x86_64__
		cmocka_unit_test(unwinds_lazy_binding),
		cmocka_unit_test(generated_code_by_frame_pointer),
		cmocka_unit_test(generated_code_by_its_epilogue),
		cmocka_unit_test(generated_code_without_frame_ends),
		cmocka_unit_test(generated_leaf_has_no_wrong_caller),
#endif
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
