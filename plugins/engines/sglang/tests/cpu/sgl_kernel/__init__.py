"""Stands where SGLang's compiled kernels would be, of which there is no build for this kind of machine. SGLang has all that the tests
need of them in torch as well: whatever is called here nonetheless, says so.
"""

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "0.4.10"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **more):
        message = f"sgl_kernel.{name} is not built for this machine"
        raise NotImplementedError(message)

    return missing


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Every module below this one; `scalar_type` must be missing."""

    def find_spec(self, name, path, target=None):
        if name.startswith("sgl_kernel.") and name != "sgl_kernel.scalar_type":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = __getattr__
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(Empty())
