/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pylayout.h"

#include <errno.h>
#include <string.h>

#include "bpf/pyperf.h"

#define NONE	 PY_OFF_NONE

/* The walkers read each structure into a buffer of this size. */
#define READ_MAX 256

/* ---- Tables: 2.7, 3.6 - 3.12 -------------------------------------------------------------- */
/*
 * "file@release" names the header that declares the structure. tests/unit/test_pylayout.c compares
 * every number with the debug information of real interpreters.
 */

/* Include/unicodeobject.h@3.6.15, Include/cpython/unicodeobject.h@3.8.18 - 3.11.7 */
#define STR_UNTIL_311                                                                              \
	.str = PY_STR_STATE32, .str_length = 16 /* PyASCIIObject.length */,                        \
	.str_hash = 24 /* .hash */, .str_state = 32 /* .state */,                                  \
	.str_ascii = 48 /* sizeof(PyASCIIObject) */,                                               \
	.str_compact = 72 /* sizeof(PyCompactUnicodeObject) */

/* Include/cpython/unicodeobject.h@3.12.1: PEP 623 removed wstr and wstr_length */
#define STR_312                                                                                    \
	.str = PY_STR_STATE32, .str_length = 16, .str_hash = 24, .str_state = 32,                  \
	.str_ascii = 40 /* sizeof(PyASCIIObject) */,                                               \
	.str_compact = 56 /* sizeof(PyCompactUnicodeObject) */

/* Include/object.h: PyObject.ob_type, PyVarObject.ob_size; Include/bytesobject.h: ob_sval */
#define OBJECT .ob_type = 8, .bytes_size = 16, .bytes_data = 32

#define NO_CFRAME                                                                                  \
	.root_cframe = NONE, .cframe_frame = NONE, .cframe_previous = NONE, .cframe_tstate = NONE, \
	NO_BASE_FRAME

/* The sentinel below the outermost frame: 3.15. */
#define NO_BASE_FRAME .base_frame = NONE

/*
 * Frames on the heap. What says how large one is, is wanted where CFrames are; 2.7's stack size:
 * see is_pseudo().
 */
#define NO_DATA_STACK .tstate_chunk = NONE, .frame_locals = NONE, .code_nlocalsplus = NONE

/* Bytecode outside the code object, no qualified name, no version number. */
#define NO_CODE_311                                                                                \
	NO_DATA_STACK, .code_qualname = NONE, .code_version = NONE, .code_firsttraceable = NONE,   \
		       .code_bytecode = NONE

/* Thread-local bytecode: only in free-threaded builds, 3.14+. */
#define NO_TLBC .code_tlbc = NONE, .frame_tlbc_index = NONE

