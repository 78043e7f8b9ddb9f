# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""numpy: ufuncs with SIMD dispatch, LAPACK, BLAS, FFT, sorting, callbacks into Python."""
import numpy as np

rng = np.random.default_rng(1)
square = rng.random((120, 120))
row = rng.random(20000)
names = np.array(["x%d" % i for i in range(2000)])
double = np.vectorize(lambda x: x * 2)

while True:
    square @ square
    np.linalg.svd(square[:40, :40])
    np.linalg.solve(square, square[0])
    np.fft.fft(row)
    np.sort(row)
    np.argsort(names)
    np.sin(row).sum()
    np.einsum("ij,jk->ik", square, square)
    np.unique(row.astype(np.int32))
    np.convolve(row[:500], row[:100])
    np.apply_along_axis(lambda r: r.sum(), 1, square)
    np.loadtxt(["1 2 3"] * 50)
    rng.normal(size=1000)
    double(row[:100])
    row.tolist()
