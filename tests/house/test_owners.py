"""Who may change what: the fields of a `Child` belong to the parts of it, in supervisor/direction/child/.

Others read them, and call a method of the part where something has happened. A field that five modules may write has no owner,
and nobody can say of it when it holds.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

OWNERS = "supervisor.direction.child"
#: Methods that change a list, a dictionary or a set.
CHANGING = frozenset(
    ("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update")
)


def fields_of(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """(field, whether it is a container) of each dataclass in a file."""
    for node in tree.body:
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                yield part.target.id, ast.unparse(part.annotation).startswith(("dict[", "list[", "set["))


def written(tree: ast.AST) -> Iterator[ast.expr]:
    """What a file assigns to, adds to or deletes, one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node


def writes(tree: ast.AST, fields: set[str], containers: set[str]) -> Iterator[int]:
    """Lines that change a field, or what is in one, of an object other than `self`."""
    for node in written(tree):
        target: ast.expr = node
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and target.attr in fields and ast.unparse(target.value) != "self":
            yield node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            target = node.func.value
            if isinstance(target, ast.Attribute) and target.attr in containers and ast.unparse(target.value) != "self":
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
            yield node.lineno


def foreign_writes(sources: dict[str, str]) -> list[str]:
    """Lines of the supervisor that change a field of a child from outside."""
    trees = {name: ast.parse(text) for name, text in sources.items() if name.startswith("supervisor")}
    own = [name for name in trees if f"{name}.".startswith(f"{OWNERS}.")]
    found = {each for name in own for each in fields_of(trees[name])}
    fields, containers = {name for name, _ in found}, {name for name, is_container in found if is_container}
    return [
        f"{name}:{line}"
        for name, tree in trees.items()
        if name not in own
        for line in sorted(writes(tree, fields, containers))
    ]


def test_a_child_is_changed_by_its_own_parts_alone(modules: dict[str, Path]) -> None:
    """Else the next who changes a rule of restarts has to find all places that write `is_leaving`."""
    sources = {name: path.read_text() for name, path in modules.items()}
    assert foreign_writes(sources) == [], "give the part of the child that owns it a method that says what happens"


def test_a_write_from_outside_is_seen() -> None:
    """The test above would pass for ever if it saw nothing."""
    part = "class Departure:\n    is_leaving: bool = False\n    unfinished: list[str] = []\n"
    for line in (
        "child.departure.is_leaving = True",
        "a, child.is_leaving = 1, True",
        "self._children[name].departure.is_leaving |= True",
        "child.unfinished[0] = 'x'",
        "del child.unfinished[0]",
        "child.drain.unfinished.append('x')",
        "for child.is_leaving in (): pass",
        "setattr(child, 'is_leaving', True)",
    ):
        assert foreign_writes({OWNERS: part, "supervisor.direction.draining": line}), line
    for line in ("self.is_leaving = 1", "child.departure.begin()", "leaving = child.is_leaving", "names.append(child)"):
        assert not foreign_writes({OWNERS: part, "supervisor.direction.draining": line}), line
