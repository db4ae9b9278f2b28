"""Swift's own functions, with other names for what they use.

Swift's rules and its use of a file system often lie in one function. `rebound` makes a function of the same code that
finds some global names elsewhere: its rules stay Swift's, and its files are ours. Nothing of Swift is changed for
anybody else in the process.
"""

import types


class _Names(dict):
    """The global names of a function: ours, and for the rest those that its module has at that moment."""

    def __init__(self, module_names, ours):
        super().__init__(ours)
        self._module_names = module_names
        self["__builtins__"] = module_names["__builtins__"]

    def __missing__(self, name):
        return self._module_names[name]


def rebound(function, **ours):
    """`function`, for which the global names of `ours` mean these values."""
    names = _Names(function.__globals__, ours)
    made = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class Facade:
    """An object that has some attributes of its own, and the others of `behind`."""

    def __init__(self, behind, **ours):
        self.__dict__.update(ours)
        self._behind = behind

    def __getattr__(self, name):
        return getattr(self._behind, name)
