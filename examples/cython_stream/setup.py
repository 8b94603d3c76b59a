"""Build with setuptools: ``python setup.py build_ext --inplace``."""

import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

# Without OpenMP, prange is a loop of one thread.
openmp = ["-fopenmp"] if sys.platform == "linux" else []
extension = Extension(
    "cython_stream", ["cython_stream.pyx"], extra_compile_args=["-O3", *openmp], extra_link_args=openmp
)
setup(py_modules=[], ext_modules=cythonize([extension]))
