"""The examples of the guide and of the package run, and its types describe what there is."""

import ast
import contextlib
import doctest
import inspect
import io
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

import imbrex

PACKAGE = pathlib.Path(imbrex.__file__).parent


def root():
    """The project's root, of which the guide is a part."""
    return pathlib.Path(os.environ.get("IMBREX_ROOT", pathlib.Path(__file__).parents[3]))


class Pages(unittest.TestCase):
    def run_examples(self, text, name):
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            try:
                test = doctest.DocTestParser().get_doctest(text, {"imbrex": imbrex}, name, name, 0)
                self.assertGreater(len(test.examples), 0)
                failures = []
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
                runner.run(test, out=failures.append)
                self.assertEqual(runner.failures, 0, "".join(failures))
            finally:
                os.chdir(here)

    def test_the_package(self):
        self.run_examples(imbrex.__doc__, "imbrex")

    def test_the_guide(self):
        page = (root() / "docs/guide/python.md").read_text()
        blocks = re.findall(r"```pycon\n(.*?)```", page, re.S)
        self.run_examples("\n".join(blocks), "docs/guide/python.md")


class Notebook(unittest.TestCase):
    def test_its_cells_run(self):
        """With a hundredth of the work, and with nothing drawn, since the gate has no matplotlib."""
        path = root() / "crates/python/notebooks/layouts.ipynb"
        book = json.loads(path.read_text())
        self.assertLess(path.stat().st_size, 50_000)
        drawn = unittest.mock.MagicMock()
        drawn.pyplot.get_cmap.return_value.colors = range(10)

        def subplots(_rows=1, columns=1, **_):
            axes = [unittest.mock.MagicMock() for _ in range(columns)]
            return drawn.figure, axes if columns > 1 else axes[0]

        drawn.pyplot.subplots = subplots
        names = {}
        with unittest.mock.patch.dict(
            sys.modules, {"matplotlib": drawn, "matplotlib.pyplot": drawn.pyplot}
        ):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                for cell in book["cells"]:
                    if cell["cell_type"] == "code":
                        text = "".join(cell["source"])
                        for whole, part in [
                            ("200_000", "2_000"),
                            ("150_000", "1_500"),
                            (":2000", ":20"),
                            ("step=3000", "step=30"),
                        ]:
                            text = text.replace(whole, part)
                        exec(compile(text, path.name, "exec"), names)
        self.assertIn("none is missing in the middle: True", printed.getvalue())
        self.assertEqual(len(names["reports"]), 6)


class Stubs(unittest.TestCase):
    """What a checker of types would find, without one."""

    def setUp(self):
        tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.functions = {
            node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)
        }

    def test_every_public_name_has_a_type_and_a_text(self):
        for name in imbrex.__all__:
            thing = getattr(imbrex, name)
            self.assertTrue(inspect.getdoc(thing), name)
            if not name.endswith("Error"):
                self.assertIn(name, self.classes if inspect.isclass(thing) else self.functions)

    def test_classes_have_the_methods_of_their_stubs_and_no_others(self):
        for name, node in self.classes.items():
            cls = getattr(imbrex, name)
            if name in ("Layout", "ObjectStat"):
                continue
            typed = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            real = {key for key in vars(cls) if not key.startswith("_") or key in DUNDERS}
            self.assertEqual(typed, real, name)
            for key in typed:
                self.assertTrue(
                    key.startswith("__") or inspect.getdoc(vars(cls)[key]), f"{name}.{key}"
                )

    def test_arguments_have_the_names_of_their_stubs(self):
        for owner, nodes in [(imbrex, self.functions.values())] + [
            (getattr(imbrex, name), [n for n in node.body if isinstance(n, ast.FunctionDef)])
            for name, node in self.classes.items()
        ]:
            for node in nodes:
                if node.name.startswith("__") or node.decorator_list:
                    continue
                real = inspect.signature(getattr(owner, node.name)).parameters
                arguments = node.args
                typed = [
                    a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs
                ]
                typed += [a.arg for a in [arguments.vararg, arguments.kwarg] if a]
                self.assertEqual(typed, list(real), f"{owner.__name__}.{node.name}")


DUNDERS = {
    *"__iter__ __next__ __getitem__ __contains__ __reversed__ __setitem__ __delitem__ __len__ __bool__".split(),
    *"__enter__ __exit__".split(),
}


if __name__ == "__main__":
    unittest.main()
