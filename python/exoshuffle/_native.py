"""Says what to do where the native module is not built.

Python prefers the compiled module of the same name, so this file is imported only where there is none. The linter of
imports, which sees no compiled modules, knows this one.
"""

raise ImportError(
    "the native module of exoshuffle is not built: run `make build`, or install a wheel"
)
