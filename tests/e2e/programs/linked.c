/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Functions as Nuitka compiles them from Python: each links a frame of its own into the interpreter
 * while it runs, without an eval loop, so that tracebacks show it. What is done to CPython's
 * structures is what nuitka/compiled_frame.h and CompiledFrameType.c of Nuitka 4.0 do for 3.6 to
 * 3.13, and the C functions are named as Nuitka names them. Their source would be linked_source.py:
 *
 *	3	def outer(through):
 *	5		middle(through)
 *	8	def middle(through):
 *	9		through()		# which is interpreted, and calls inner()
 *	12	def inner(tell, leaf):
 *	14		tell(); (work)
 *	15		leaf()
 */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#undef _PyGC_FINALIZED /* 3.12: defined twice */
#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#else
#include <internal/pycore_frame.h>
#endif
#include <pthread.h>
#include <time.h>

#define SOURCE	"linked_source.py"
#define BEFORE	48 /* bytes of Nuitka's own between CPython's part and the frame */
#define WORK_NS 4000000

#if PY_VERSION_HEX < 0x03090000
#define PyObject_CallNoArgs(callable) PyObject_CallObject(callable, NULL)
#endif

static PyObject *callbacks[3]; /* through, tell, leaf */

#if PY_VERSION_HEX < 0x030b0000

/* Frames are objects. Nuitka's have a type of their own, which tells their lines. */
struct linked {
	PyFrameObject *object;
};

static struct linked make(const char *name, int line)
{
	PyCodeObject *code = PyCode_NewEmpty(SOURCE, name, line);
	PyFrameObject *object = PyFrame_New(PyThreadState_Get(), code, PyEval_GetBuiltins(), NULL);

	Py_CLEAR(object->f_back);
	Py_INCREF(Py_None);
	object->f_trace = Py_None; /* else CPython computes the line from f_lasti */
	object->f_lineno = line;
#if PY_VERSION_HEX < 0x030a0000
	object->f_executing = 1;
#else
	object->f_state = FRAME_EXECUTING;
#endif
	return (struct linked){ object };
}

static void push(const struct linked *l)
{
	PyThreadState *tstate = PyThreadState_Get();

	Py_XINCREF(tstate->frame);
	l->object->f_back = tstate->frame;
	tstate->frame = l->object;
}

static void pop(const struct linked *l)
{
	PyThreadState_Get()->frame = l->object->f_back;
	Py_CLEAR(l->object->f_back);
}

#else

struct linked {
	PyFrameObject *object;
	_PyInterpreterFrame *frame;
};

#if PY_VERSION_HEX < 0x030d0000
#define CURRENT(tstate) ((tstate)->cframe->current_frame)
#else
#define CURRENT(tstate) ((tstate)->current_frame)
#endif

/* They are kept: nothing is freed, and nothing has to be. */
static struct linked make(const char *name, int line)
{
	PyCodeObject *code = PyCode_NewEmpty(SOURCE, name, line);
	PyFrameObject *object = PyObject_GC_NewVar(PyFrameObject, &PyFrame_Type, 64);
	_PyInterpreterFrame *f = (void *)((char *)object + sizeof(*object) + BEFORE);

	memset((char *)object + offsetof(PyFrameObject, f_back), 0, 400);
	object->f_frame = f;
	object->f_trace_lines = 0;
	object->f_lineno = line;
	f->f_globals = PyEval_GetBuiltins();
	f->f_builtins = f->f_globals;
	f->frame_obj = object;
	f->owner = FRAME_OWNED_BY_GENERATOR;
#if PY_VERSION_HEX < 0x030d0000
	f->f_code = code;
	f->prev_instr = _PyCode_CODE(code) + code->_co_firsttraceable;
#else
	f->f_executable = (PyObject *)code;
	f->instr_ptr = _PyCode_CODE(code) + code->_co_firsttraceable + 1;
#endif
	return (struct linked){ object, f };
}

