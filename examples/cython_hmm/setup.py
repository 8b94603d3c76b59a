"""Build with setuptools: ``python setup.py build_ext --inplace``."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(py_modules=[], ext_modules=cythonize([Extension("cython_hmm", ["cython_hmm.pyx"])]))
