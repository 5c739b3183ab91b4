"""What the stubs say of the compiled module is what it has: every class, method, parameter and default."""

import ast
import inspect
import pathlib
import unittest

import millstream
from millstream import _millstream

FOLDER = pathlib.Path(millstream.__file__).parent


def parameters(function: ast.FunctionDef) -> "list[str]":
    given = function.args
    return [arg.arg for arg in given.posonlyargs + given.args + given.kwonlyargs if arg.arg not in ("self", "cls")]


class Stubs(unittest.TestCase):
    def setUp(self) -> None:
        tree = ast.parse((FOLDER / "_millstream.pyi").read_text())
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}

    def test_names(self) -> None:
        there = {name for name in dir(_millstream) if not name.startswith("__")}
        self.assertEqual(there, set(self.classes) | self.functions)
        for name, stub in self.classes.items():
            real = getattr(_millstream, name)
            mine = {member for member in vars(real) if not member.startswith("__")}
            said = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
            self.assertEqual(mine, {name for name in said if not name.startswith("__")}, name)

    def test_parameters(self) -> None:
        for name, stub in self.classes.items():
            for node in stub.body:
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
                    continue
                real = inspect.getattr_static(getattr(_millstream, name), node.name)
                if inspect.isgetsetdescriptor(real):
                    continue
                signature = inspect.signature(real)
                names = [parameter for parameter in signature.parameters if parameter != "self"]
                self.assertEqual(names, parameters(node), f"{name}.{node.name}")

    def test_documentation(self) -> None:
        for name in (*self.classes, *self.functions):
            self.assertTrue(getattr(_millstream, name).__doc__, name)
        for name in millstream.__all__:
            thing = getattr(millstream, name)
            self.assertTrue(thing.__doc__, name)
            for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    self.assertTrue(value.__doc__, f"{name}.{member}")


if __name__ == "__main__":
    unittest.main()
