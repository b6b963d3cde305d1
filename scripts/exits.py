"""Early returns (`?`) of the engine that no test took, from `cargo llvm-cov report --json`.

`exits.py COVERAGE.json`, from the repository's root. A line counts as run when its call came back;
whether it ever came back with an error is a region of its own, which is what is counted here.
Places of one `?` in several instances of a generic function are one. Tests are not counted.
"""

import collections
import json
import os
import re
import sys

ENGINE = "crates/esker/src/"
ROOT = os.getcwd() + "/" + ENGINE


def end_of_code(lines):
    """The first line of the tests within a file."""
    for at in range(len(lines) - 1):
        if lines[at] == "#[cfg(test)]" and re.match(r"mod \w+ \{", lines[at + 1]):
            return at
    return len(lines)


def main():
    with open(sys.argv[1]) as file:
        functions = json.load(file)["data"][0]["functions"]
    taken = collections.Counter()
    for function in functions:
        for line, column, line_end, column_end, count, name, _, kind in function["regions"]:
            path = function["filenames"][name]
            is_mark = line == line_end and column + 1 == column_end
            if kind == 0 and is_mark and path.startswith(ROOT) and "/tests" not in path:
                taken[path[len(ROOT) :], line, column] += count
    sources, untaken, all_exits = {}, [], 0
    for (path, line, column), count in sorted(taken.items()):
        if path not in sources:
            with open(ENGINE + path) as file:
                lines = file.read().split("\n")
            sources[path] = lines, end_of_code(lines)
        lines, end = sources[path]
        if line - 1 < end and lines[line - 1][column - 1] == "?":
            all_exits += 1
            if count == 0:
                untaken.append(f"not taken: {ENGINE}{path}:{line}: {lines[line - 1].strip()}")
    share = 100 * (all_exits - len(untaken)) / max(all_exits, 1)
    print(f"\nearly returns: {all_exits - len(untaken)} of {all_exits} taken, {share:.1f} of 100\n")
    print("\n".join(untaken))


main()
