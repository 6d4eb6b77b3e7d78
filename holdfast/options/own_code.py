"""Your own Python files: loaded by path, recorded by digest, and sent along to other processes."""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.registry import REGISTRIES

PREFIX = "holdfast_own_"  # of the names of their modules, so that they cannot hide a package


@dataclass(frozen=True)
class OwnFile:
    """One of your Python files that was loaded; unpickling it in another process loads it there."""

    name: str  # without its folder
    text: str

    @property
    def digest(self) -> str:
        """Hex digest of the text."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    @property
    def module(self) -> str:
        """The name of its module, by which its classes and functions are pickled."""
        return PREFIX + re.sub(r"\W", "_", self.name.removesuffix(".py"))

    @property
    def entries(self) -> tuple[str, ...]:
        """The names that it has registered, in all registries."""
        return tuple(name for registry in REGISTRIES for name in registry.owned_by(self.module))

    @property
    def is_loaded(self) -> bool:
        """Whether this process has run it."""
        return _LOADED.get(self.module) == self

    def load(self) -> OwnFile:
        """Run it, unless that was done before, and return it."""
        return _load(self.name, self.text)

    def __reduce__(self) -> tuple[Callable[[str, str], OwnFile], tuple[str, str]]:
        return _load, (self.name, self.text)


_LOADED: dict[str, OwnFile] = {}  # by the name of the module, in order


def import_file(path: str | Path) -> OwnFile:
    """Run a Python file that registers methods, estimators, streams or anything else with a registry.

    The same as `--import FILE.py` on the command line. The file may import installed packages, but not files beside it,
    because it is sent alone to other processes and machines. A file that has changed replaces what it registered.

    Args:
        path: of the Python file.

    >>> import tempfile
    >>> from holdfast.methods import METHODS
    >>> text = "from holdfast.methods import METHODS, Method\\n@METHODS.register('mine')\\nclass Mine(Method): ..."
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "my_method.py").write_text(text)
    ...     file = import_file(Path(folder, "my_method.py"))
    >>> file.entries, METHODS["mine"].__name__
    (('mine',), 'Mine')
    >>> forget_file(file)
    """
    file = read_file(path)
    return _load(file.name, file.text, str(Path(path).expanduser().resolve()))


def read_file(path: str | Path) -> OwnFile:
    """Return a Python file without running it."""
    source = Path(path).expanduser()
    if source.suffix != ".py" or not source.is_file():
        raise ValueError(f"there is no Python file {source}; pass the path of a file that ends in .py")
    return OwnFile(source.name, source.read_text())


def loaded_files() -> tuple[OwnFile, ...]:
    """Return all of your files that this process has loaded, in order."""
    return tuple(_LOADED.values())


def load_files(files: Iterable[OwnFile]) -> None:
    """Run files that another process has loaded: `ProcessPoolExecutor(…, load_files, (loaded_files(),))`."""
    for file in files:
        file.load()


@dataclass(frozen=True)
class WithOwnFiles:
    """A function that can be sent to other processes although it refers to your own files: they are sent before it.

    >>> WithOwnFiles(loaded_files(), abs)(-1)
    1
    """

    files: tuple[OwnFile, ...]  # unpickled first
    work: Callable[[Any], Any]

    def __call__(self, item: Any) -> Any:
        """Work on an item."""
        return self.work(item)


def files_used(text: str, also: Iterable[str] = ()) -> tuple[OwnFile, ...]:
    """Return the loaded files that a text, such as a job as JSON, depends on by a name that they registered.

    A file that such a file names counts too, and so does a file that registered nothing, since its effect is unknown.
    """
    texts, left, used = [text, *also], list(loaded_files()), set[OwnFile]()
    while newly_named := [
        file for file in left if not file.entries or any(_names(file.entries, each) for each in texts)
    ]:
        used |= {*newly_named}
        texts += [file.text for file in newly_named]
        left = [file for file in left if file not in used]
    return tuple(sorted(used, key=lambda file: file.name))


def _names(names: Sequence[str], text: str) -> bool:
    """Return whether one of the names stands in a text, as a word of its own.

    >>> _names(["mine"], '{"name": "mine"}'), _names(["mine"], '{"name": "mine_too"}')
    (True, False)
    """
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)


def _load(name: str, text: str, path: str = "") -> OwnFile:
    file = OwnFile(name, text)
    if file.is_loaded:
        return file
    forget_file(file)
    module, shown = ModuleType(file.module, f"Your own file {name}."), path or name
    vars(module)["__file__"] = shown
    # So that tracebacks show its lines, and pickle finds its classes.
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    sys.modules[file.module] = module
    try:
        exec(compile(text, shown, "exec"), vars(module))
    except Exception as error:
        forget_file(file)
        at = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == shown]
        line = error.lineno if isinstance(error, SyntaxError) else at[-1] if at else "?"
        raise ValueError(f"{shown} cannot be loaded: line {line}: {type(error).__name__}: {error}") from error
    _LOADED[file.module] = file
    return file


def forget_file(file: OwnFile) -> None:
    """Take back what a file of this name has registered."""
    for registry in REGISTRIES:
        for entry in registry.owned_by(file.module):
            registry.discard(entry)
    _LOADED.pop(file.module, None)
    sys.modules.pop(file.module, None)
