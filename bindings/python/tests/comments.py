"""Names the public parts of the package that have no comment, and exits with 1 if there are any."""

import importlib
import inspect
import sys

MODULES = ("esker", "esker.aio", "esker.codec", "esker.plyvel")


def of_class(name, kind):
    """Yields the class, and the methods and properties that it does not inherit."""
    yield name, kind
    for own, value in vars(kind).items():
        if not own.startswith("_") and (callable(value) or inspect.isdatadescriptor(value)):
            yield f"{name}.{own}", value


def parts(name):
    """Yields the public names of a module with their objects."""
    module = importlib.import_module(name)
    yield name, module
    for own in getattr(module, "__all__", [own for own in vars(module) if own[0] != "_"]):
        value = getattr(module, own)
        if inspect.isclass(value):
            yield from of_class(f"{name}.{own}", value)
        elif callable(value):
            yield f"{name}.{own}", value


def main():
    """Prints the names without a comment."""
    named = [part for module in MODULES for part in parts(module)]
    missing = [name for name, value in named if not (inspect.getdoc(value) or "").strip()]
    for name in missing:
        print(f"{name} has no comment")
    if len(named) < 100:
        sys.exit(f"found only {len(named)} names")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