static const struct py_layout layouts[] = {
	{
		.version = 0x0207,
		.chain = PY_CHAIN_FRAME,
		.lasti = PY_LASTI_BYTES,
		.linetable_kind = PY_LINES_LNOTAB_27,
		/* struct _is, Include/pystate.h@2.7.18 */
		.interp_next = 0,	  /* next */
		.interp_threads_head = 8, /* tstate_head */
		.interp_id = NONE,
		/* struct _ts, Include/pystate.h@2.7.18 */
		.tstate_next = 0,	 /* next; there is no prev */
		.tstate_thread_id = 144, /* thread_id, a long */
		.tstate_frame = 16,	 /* frame */
		NO_CFRAME,
		/* struct _frame, Include/frameobject.h@2.7.18 */
		.frame_back = 24,	 /* f_back */
		.frame_code = 32,	 /* f_code */
		.frame_lasti = 120,	 /* f_lasti */
		.frame_owner = NONE,	 /* from 3.11 */
		.frame_executing = NONE, /* from 3.4; see f_lasti == -1 */
		/* PyCodeObject, Include/code.h@2.7.18 */
		.code_firstlineno = 96, /* co_firstlineno */
		.code_filename = 80,	/* co_filename */
		.code_name = 88,	/* co_name */
		.code_linetable = 104,	/* co_lnotab */
		.code_stacksize = 24,	/* co_stacksize */
		NO_CODE_311,
		NO_TLBC,
		/* PyStringObject, Include/stringobject.h@2.7.18: names and lnotab alike */
		.ob_type = 8,
		.str = PY_STR_BYTES,
		.str_length = 16, /* ob_size */
		.str_hash = 24,	  /* ob_shash */
		.str_state = NONE,
		.str_ascii = 36, /* ob_sval */
		.str_compact = 36,
		.bytes_size = 16,
		.bytes_data = 36,
	},
	{
		.version = 0x0306,
		.chain = PY_CHAIN_FRAME,
		.lasti = PY_LASTI_BYTES,
		.linetable_kind = PY_LINES_LNOTAB,
		/* struct _is, Include/pystate.h@3.6.15 */
		.interp_next = 0,	  /* next */
		.interp_threads_head = 8, /* tstate_head */
		.interp_id = NONE,
		/* struct _ts, Include/pystate.h@3.6.15 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 152, /* thread_id, a long */
		.tstate_frame = 24,	 /* frame */
		NO_CFRAME,
		/* struct _frame, Include/frameobject.h@3.6.15 */
		.frame_back = 24,	/* f_back */
		.frame_code = 32,	/* f_code */
		.frame_lasti = 120,	/* f_lasti */
		.frame_owner = NONE,	/* from 3.11 */
		.frame_executing = 132, /* f_executing */
		/* PyCodeObject, Include/code.h@3.6.15 */
		.code_firstlineno = 36, /* co_firstlineno */
		.code_filename = 96,	/* co_filename */
		.code_name = 104,	/* co_name */
		.code_linetable = 112,	/* co_lnotab */
		.code_stacksize = 28,	/* co_stacksize */
		NO_CODE_311,
		NO_TLBC,
		OBJECT,
		STR_UNTIL_311,
	},
	{
		.version = 0x0307,
		.chain = PY_CHAIN_FRAME,
		.lasti = PY_LASTI_BYTES,
		.linetable_kind = PY_LINES_LNOTAB,
		/* struct _is, Include/pystate.h@3.7.16 */
		.interp_next = 0,	  /* next */
		.interp_threads_head = 8, /* tstate_head */
		.interp_id = 16,	  /* id */
		/* struct _ts, Include/pystate.h@3.7.16 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 176, /* thread_id, an unsigned long from here on */
		.tstate_frame = 24,	 /* frame */
		NO_CFRAME,
		/* struct _frame, Include/frameobject.h@3.7.16 */
		.frame_back = 24,	/* f_back */
		.frame_code = 32,	/* f_code */
		.frame_lasti = 104,	/* f_lasti */
		.frame_owner = NONE,	/* from 3.11 */
		.frame_executing = 116, /* f_executing */
		/* PyCodeObject, Include/code.h@3.7.16 */
		.code_firstlineno = 36, /* co_firstlineno */
		.code_filename = 96,	/* co_filename */
		.code_name = 104,	/* co_name */
		.code_linetable = 112,	/* co_lnotab */
		.code_stacksize = 28,	/* co_stacksize */
		NO_CODE_311,
		NO_TLBC,
		OBJECT,
		STR_UNTIL_311,
	},
	{
		.version = 0x0308,
		.chain = PY_CHAIN_FRAME,
		.lasti = PY_LASTI_BYTES,
		.linetable_kind = PY_LINES_LNOTAB,
		/* struct _is, Include/internal/pycore_pystate.h@3.8.18 */
		.interp_next = 0,	  /* next */
		.interp_threads_head = 8, /* tstate_head */
		.interp_id = 16,	  /* id */
		/* struct _ts, Include/cpython/pystate.h@3.8.18 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 176, /* thread_id */
		.tstate_frame = 24,	 /* frame */
		NO_CFRAME,
		/* struct _frame, Include/frameobject.h@3.8.18 */
		.frame_back = 24,	/* f_back */
		.frame_code = 32,	/* f_code */
		.frame_lasti = 104,	/* f_lasti */
		.frame_owner = NONE,	/* from 3.11 */
		.frame_executing = 116, /* f_executing */
		/* PyCodeObject, Include/code.h@3.8.18: co_posonlyargcount is new */
		.code_firstlineno = 40, /* co_firstlineno */
		.code_filename = 104,	/* co_filename */
		.code_name = 112,	/* co_name */
		.code_linetable = 120,	/* co_lnotab */
		.code_stacksize = 32,	/* co_stacksize */
		NO_CODE_311,
		NO_TLBC,
		OBJECT,
		STR_UNTIL_311,
	},
	{
		.version = 0x0309,
		.chain = PY_CHAIN_FRAME,
		.lasti = PY_LASTI_BYTES,
		.linetable_kind = PY_LINES_LNOTAB,
		/* struct _is, Include/internal/pycore_interp.h@3.9.18 */
		.interp_next = 0,	  /* next */
		.interp_threads_head = 8, /* tstate_head */
		.interp_id = 24,	  /* id */
		/* struct _ts, Include/cpython/pystate.h@3.9.18 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 176, /* thread_id */
		.tstate_frame = 24,	 /* frame */
		NO_CFRAME,
		/* struct _frame, Include/cpython/frameobject.h@3.9.18 */
		.frame_back = 24,	/* f_back */
		.frame_code = 32,	/* f_code */
		.frame_lasti = 104,	/* f_lasti */
		.frame_owner = NONE,	/* from 3.11 */
		.frame_executing = 116, /* f_executing */
		/* PyCodeObject, Include/cpython/code.h@3.9.18 */
		.code_firstlineno = 40, /* co_firstlineno */
		.code_filename = 104,	/* co_filename */
		.code_name = 112,	/* co_name */
		.code_linetable = 120,	/* co_lnotab */
		.code_stacksize = 32,	/* co_stacksize */
		NO_CODE_311,
		NO_TLBC,
		OBJECT,
		STR_UNTIL_311,
	},
	{
		.version = 0x030a,
		.chain = PY_CHAIN_FRAME_C,
		.lasti = PY_LASTI_UNITS,
		.linetable_kind = PY_LINES_310,
		/* struct _is, Include/internal/pycore_interp.h@3.10.13 */
		.interp_next = 0,	  /* next */
		.interp_threads_head = 8, /* tstate_head */
		.interp_id = 24,	  /* id */
		/* struct _ts, Include/cpython/pystate.h@3.10.13 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 176, /* thread_id */
		.tstate_frame = 24,	 /* frame */
		.root_cframe = 264,	 /* root_cframe */
		.cframe_tstate = 48,	 /* cframe */
		NO_BASE_FRAME,
		/* struct _cframe, Include/cpython/pystate.h@3.10.13 */
		.cframe_frame = NONE, /* from 3.11 */
		.cframe_previous = 8, /* previous */
		/* struct _frame, Include/cpython/frameobject.h@3.10.13 */
		.frame_back = 24,	 /* f_back */
		.frame_code = 32,	 /* f_code */
		.frame_lasti = 96,	 /* f_lasti */
		.frame_owner = NONE,	 /* from 3.11 */
		.frame_executing = NONE, /* now f_state, with other values */
		/* PyCodeObject, Include/cpython/code.h@3.10.13 */
		.code_firstlineno = 40, /* co_firstlineno */
		.code_filename = 104,	/* co_filename */
		.code_name = 112,	/* co_name */
		.code_linetable = 120,	/* co_linetable */
		.code_stacksize = 32,	/* co_stacksize */
		NO_CODE_311,
		NO_TLBC,
		OBJECT,
		STR_UNTIL_311,
	},
	{
		.version = 0x030b,
		.chain = PY_CHAIN_CFRAME,
		.lasti = PY_LASTI_POINTER,
		.linetable_kind = PY_LINES_311,
		/* struct _is, Include/internal/pycore_interp.h@3.11.7 */
		.interp_next = 0,	   /* next */
		.interp_threads_head = 16, /* threads.head */
		.interp_id = 48,	   /* id */
		/* struct _ts, Include/cpython/pystate.h@3.11.7 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 152, /* thread_id */
		.tstate_frame = 56,	 /* cframe */
		.tstate_chunk = 296,	 /* datastack_chunk */
		.root_cframe = 336,	 /* root_cframe */
		.cframe_tstate = NONE,	 /* it is tstate_frame */
		NO_BASE_FRAME,
		/* struct _PyCFrame, Include/cpython/pystate.h@3.11.7 */
		.cframe_frame = 8,     /* current_frame */
		.cframe_previous = 16, /* previous */
		/* struct _PyInterpreterFrame, Include/internal/pycore_frame.h@3.11.7 */
		.frame_back = 48,	 /* previous */
		.frame_code = 32,	 /* f_code */
		.frame_lasti = 56,	 /* prev_instr */
		.frame_owner = 69,	 /* owner: never 3, there are no shims yet */
		.frame_locals = 72,	 /* localsplus */
		.frame_executing = NONE, /* until 3.9 */
		/* PyCodeObject, _PyCode_DEF() in Include/cpython/code.h@3.11.7 */
		.code_firstlineno = 72,	    /* co_firstlineno */
		.code_stacksize = 68,	    /* co_stacksize */
		.code_nlocalsplus = 76,	    /* co_nlocalsplus */
		.code_filename = 112,	    /* co_filename */
		.code_name = 120,	    /* co_name */
		.code_qualname = 128,	    /* co_qualname */
		.code_linetable = 136,	    /* co_linetable */
		.code_version = NONE,	    /* from 3.12 */
		.code_firsttraceable = 168, /* _co_firsttraceable */
		.code_bytecode = 184,	    /* co_code_adaptive */
		NO_TLBC,
		OBJECT,
		STR_UNTIL_311,
	},
	{
		.version = 0x030c,
		.chain = PY_CHAIN_CFRAME_SHIM,
		.lasti = PY_LASTI_POINTER,
		.linetable_kind = PY_LINES_311,
		/* struct _is, Include/internal/pycore_interp.h@3.12.1 */
		.interp_next = 0,	   /* next */
		.interp_threads_head = 72, /* threads.head */
		.interp_id = 8,		   /* id */
		/* struct _ts, Include/cpython/pystate.h@3.12.1 */
		.tstate_next = 8,	 /* next */
		.tstate_thread_id = 136, /* thread_id */
		.tstate_frame = 56,	 /* cframe */
		.tstate_chunk = 232,	 /* datastack_chunk */
		.root_cframe = 272,	 /* root_cframe */
		.cframe_tstate = NONE,	 /* it is tstate_frame */
		NO_BASE_FRAME,
		/* struct _PyCFrame, Include/cpython/pystate.h@3.12.1 */
		.cframe_frame = 0,    /* current_frame */
		.cframe_previous = 8, /* previous */
		/* struct _PyInterpreterFrame, Include/internal/pycore_frame.h@3.12.1 */
		.frame_back = 8,	 /* previous */
		.frame_code = 0,	 /* f_code */
		.frame_lasti = 56,	 /* prev_instr */
		.frame_owner = 70,	 /* owner: 3 is FRAME_OWNED_BY_CSTACK */
		.frame_locals = 72,	 /* localsplus */
		.frame_executing = NONE, /* until 3.9 */
		/* PyCodeObject, _PyCode_DEF() in Include/cpython/code.h@3.12.1 */
		.code_firstlineno = 68,	    /* co_firstlineno */
		.code_stacksize = 64,	    /* co_stacksize */
		.code_nlocalsplus = 72,	    /* co_nlocalsplus */
		.code_filename = 112,	    /* co_filename */
		.code_name = 120,	    /* co_name */
		.code_qualname = 128,	    /* co_qualname */
		.code_linetable = 136,	    /* co_linetable */
		.code_version = 92,	    /* co_version */
		.code_firsttraceable = 176, /* _co_firsttraceable */
		.code_bytecode = 192,	    /* co_code_adaptive */
		NO_TLBC,
		OBJECT,
		STR_312,
	},
};

