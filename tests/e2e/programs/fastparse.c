/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A parser in C that leaks: PyList_Append() takes a reference of its own, and nobody drops the
 * first one.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *parse(PyObject *self, PyObject *args)
{
	PyObject *cls, *orders = PyList_New(0);
	Py_ssize_t cnt;

	(void)self;
	if (!orders || !PyArg_ParseTuple(args, "On", &cls, &cnt))
		return NULL;
	for (Py_ssize_t i = 0; i < cnt; i++) {
		PyObject *order = PyObject_CallFunctionObjArgs(cls, NULL);

		if (!order || PyList_Append(orders, order))
			return NULL;
		/* forgotten: Py_DECREF(order); */
	}
	return orders;
}

static PyMethodDef methods[] = {
	{ "parse", parse, METH_VARARGS, "parse(class, count): a list of objects" },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, .m_name = "fastparse", .m_size = -1,
				     .m_methods = methods };

PyMODINIT_FUNC PyInit_fastparse(void)
{
	return PyModule_Create(&module);
}
