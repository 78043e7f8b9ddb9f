# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""For Cython: each function that works does so in C, by spin().

closure() is the first function of its scope: its C name has two readings, and its wrapper's tells
which is right.
"""
import time


def run(double seconds):
    cdef double end = time.process_time() + seconds
    shape = Shape()
    while time.process_time() < end:
        shape.area(1000)
        for piece in pieces(1000):
            pass
        outer(1000)()


cdef class Shape:
    def name(self):
        return "shape"

    def area(self, n):
        return spin(n * 20)


cdef long spin(long n) except -1:
    cdef long s = 0
    cdef long i
    for i in range(n):
        s = s * 3 ^ i
    return s


def pieces(n):
    for i in range(n):
        spin(20)
        yield i


def outer(n):
    def closure():
        return spin(n * 20)
    return closure
