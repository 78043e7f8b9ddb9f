/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MEMORY_CONTRACT_H
#define PYPERF_MEMORY_CONTRACT_H
/*
 * Part of the contract (pyperf.h): growth of resident memory, blocks of allocators, one reference
 * count. user/ writes the configurations and starts a reference count; BPF writes the rest.
 */
#include "pyperf_limits.h"

/* ---- Growth of resident memory ------------------------------------------------------------ */

/* The kernel's counters of an address space: MM_FILEPAGES ... (mm_types_task.h) */
#define RSS_KINDS     4
#define RSS_SWAP      2 /* not resident */
#define PAGE_BITS_MAX 16
#define HUGE_BITS     21

/* In .rodata of the object of growth, written before it is loaded. */
struct growth_cfg {
	__u64 step;	   /* bytes that a sample stands for; 0: chosen by the interval */
	__u64 interval_ns; /* wanted between two samples of a process */
	__u32 type;	   /* number of the value type */
	__u32 page_bits;
};
PYPERF_ASSERT_SIZE(struct growth_cfg, 24);

/* growths: address of a struct mm_struct -> its memory. BPF writes. */
struct growth {
	__u64 due_ns;		/* of the next sample, at the rate asked for */
	__s64 pages[RSS_KINDS]; /* last value of the kernel's counter that all CPUs share */
	__u32 space;		/* its space: struct proc */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct growth, 16 + 8 * RSS_KINDS);

/* growth_cpus: the same key -> pages that one CPU has added but not yet to the shared counter. */
struct growth_cpu {
	__s32 pages[RSS_KINDS];
	__u32 space;
	__u32 seen; /* bits: kinds whose `pages` is known */
};
PYPERF_ASSERT_SIZE(struct growth_cpu, 8 + 4 * RSS_KINDS);

/*
 * faults: of a CPU, the last page fault; the sample that is due; and the address space that it
 * counted last, so that most pages need no look-up.
 */
struct growth_fault {
	__u64 addr;
	__u64 value;
	__u64 map, map_value; /* see cpu_offset() */
	__u32 tid;	      /* as the kernel has it */
	__u32 bits;	      /* size of the page, as a number of bits */
	__u64 mm;
	__u64 step;		  /* see draw() */
	__u64 counter[RSS_KINDS]; /* addresses of the kernel's counters for this CPU */
	struct growth_cpu cpu;
	__u64 other; /* another address space, which does not count */
	__u32 tgid;
	__u32 others; /* its pages */
};
PYPERF_ASSERT_SIZE(struct growth_fault, 72 + 8 * RSS_KINDS + sizeof(struct growth_cpu));

/*
 * pages: a sampled page, until it is touched anew -> the count that it is in. Pages that are gone
 * when the window ends are subtracted from their count.
 */
struct page_key {
	__u64 addr; /* of the page's first byte */
	__u32 space;
	__u32 bits; /* of the page */
};
PYPERF_ASSERT_SIZE(struct page_key, 16);

/*
 * page_marks: was a page near this one ever in `pages`? A few cache lines answer most questions; a
 * mark too many costs a look-up.
 */
#define PAGE_MARKS     16384
#define PAGE_MARK_BITS 16 /* bytes that share a mark */
#define PAGE_MARK(at)  ((__u32)(((at)->addr >> PAGE_MARK_BITS) ^ (at)->space) % PAGE_MARKS)

struct page_val {
	__u64 stack; /* struct count_key */
	__u32 space, thread;
	__u64 value;
	__u32 tgid; /* as the caller's pid namespace sees it */
	__u32 window;
	__u32 slot; /* slot of struct shares that counts the entry */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct page_val, 40);

#define PAGE_ENTRIES 65536 /* of pages */

/* ---- Blocks of memory --------------------------------------------------------------------- */