static void push(const struct linked *l)
{
	PyThreadState *tstate = PyThreadState_Get();
	_PyInterpreterFrame *old = CURRENT(tstate);

	l->frame->previous = old;
	CURRENT(tstate) = l->frame;
	if (old && !_PyFrame_IsIncomplete(old))
		l->object->f_back = (PyFrameObject *)Py_XNewRef(old->frame_obj);
}

static void pop(const struct linked *l)
{
	CURRENT(PyThreadState_Get()) = l->frame->previous;
	Py_CLEAR(l->object->f_back);
	l->frame->previous = NULL;
}
#endif

static long long cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A frame of a function for each way in, as threads would have. */
#define FRAME(name, line)                                                                          \
	static struct linked frames[2];                                                            \
	struct linked *frame = &frames[way];                                                       \
	if (!frame->object)                                                                        \
		*frame = make(name, line);                                                         \
	push(frame)
#define LINE(n)	    (frame->object->f_lineno = (n))
#define OUT_OF_LINE __attribute__((noinline, noclone))

static int way;

static OUT_OF_LINE PyObject *impl_linked$$$function__3_inner(void)
{
	PyObject *told, *result = NULL;

	FRAME("inner", 12);
	LINE(14);
	told = PyObject_CallNoArgs(callbacks[1]);
	for (long long end = cpu_ns() + WORK_NS; told && cpu_ns() < end;)
		;
	LINE(15);
	if (told)
		result = PyObject_CallNoArgs(callbacks[2]);
	Py_XDECREF(told);
	pop(frame);
	return result;
}

static OUT_OF_LINE PyObject *impl_linked$$$function__2_middle(void)
{
	PyObject *result;

	FRAME("middle", 8);
	LINE(9);
	result = PyObject_CallNoArgs(callbacks[0]);
	pop(frame);
	return result;
}

static OUT_OF_LINE PyObject *impl_linked$$$function__1_outer(void)
{
	PyObject *result;

	FRAME("outer", 3);
	LINE(5);
	result = impl_linked$$$function__2_middle();
	pop(frame);
	return result;
}

/* ---- the module ------------------------------------------------------------------------------ */

static PyObject *set(PyObject *self, PyObject *args)
{
	(void)self;
	if (!PyArg_ParseTuple(args, "OOO", &callbacks[0], &callbacks[1], &callbacks[2]))
		return NULL;
	for (int i = 0; i < 3; i++)
		Py_INCREF(callbacks[i]);
	Py_RETURN_NONE;
}

static PyObject *inner(PyObject *self, PyObject *args)
{
	(void)self, (void)args;
	return impl_linked$$$function__3_inner();
}

/* Called by interpreted code. */
static PyObject *outer(PyObject *self, PyObject *args)
{
	(void)self, (void)args;
	way = 0;
	return impl_linked$$$function__1_outer();
}

static void *thread(void *result)
{
	PyGILState_STATE state = PyGILState_Ensure();

	way = 1;
	*(PyObject **)result = impl_linked$$$function__1_outer();
	if (PyErr_Occurred())
		PyErr_Print();
	PyGILState_Release(state);
	return NULL;
}

/* Called by no Python code, as the program is that Nuitka makes: in a thread that C has made. */
static PyObject *outermost(PyObject *self, PyObject *args)
{
	PyObject *result = NULL;
	pthread_t id;

	(void)self, (void)args;
	Py_BEGIN_ALLOW_THREADS;
	pthread_create(&id, NULL, thread, &result);
	pthread_join(id, NULL);
	Py_END_ALLOW_THREADS;
	if (!result)
		PyErr_SetString(PyExc_RuntimeError, "the thread failed");
	return result;
}

static PyMethodDef methods[] = {
	{ "set", set, METH_VARARGS, NULL },
	{ "inner", inner, METH_NOARGS, NULL },
	{ "outer", outer, METH_NOARGS, NULL },
	{ "outermost", outermost, METH_NOARGS, NULL },
	{ 0 },
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "linked",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit_linked(void)
{
	return PyModule_Create(&module);
}