/*
 * interpreters.head of struct pyruntimestate: Include/internal/pystate.h@3.7.16,
 * pycore_pystate.h@3.8.18, pycore_runtime.h@3.9.18 - 3.12.1. It stands before every mutex in the
 * structure, whose sizes differ between architectures and C libraries.
 */
static const struct {
	uint16_t version;
	uint16_t interp_head;
} runtimes[] = {
	{ 0x0307, 24 }, { 0x0308, 32 }, { 0x0309, 32 },
	{ 0x030a, 32 }, { 0x030b, 40 }, { 0x030c, 40 },
};

/* ---- _Py_DebugOffsets: 3.13+ -------------------------------------------------------------- */
/*
 * struct _Py_DebugOffsets, Include/internal/pycore_runtime.h@3.13.0 and
 * Include/internal/pycore_debug_offsets.h@3.14.0: a cookie of 8 bytes, then nothing but u64. The
 * positions below are the same in all patch releases of a minor version and in both builds.
 */
#define COOKIE	       "xdebugpy"
#define COOKIE_SIZE    8
#define AT_VERSION     8
#define AT_FREE_THR    16
#define AT_RUNTIME_SZ  24
#define AT_HEAD	       40 /* runtime_state.interpreters_head */
#define AT_INTERP_SZ   48
#define AT_CODES_FREED 160 /* interpreter_state.code_object_generation, 3.14+ */