/* A function of the allocator: the cookie of its breakpoint, with BLOCK_GLIBC or without. */
enum block_call {
	BLOCK_MALLOC = 0,  /* (size) */
	BLOCK_CALLOC = 1,  /* (cnt, size) */
	BLOCK_REALLOC = 2, /* (block, size) */
	BLOCK_ALIGNED = 3, /* (alignment, size) */
	BLOCK_POSIX = 4,   /* (&block, alignment, size) */
	BLOCK_FREE = 5,	   /* (block) */
};
#define BLOCK_GLIBC	  (1 << 8) /* of glibc, which calls malloc() itself if that is enough */
#define BLOCK_LEAST_BITS  4	   /* ... for alignments of up to so many bits, among others */
#define BLOCK_CALL(word)  ((__u32)(word)&0xff)

/*
 * In .rodata of the object of blocks, written before it is loaded. Fractions are in units of
 * 1 / 65536.
 */
#define BLOCK_LOGS	  256
#define BLOCK_WORTHS	  256
#define BLOCK_WORTH_SHIFT 5 /* bits of an index that make up one interval */
struct blocks_cfg {
	__u64 interval;		/* bytes from one sample to the next, on average: up to 1 << 30 */
	__u64 gap;		/* interval * ln 2 */
	__u32 space_type;	/* number of the value type of the bytes that were allocated ... */
	__u32 object_type;	/* ... and of the blocks */
	__u32 log2[BLOCK_LOGS]; /* of 1 + (i + 1/2) / BLOCK_LOGS */
	__u32 worth[BLOCK_WORTHS + 2]; /* x / (1 - exp(-x)) of x = i / 32: see worth_of() */
};
PYPERF_ASSERT_SIZE(struct blocks_cfg, 24 + 4 * (BLOCK_LOGS + BLOCK_WORTHS + 2));

/* block_cpus: counts of one CPU, and the distance to its next sample. BPF writes. */
struct block_cpu {
	__u64 calls, frees; /* hits */
	__u64 bytes;	    /* that were asked for */
	__s64 left;	    /* bytes until the next sample */
	/* The sampled block, while the scratch of the CPU is claimed for it. */
	__u64 size, out;
	__u32 begun;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct block_cpu, 56);

/* drawn: thread -> its sampled block, until the allocator's function returns. BPF writes. */
struct block_val {
	__u64 stack; /* struct count_key */
	__u32 space, thread;
	__u64 bytes, objects; /* bytes and objects that it stands for */
	__u64 out;	      /* where the function writes its address; 0: it returns it */
	__u32 tgid;	      /* as the kernel has it */
	__u32 window;
	__u32 slot; /* slot of struct shares that counts the entry */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct block_val, 56);

#define BLOCK_ENTRIES 65536 /* of blocks */

/* blocks: start of a sampled block -> struct block_val. Freed blocks are deleted. */
struct block_key {
	__u64 addr;
	__u32 tgid; /* as the kernel has it */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct block_key, 16);

/* block_marks: was a block with such an address ever in `blocks`? */
#define BLOCK_MARKS	 65536
#define BLOCK_MARK(addr) ((__u32)(((addr) >> 4) ^ ((addr) >> 20)) % BLOCK_MARKS)

/* In .rodata of the object of reference counts, written before it is loaded. */
struct refcount_cfg {
	__u64 addr;	    /* of the count, of one process */
	__u32 taken_type;   /* number of the value type of references that were taken ... */
	__u32 dropped_type; /* ... and of those that were dropped */
};
PYPERF_ASSERT_SIZE(struct refcount_cfg, 16);

/* refcounts: the only count. user/ writes it before counting begins, BPF after that. */
struct refcount_state {
	__u32 on;
	__u32 count; /* the last value that was read */
	__u32 freed; /* it has been 0: the object was freed */
	__u32 change;
	__u64 changes;
	__u64 unread; /* writes after which the count could not be read */
};
PYPERF_ASSERT_SIZE(struct refcount_state, 32);

#endif /* PYPERF_MEMORY_CONTRACT_H */
