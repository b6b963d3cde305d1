"""Names the public parts of the package that have no comment, and exits with 1 if there are any."""

import ast
import importlib
import inspect
import sys
from itertools import pairwise

MODULES = ("esker", "esker.aio", "esker.codec", "esker.plyvel")


def of_class(name, kind):
    """Yields the class and its public methods and properties with their comments.

    Of what it inherits, only that from classes of the package.
    """
    yield name, vars(kind).get("__doc__")
    for own in dir(kind):
        owner = next(base for base in kind.__mro__ if own in vars(base))
        value = vars(owner)[own]
        is_shown = callable(value) or inspect.isdatadescriptor(value)
        if own[0] != "_" and is_shown and owner.__module__.split(".")[0] == "esker":
            yield f"{name}.{own}", inspect.getdoc(value)


def of_variables(module):
    """Returns the comments of the variables of a module: texts that follow assignments."""
    found = {}
    for one, following in pairwise(ast.parse(inspect.getsource(module)).body):
        comment = following.value if isinstance(following, ast.Expr) else None
        comment = comment.value if isinstance(comment, ast.Constant) else None
        if isinstance(one, (ast.Assign, ast.AnnAssign)):
            for target in getattr(one, "targets", None) or [one.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = comment
    return found


def parts(name):
    """Yields the public names of a module, and of its classes, with their comments."""
    module = importlib.import_module(name)
    yield name, module.__doc__
    variables = of_variables(module)
    for own in module.__all__:
        value = getattr(module, own)
        if inspect.isclass(value):
            yield from of_class(f"{name}.{own}", value)
        elif own in variables:
            yield f"{name}.{own}", variables[own]
        elif callable(value):
            yield f"{name}.{own}", inspect.getdoc(value)


def main():
    """Prints the names without a comment."""
    named = [part for module in MODULES for part in parts(module)]
    missing = [name for name, comment in named if not (comment or "").strip()]
    for name in missing:
        print(f"{name} has no comment")
    if len(named) < 500:
        sys.exit(f"found only {len(named)} names")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
