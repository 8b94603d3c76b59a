"""The C-level functions of amofa.cython_amofa, callable from Python through their capsules."""

import ctypes
import re

import numpy as np

from amofa import cython_amofa

TYPES = {"int": ctypes.c_int, "double": ctypes.c_double, "Py_ssize_t": ctypes.c_ssize_t, "void": None}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def signatures():
    """Return the signatures of all exported functions from their capsules, which a consumer's import compares."""
    return {name: _name(capsule).decode() for name, capsule in sorted(cython_amofa.__pyx_capi__.items())}


class Functions:
    """``Functions().posterior(...)`` calls it without the GIL; arrays stand for pointers, None for NULL."""

    def __init__(self):
        for name, signature in signatures().items():
            setattr(self, name, _callable(cython_amofa.__pyx_capi__[name], signature))


def _callable(capsule, signature):
    result, arguments = re.fullmatch(r"(\w+) \((.*)\)", signature).groups()
    types = [ctypes.c_void_p if "*" in a else TYPES[a] for a in arguments.split(", ")]
    function = ctypes.CFUNCTYPE(TYPES[result], *types)(_pointer(capsule, signature.encode()))
    return lambda *values: function(*(v.ctypes.data if isinstance(v, np.ndarray) else v for v in values))