enum { V313, V314, V315, V_CNT };

/* sizeof(struct _Py_DebugOffsets) */
static const uint16_t debug_offsets_size[V_CNT] = { 584, 760, 888 };

/* One field of struct py_layout, and the place of its offset. */
struct debug_entry {
	uint16_t field;		 /* offsetof() in struct py_layout */
	uint8_t width;		 /* of what is read there */
	bool free_threaded;	 /* exists in free-threaded builds only; elsewhere the entry is 0 */
	uint16_t at[V_CNT];	 /* of the offset; 0: not in this version */
	uint16_t size_at[V_CNT]; /* of the size of the structure that the offset is in */
};

#define ENTRY(name, width, ft, at, size_at)                                                        \
	{                                                                                          \
		offsetof(struct py_layout, name), width, ft, at, size_at                           \
	}
#define P(v313, v314, v315)                                                                        \
	{                                                                                          \
		v313, v314, v315                                                                   \
	}
#define INTERP	 P(48, 48, 48)	  /* interpreter_state.size */
#define TSTATE	 P(152, 176, 176) /* thread_state.size */
#define FRAME	 P(224, 248, 312) /* interpreter_frame.size */
#define CODE	 P(272, 312, 376) /* code_object.size */
#define PYOBJECT P(352, 400, 464) /* pyobject.size */
#define BYTES	 P(512, 592, 688) /* bytes_object.size */
#define UNICODE	 P(536, 616, 712) /* unicode_object.size */

