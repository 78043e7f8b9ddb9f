/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pystate.h"

#define MODULE_DICT 16	/* md_dict, Objects/moduleobject.c */
#define PTHREAD_TID 720 /* glibc x86-64: struct pthread.tid, nptl/descr.h */

uint32_t pyinterps__list(struct pymem *m, const struct py_binary *bin, uint64_t bias,
			 uint64_t interps[PYINTERPS_MAX])
{
	uint64_t interp = pymem__pointer(m, bias + bin->interp.interp_head);
	uint32_t cnt = 0;

	while (interp && cnt < PYINTERPS_MAX) {
		interps[cnt++] = interp;
		interp = pymem__pointer(m, interp + m->lay->interp_next);
	}
	return cnt;
}

/*
 * PyInterpreterState.modules, from 3.12 on .imports.modules; from 3.13 on, where _Py_DebugOffsets
 * has interpreter_state.imports_modules. 0: not known.
 */
static uint64_t modules_offset(struct pymem *m, const struct py_binary *bin, uint64_t bias)
{
	static const uint16_t offset[] = { 16, 40, 56, 856, 856, 888, 944 }; /* 3.6 ... 3.12 */
	uint64_t at;

	if (m->version == 0x0207)
		return 16;
	if (m->version >= 0x0306 && m->version <= 0x030c)
		return offset[m->version - 0x0306];
	if (m->version < 0x030d ||
	    pymem__read(m, &at, 8, bias + bin->runtime + (m->version == 0x030d ? 88 : 96)))
		return 0;
	return at < 1U << 20 ? at : 0;
}

uint64_t pymodules__dict(struct pymem *m, const struct py_binary *bin, uint64_t bias,
			 uint64_t interp, const char *name)
{
	uint64_t offset = modules_offset(m, bin, bias), module;

	if (!interp || !offset)
		return 0;
	module = pydict__item(m, pymem__pointer(m, interp + offset), name);
	if (!pyobject__is(m, module, "module"))
		return 0;
	return pymem__pointer(m, module + pyfield(m, MODULE_DICT));
}

/* ---- threads --------------------------------------------------------------------------------- */

uint64_t pythread__first(struct pymem *m, uint64_t interp)
{
	return pymem__pointer(m, interp + m->lay->interp_threads_head);
}

uint64_t pythread__next(struct pymem *m, uint64_t tstate)
{
	return pymem__pointer(m, tstate + m->lay->tstate_next);
}

uint64_t pythread__ident(struct pymem *m, uint64_t tstate)
{
	uint64_t ident;

	return pymem__read(m, &ident, sizeof(ident), tstate + m->lay->tstate_thread_id) ? 0 : ident;
}

uint32_t pythread__tid_of_ident(struct pymem *m, uint64_t ident)
{
#ifdef __x86_64__
	uint32_t tid;

	if (!ident || pymem__pointer(m, ident) != ident ||
	    pymem__read(m, &tid, sizeof(tid), ident + PTHREAD_TID) || tid > INT32_MAX)
		return 0;
	return tid;
#else
	(void)m;
	(void)ident;
	return 0;
#endif
}

uint32_t pythread__tid(struct pymem *m, uint64_t tstate)
{
	uint64_t tid;

	if (m->version < 0x030b)
		return pythread__tid_of_ident(m, pythread__ident(m, tstate));
	/* native_thread_id is behind thread_id: Include/cpython/pystate.h */
	if (pymem__read(m, &tid, sizeof(tid), tstate + m->lay->tstate_thread_id + 8) ||
	    tid > INT32_MAX)
		return 0;
	return (uint32_t)tid;
}

uint64_t pythread__frame(struct pymem *m, uint64_t tstate)
{
	uint64_t at = pymem__pointer(m, tstate + m->lay->tstate_frame);

	if (m->lay->chain != PY_CHAIN_CFRAME && m->lay->chain != PY_CHAIN_CFRAME_SHIM)
		return at;
	return at ? pymem__pointer(m, at + m->lay->cframe_frame) : 0;
}
