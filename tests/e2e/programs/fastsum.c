/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Functions in C over a list of objects. PySequence_GetItem() gives a new reference: total()
 * forgets to drop it, count() does not.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *total(PyObject *self, PyObject *list)
{
	Py_ssize_t cnt = PySequence_Size(list);
	long sum = 0;

	(void)self;
	for (Py_ssize_t i = 0; i < cnt; i++) {
		PyObject *order = PySequence_GetItem(list, i); /* the leak */
		PyObject *price = order ? PyObject_GetAttrString(order, "price") : NULL;

		if (!price)
			return NULL;
		sum += PyLong_AsLong(price);
		Py_DECREF(price);
	}
	return PyLong_FromLong(sum);
}

static PyObject *count(PyObject *self, PyObject *list)
{
	Py_ssize_t cnt = PySequence_Size(list), there = 0;

	(void)self;
	for (Py_ssize_t i = 0; i < cnt; i++) {
		PyObject *order = PySequence_GetItem(list, i);

		there += order != NULL;
		Py_XDECREF(order);
	}
	return PyLong_FromSsize_t(there);
}

static PyMethodDef methods[] = {
	{ "total", total, METH_O, "total(orders): the sum of their prices" },
	{ "count", count, METH_O, "count(orders): how many" },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, .m_name = "fastsum", .m_size = -1,
				     .m_methods = methods };

PyMODINIT_FUNC PyInit_fastsum(void)
{
	return PyModule_Create(&module);
}