static const struct debug_entry debug_entries[] = {
	ENTRY(interp_next, 8, false, P(64, 64, 64), INTERP),
	ENTRY(interp_threads_head, 8, false, P(72, 72, 72), INTERP),
	ENTRY(interp_id, 8, false, P(56, 56, 56), INTERP),
	ENTRY(tstate_next, 8, false, P(168, 192, 192), TSTATE),
	ENTRY(tstate_frame, 8, false, P(184, 208, 208), TSTATE), /* current_frame */
	ENTRY(base_frame, 8, false, P(0, 0, 216), TSTATE),
	ENTRY(tstate_thread_id, 8, false, P(192, 216, 240), TSTATE),
	ENTRY(frame_back, 8, false, P(232, 256, 320), FRAME),  /* previous */
	ENTRY(frame_code, 8, false, P(240, 264, 328), FRAME),  /* executable */
	ENTRY(frame_lasti, 8, false, P(248, 272, 336), FRAME), /* instr_ptr */
	ENTRY(frame_owner, 1, false, P(264, 288, 352), FRAME),
	ENTRY(frame_tlbc_index, 4, true, P(0, 304, 368), FRAME),
	ENTRY(code_filename, 8, false, P(280, 320, 384), CODE),
	ENTRY(code_name, 8, false, P(288, 328, 392), CODE),
	ENTRY(code_qualname, 8, false, P(296, 336, 400), CODE),
	ENTRY(code_linetable, 8, false, P(304, 344, 408), CODE),
	ENTRY(code_firstlineno, 4, false, P(312, 352, 416), CODE),
	ENTRY(code_bytecode, 2, false, P(344, 384, 448), CODE), /* co_code_adaptive */
	ENTRY(code_tlbc, 8, true, P(0, 392, 456), CODE),
	ENTRY(ob_type, 8, false, P(360, 408, 472), PYOBJECT),
	ENTRY(bytes_size, 8, false, P(520, 600, 696), BYTES),
	ENTRY(bytes_data, 1, false, P(528, 608, 704), BYTES),
	ENTRY(str_state, 4, false, P(544, 624, 720), UNICODE),
	ENTRY(str_length, 8, false, P(552, 632, 728), UNICODE),
	ENTRY(str_ascii, 1, false, P(560, 640, 736), UNICODE), /* asciiobject_size */
};

#define ENTRY_CNT	  (sizeof(debug_entries) / sizeof(debug_entries[0]))
#define AT_COMPACT_SZ_315 744 /* unicode_object.compactunicodeobject_size */

static uint64_t entry_at(const void *bytes, size_t at)
{
	uint64_t value;

	memcpy(&value, (const uint8_t *)bytes + at, sizeof(value));
	return value;
}

static uint16_t get_field(const struct py_layout *l, uint16_t field)
{
	uint16_t value;

	memcpy(&value, (const uint8_t *)l + field, sizeof(value));
	return value;
}

static void set_field(struct py_layout *l, uint16_t field, uint16_t value)
{
	memcpy((uint8_t *)l + field, &value, sizeof(value));
}

