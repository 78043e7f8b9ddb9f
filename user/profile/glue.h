/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GLUE_H
#define PYPERF_GLUE_H
/*
 * Finds interpreter glue: native frames that show how CPython runs Python code, not what the code
 * does.
 *
 *	_start, main, Py_RunMain ...	in front of the first Python function
 *	PyObject_Vectorcall, cfunction_call	between a Python function and what it calls
 *	_PyEval_..., PyDict_GetItem, libpython3.11+0x13ad00	behind the last function that has a
 *						name for Python users: one frame "CPython" for all
 *
 * Glue is code of the interpreter's own file, named or not, so that a stripped interpreter is shown
 * like any other. A function that Python users call by name is not glue, wherever it is:
 * list.sort(), builtins.sorted(), a slot like "dict (mp_subscript)", the garbage collector.
 * Functions of extensions and libraries are not glue either.
 *
 * A stack without a Python function has no glue, because its native frames are all that it has.
 */
#include <stdbool.h>

#include "profile/profile.h"

#define GLUE_BOX "CPython" /* the frame that stands for a run of glue at the end of a stack */

enum glue_mode {
	GLUE_KEEP, /* every frame as it was sampled */
	GLUE_HIDE, /* glue is left out */
	/*
	 * Both glue and the frames that stand for it are there, with SYM_GLUE and SYM_GLUE_BOX: a
	 * viewer shows either.
	 */
	GLUE_MARK,
};

/* Is it the interpreter's own code, even if that is linked into another program? */
bool glue_is_interpreter(const struct profile *p, const struct sym *s);
/* Is it glue, in a stack with a Python function? */
bool glue_is(const struct profile *p, const struct sym *s);

/*
 * The symbolized profile as `mode` shows it; `p` itself for GLUE_KEEP. Any other result is read
 * only and must not outlive `p`, whose processes and strings it shares. NULL: no memory.
 */
const struct profile *glue__view(const struct profile *p, enum glue_mode mode);

#endif /* PYPERF_GLUE_H */
