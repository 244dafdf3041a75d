"""Replaces missing packages by empty modules, because engines import packages that no test calls.

importlib.util.find_spec still reports the packages as missing."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

_names, _made = set(), set()


class _AnyType(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyType(name, (_Anything,), {})

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):
        return iter(())


class _Anything(metaclass=_AnyType):
    def __init__(self, *_, **__):
        pass

    def __call__(self, *given, **__):
        return given[0] if len(given) == 1 and callable(given[0]) else _Anything()  # when used as a decorator

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class _Module(types.ModuleType):
    __path__: list = []
    __version__ = "0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyType(name, (_Anything,), {"__module__": self.__name__})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in _names or _only_asked():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        _made.add(spec.name.split(".")[0])
        return _Module(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def _only_asked():
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "find_spec" and "importlib" in frame.f_code.co_filename and "util" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def allow(*names):
    if not _names:
        sys.meta_path.append(_Finder())
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in _made else real(name, package)
    _names.update(names)


def made():
    return " ".join(sorted(_made)) or "none"