int py_debug_offsets__identify(const void *bytes, size_t size, uint32_t *version_hex,
			       bool *free_threaded)
{
	uint64_t version, ft;

	if (!bytes || size < AT_FREE_THR + 8 || memcmp(bytes, COOKIE, COOKIE_SIZE))
		return -ENODATA;
	version = entry_at(bytes, AT_VERSION);
	ft = entry_at(bytes, AT_FREE_THR);
	if (version < PY_VERSION_MINOR_HEX(3, 13) || version > UINT32_MAX || ft > 1)
		return -EBADMSG;
	*version_hex = (uint32_t)version;
	*free_threaded = ft;
	return 0;
}

/* The offset that an entry gives, if the structure it is in can hold such a field there. */
static int read_entry(const struct debug_entry *e, unsigned v, const void *bytes, uint16_t *out)
{
	uint64_t size = entry_at(bytes, e->size_at[v]);
	uint64_t off = entry_at(bytes, e->at[v]);

	if (off >= PY_OFF_NONE || off % e->width || size < e->width || off > size - e->width)
		return -EBADMSG;
	*out = (uint16_t)off;
	return 0;
}

/* Two fields of one structure cannot share a byte. */
static bool overlaps(const struct py_layout *l, unsigned v, size_t a, size_t b)
{
	const struct debug_entry *ea = &debug_entries[a], *eb = &debug_entries[b];
	uint32_t off_a = get_field(l, ea->field), off_b = get_field(l, eb->field);

	if (ea->size_at[v] != eb->size_at[v] || off_a == NONE || off_b == NONE)
		return false;
	return off_a < off_b + eb->width && off_b < off_a + ea->width;
}

static int read_entries(struct py_layout *l, unsigned v, bool free_threaded, const void *bytes)
{
	for (size_t i = 0; i < ENTRY_CNT; i++) {
		const struct debug_entry *e = &debug_entries[i];
		uint16_t off = NONE;

		if (e->at[v] && (!e->free_threaded || free_threaded) &&
		    read_entry(e, v, bytes, &off))
			return -EBADMSG;
		set_field(l, e->field, off);
		for (size_t k = 0; k < i; k++)
			if (overlaps(l, v, i, k))
				return -EBADMSG;
	}
	return 0;
}

/*
 * Derives the fields that _Py_DebugOffsets does not have from those that it has. Measured on 3.13.0
 * - 3.15.2 in both builds: Include/cpython/code.h (PyCodeObject) and
 * Include/cpython/unicodeobject.h.
 */
static int derive_fields(struct py_layout *l, unsigned v, bool free_threaded, const void *bytes)
{
	uint16_t trace_gap = v >= V314 && free_threaded ? 24 : 16; /* co_tlbc is in between */
	uint64_t compact = l->str_ascii + 16;			   /* utf8_length and utf8 */
	uint64_t freed = v >= V314 ? entry_at(bytes, AT_CODES_FREED) : 0;

	if (l->code_bytecode < trace_gap)
		return -EBADMSG;
	l->code_firsttraceable = l->code_bytecode - trace_gap;
	l->code_version = l->code_firstlineno + 24;
	l->str_hash = l->str_length + 8;
	if (l->str_state != l->str_hash + 8) /* the walker reads the three at once */
		return -EBADMSG;
	if (v >= V315) {
		compact = entry_at(bytes, AT_COMPACT_SZ_315);
		if (compact % 8 || compact < l->str_ascii)
			return -EBADMSG;
	}
	if (compact > READ_MAX)
		return -EBADMSG;
	l->str_compact = (uint16_t)compact;
	if (freed % 8 || freed / 8 > UINT16_MAX || freed >= entry_at(bytes, AT_INTERP_SZ))
		return -EBADMSG;
	l->interp_codes = (uint16_t)(freed / 8);
	return 0;
}

static int from_debug_offsets(struct py_layout *l, unsigned v, bool free_threaded,
			      const void *bytes)
{
	memset(l, 0, sizeof(*l));
	l->chain = PY_CHAIN_SHIM;
	l->lasti = PY_LASTI_POINTER;
	l->str = v >= V314 && free_threaded ? PY_STR_STATE_T14 : PY_STR_STATE32;
	l->linetable_kind = PY_LINES_311;
	l->root_cframe = NONE;
	l->tstate_chunk = NONE;
	l->frame_locals = NONE;
	l->code_stacksize = NONE;
	l->code_nlocalsplus = NONE;
	l->cframe_frame = NONE;
	l->cframe_previous = NONE;
	l->cframe_tstate = NONE;
	l->frame_executing = NONE;
	if (read_entries(l, v, free_threaded, bytes))
		return -EBADMSG;
	return derive_fields(l, v, free_threaded, bytes);
}

