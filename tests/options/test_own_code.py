"""Files of one's own: loaded once, replaced when they change, and run in any process that unpickles them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.methods import METHODS
from holdfast.options.own_code import WithOwnFiles, files_used, forget_file, loaded_files
from holdfast.recipes import resolve
from holdfast.registry import UnknownNameError

METHOD = """\
from holdfast.methods import METHODS, Method

@METHODS.register("NAME")
class Mine(Method):
    '''Do nothing.'''

    def loss(self, inputs, logits):
        return SIGN * logits.sum()
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for file in loaded_files():
        forget_file(file)


def written(folder: Path, name: str = "mine_first", sign: int = 1) -> Path:
    path = folder / f"{name}.py"
    path.write_text(METHOD.replace("NAME", name).replace("SIGN", str(sign)))
    return path


def test_a_changed_file_replaces_what_it_registered(tmp_path: Path) -> None:
    first = holdfast.import_file(written(tmp_path))
    before = METHODS["mine_first"]
    assert holdfast.import_file(written(tmp_path)) is not None
    assert METHODS["mine_first"] is before, "the same text was run twice"
    second = holdfast.import_file(written(tmp_path, sign=-1))
    assert METHODS["mine_first"] is not before
    assert first.digest != second.digest
    assert [file.digest for file in loaded_files() if file.name == "mine_first.py"] == [second.digest]


@pytest.mark.slow
def test_entries_are_those_of_the_file_alone(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, ''); from holdfast.options.own_code import import_file;"
    code += f"print(import_file({str(written(tmp_path))!r}).entries)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "('mine_first',)", "rooms that the file imports are not its own"


def test_a_file_that_fails_says_where_and_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + "\n1 / 0\n")
    with pytest.raises(ValueError, match=r"mine_first\.py cannot be loaded: line 10: ZeroDivisionError"):
        holdfast.import_file(path)
    assert "mine_first" not in METHODS
    path.write_text("def :")
    with pytest.raises(ValueError, match="line 1: SyntaxError"):
        holdfast.import_file(path)
    with pytest.raises(ValueError, match=r"there is no Python file .*none\.py"):
        holdfast.import_file(tmp_path / "none.py")


def test_an_unknown_name_says_how_to_load_ones_own() -> None:
    for ask in (lambda: resolve("margin_tent"), lambda: METHODS["margin_tent"]):
        with pytest.raises(UnknownNameError, match=r"--import FILE\.py"):
            ask()


def test_files_are_used_by_name_and_through_each_other(tmp_path: Path) -> None:
    first = holdfast.import_file(written(tmp_path, "mine_first"))
    second = written(tmp_path, "mine_second")
    second.write_text(second.read_text() + "\nBASE = 'mine_first'\n")
    second_file = holdfast.import_file(second)
    (tmp_path / "mine_nothing.py").write_text("EFFECT = 1\n")
    nothing = holdfast.import_file(tmp_path / "mine_nothing.py")
    assert set(files_used('{"name": "mine_first"}')) >= {first, nothing}
    assert second_file not in files_used('{"name": "mine_first"}')
    assert set(files_used('{"name": "mine_second"}')) >= {first, second_file}
    assert first not in files_used('{"name": "mine_firstborn"}')


@pytest.mark.slow
def test_a_file_is_run_by_the_process_that_unpickles_it(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(
        path.read_text() + "\n\ndef shout(text):\n    return text.upper() + METHODS['mine_first'].__name__\n"
    )
    holdfast.import_file(path)
    shout = sys.modules[METHODS["mine_first"].__module__].shout
    sent = pickle.dumps(WithOwnFiles(loaded_files(), shout))
    path.unlink()
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())('a '))"
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "A Mine"