/* ---- Both --------------------------------------------------------------------------------- */

static void cover(uint32_t *end, uint16_t off, uint32_t width)
{
	if (off != NONE && off + width > *end)
		*end = off + width;
}

/*
 * Sets the range of fields that make the fingerprint of a code object and name it: the fewer cache
 * lines the better.
 */
static void set_identity(struct py_layout *l)
{
	const uint16_t fields[] = { l->code_firstlineno, l->code_version,  l->code_filename,
				    l->code_name,	 l->code_qualname, l->code_linetable };
	uint32_t first = NONE, last = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		cover(&last, fields[i], i < 2 ? 4 : 8);
		first = fields[i] < first ? fields[i] : first;
	}
	l->code_first = first & ~7U;
	l->code_last = (last + 7) & ~7U;
}

/*
 * Sets how many bytes of each structure to read for all fields: one read per structure, because
 * each read is a call. Inline arrays (bytecode) and structures behind a pointer (root_cframe) are
 * not included.
 */
static int set_read_sizes(struct py_layout *l)
{
	uint32_t tstate = 0, frame = 0, code = 0;

	cover(&tstate, l->tstate_next, 8);
	cover(&tstate, l->tstate_thread_id, 8);
	cover(&tstate, l->tstate_frame, 8);
	cover(&tstate, l->cframe_tstate, 8);
	cover(&tstate, l->base_frame, 8);

	cover(&frame, l->frame_back, 8);
	cover(&frame, l->frame_code, 8);
	cover(&frame, l->frame_lasti, l->lasti == PY_LASTI_POINTER ? 8 : 4);
	cover(&frame, l->frame_owner, 1);
	cover(&frame, l->frame_executing, 1);
	cover(&frame, l->frame_tlbc_index, 4);

	cover(&code, l->ob_type, 8);
	cover(&code, l->code_firstlineno, 4);
	cover(&code, l->code_filename, 8);
	cover(&code, l->code_name, 8);
	cover(&code, l->code_qualname, 8);
	cover(&code, l->code_linetable, 8);
	cover(&code, l->code_version, 4);
	cover(&code, l->code_firsttraceable, 4);
	cover(&code, l->code_tlbc, 8);

	if (tstate > READ_MAX || frame > READ_MAX || code > READ_MAX)
		return -EBADMSG;
	l->tstate_read = (tstate + 7) & ~7U;
	l->frame_read = (frame + 7) & ~7U;
	l->code_read = (code + 7) & ~7U;
	set_identity(l);
	return 0;
}

static int find_table(struct py_layout *l, uint32_t version)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].version == version) {
			*l = layouts[i];
			return 0;
		}
	}
	return -ENOTSUP;
}

/* Checks that the bytes are the debug offsets of this very version and build. */
static int check_debug_offsets(uint32_t version_hex, bool free_threaded, const void *bytes,
			       size_t size, const char **why)
{
	unsigned v = (version_hex >> 16) - 0x030d;
	uint32_t own_version;
	bool own_ft;

	if (py_debug_offsets__identify(bytes, size, &own_version, &own_ft)) {
		*why = "_PyRuntime has no debug offsets";
		return -EBADMSG;
	}
	if (own_version != version_hex || own_ft != free_threaded) {
		*why = "the debug offsets are those of another CPython";
		return -EBADMSG;
	}
	if (size < debug_offsets_size[v]) {
		*why = "the debug offsets are truncated";
		return -EBADMSG;
	}
	return 0;
}

/* PY_RELEASE_LEVEL_ALPHA and _BETA: layouts still change between them. */
static bool is_unfinished(uint32_t version_hex)
{
	unsigned level = version_hex >> 4 & 0xf;

	return level == 0xa || level == 0xb;
}

int py_layout__get(struct py_layout *out, uint32_t version_hex, bool free_threaded,
		   const void *debug_offsets, size_t size, const char **why)
{
	uint32_t version = version_hex >> 16;
	struct py_layout l = { 0 };
	const char *reason;
	int err;

	if (!why)
		why = &reason;
	*why = "this version of CPython is not known";
	if (is_unfinished(version_hex)) {
		*why = "alpha and beta releases of CPython are not supported";
		return -ENOTSUP;
	}
	if (version >= 0x030d && version < 0x030d + V_CNT) {
		err = check_debug_offsets(version_hex, free_threaded, debug_offsets, size, why);
		if (err)
			return err;
		err = from_debug_offsets(&l, version - 0x030d, free_threaded, debug_offsets);
	} else {
		err = free_threaded ? -ENOTSUP : find_table(&l, version);
	}
	if (!err)
		err = set_read_sizes(&l);
	if (err) {
		if (err == -EBADMSG)
			*why = "the debug offsets make no sense";
		return err;
	}
	l.version = version;
	*out = l;
	*why = NULL;
	return 0;
}

/*
 * PyObject_HEAD grows by _ob_next and _ob_prev, in front (Include/object.h, _PyObject_HEAD_EXTRA).
 */
int py_layout__trace_refs(struct py_layout *l)
{
	uint16_t *fields[] = {
		&l->frame_back,	      &l->frame_code,	 &l->frame_lasti, &l->frame_executing,
		&l->code_firstlineno, &l->code_filename, &l->code_name,	  &l->code_linetable,
		&l->code_stacksize,   &l->ob_type,	 &l->str_length,  &l->str_hash,
		&l->str_state,	      &l->str_ascii,	 &l->str_compact, &l->bytes_size,
		&l->bytes_data,
	};

	if (l->version > 0x0307)
		return -ENOTSUP;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (*fields[i] != NONE)
			*fields[i] += 16;
	return set_read_sizes(l);
}

int py_layout__interp_head(uint32_t version_hex, const void *debug_offsets, size_t size)
{
	uint32_t version = version_hex >> 16;

	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (runtimes[i].version == version)
			return runtimes[i].interp_head;
	if (version < 0x030d || version >= 0x030d + V_CNT)
		return -ENOTSUP;
	if (!debug_offsets || size < debug_offsets_size[version - 0x030d])
		return -EBADMSG;

	uint64_t runtime_size = entry_at(debug_offsets, AT_RUNTIME_SZ);
	uint64_t head = entry_at(debug_offsets, AT_HEAD);

	if (head % 8 || head >= PY_OFF_NONE || runtime_size < 8 || head > runtime_size - 8)
		return -EBADMSG;
	return (int)head;
}

/*
 * 3.7 - 3.11: _PyRuntime.ceval.gil; 3.12+: the pointer PyInterpreterState.ceval.gil, from 3.13 on
 * behind instrumentation_version and recursion_limit at the beginning of both structs. The numbers
 * are from debug information, with which test_pylayout compares them. _PyRuntime of 3.7.0 - 3.7.3
 * is another one; 3.6 and older have no struct: see find_gil() in pyproc.c.
 */
#define GIL_FIRST_37 0x030704f0u

int py_layout__gil(struct py_gil *out, uint32_t version_hex, bool free_threaded)
{
	static const struct {
		uint32_t version;
		uint16_t interp_gil, runtime_gil;
	} places[] = {
		{ 0x0307, NONE, 1264 }, { 0x0308, NONE, 1152 }, { 0x0309, NONE, 352 },
		{ 0x030a, NONE, 352 },	{ 0x030b, NONE, 360 },	{ 0x030c, 384, NONE },
		{ 0x030d, 16, NONE },	{ 0x030e, 16, NONE },	{ 0x030f, 16, NONE },
	};

	if (free_threaded || (version_hex >> 16 == 0x0307 && version_hex < GIL_FIRST_37))
		return -ENOTSUP;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i].version != version_hex >> 16)
			continue;
		*out = (struct py_gil){
			.tstate_interp = 16,
			.interp_gil = places[i].interp_gil,
			.runtime_gil = places[i].runtime_gil,
			.last_holder = 8,
			.locked = 16,
			.locks = 32,
			.locks_size = 176, /* two pthread_cond_t and two pthread_mutex_t */
		};
		return 0;
	}
	return -ENOTSUP;
}

/*
 * f_localsplus of a PyFrameObject; from 3.11 on localsplus of a _PyInterpreterFrame: behind its
 * owner, with padding.
 */
uint16_t py_layout__frame_locals(const struct py_layout *l)
{
	uint16_t shift = (uint16_t)(l->ob_type - 8);

	if (l->version >= 0x030b)
		return (uint16_t)((l->frame_owner + 8) & ~7U);
	return (uint16_t)(shift + (l->version <= 0x0306 ? 376 : l->version <= 0x0309 ? 360 : 352));
}
