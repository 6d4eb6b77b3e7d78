"""Find the main stages of a network, and the blocks inside them, from the tree of its modules."""

from __future__ import annotations

from torch import nn

SEQUENCES = (nn.Sequential, nn.ModuleList)
MAIN_SHARE = 0.9  # a part with a larger share of the layers is the trunk, not one of its stages


def find_stages(module: nn.Module, head_name: str | None = None) -> list[tuple[str, nn.Module]]:
    """Return the consecutive parts between stem and head, by name: a documented heuristic.

    Only parts with several layers count. The part with the network's first layer is the stem, and the part with the
    head is not a stage. While a single part holds nearly all remaining layers, the search continues inside it: it finds
    layer1 to layer4 of a ResNet and the blocks of a transformer, inside any wrappers. A plain chain of layers has no
    stages, and the list is empty.

    >>> block = lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    >>> [name for name, _ in find_stages(nn.Sequential(nn.Linear(2, 2), block(), block(), nn.Linear(2, 2)), "3")]
    ['1', '2']
    """
    return [(name, module.get_submodule(name)) for name in _trunk_and_stages(module, head_name)[1]]


def find_blocks(module: nn.Module, head_name: str | None = None) -> list[tuple[str, nn.Module]]:
    """Return the repeated blocks of all stages, in order and by name: residual blocks, or the blocks of a transformer.

    A stage that is a sequence, or that contains a sequence of like parts with several layers each, is unrolled; any
    other stage is a block itself. A network whose only stage is one block has that block, and a plain chain of layers
    has none.

    >>> block = lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    >>> stages = [nn.Sequential(block(), block()), nn.Sequential(block())]
    >>> [name for name, _ in find_blocks(nn.Sequential(nn.Linear(2, 2), *stages, nn.Linear(2, 2)), "3")]
    ['1.0', '1.1', '2.0']
    """
    trunk, stages = _trunk_and_stages(module, head_name)
    if not stages:  # in parts with the stem or the head, or a single one
        inner = [name for name, part in module.named_modules() if name and _repeats(part)]
        candidates = [name for name in [*inner, trunk] if name and not holds(name, _stem_name(module), head_name)]
        stages = [
            name for name in candidates if not any(name != other and is_inside(name, other) for other in candidates)
        ]
    names = [name for stage in stages for name in _unrolled(stage, module.get_submodule(stage))]
    return [(name, module.get_submodule(name)) for name in names]


def _trunk_and_stages(module: nn.Module, head_name: str | None) -> tuple[str, list[str]]:
    """Return the names of the innermost part that holds all stages, and of the stages."""
    layers, stem_name, trunk = _layers(module), _stem_name(module), ""
    while True:
        parts = {
            name: sum(is_inside(layer, name) for layer in layers)
            for name in (join(trunk, child) for child, _ in module.get_submodule(trunk).named_children())
        }
        parts = {name: size for name, size in parts.items() if size > 1}
        if len(parts) > 1:  # a single part is a wrapper, with stem and head inside
            parts = {name: size for name, size in parts.items() if not holds(name, stem_name, head_name)}
        if not parts:
            return trunk, []
        largest = max(parts, key=lambda name: parts[name])
        if parts[largest] <= MAIN_SHARE * sum(parts.values()):
            return trunk, list(parts)
        trunk = largest


def _unrolled(name: str, part: nn.Module) -> list[str]:
    """Return the names of the blocks inside a stage."""
    inner = {join(name, child): own for child, own in part.named_children() if len(_layers(own)) > 1}
    if not isinstance(part, SEQUENCES):  # a stage of its own class keeps its blocks in one sequence, or is a block
        inner = {child: own for child, own in inner.items() if _repeats(own)}
    return [block for child, own in inner.items() for block in _unrolled(child, own)] or [name]


def _repeats(part: nn.Module) -> bool:
    """Return whether a part is a sequence of parts of one class with several layers each."""
    inner = list(part.children())
    alike = len({type(own) for own in inner}) == 1
    return isinstance(part, SEQUENCES) and alike and all(len(_layers(own)) > 1 for own in inner)


def _layers(module: nn.Module) -> list[str]:
    """Return the names of all parts that have parameters of their own."""
    return [name for name, part in module.named_modules() if any(True for _ in part.parameters(recurse=False))]


def _stem_name(module: nn.Module) -> str | None:
    return next((name for name in _layers(module) if not [*module.get_submodule(name).children()]), None)


def is_inside(name: str, part: str) -> bool:
    """Return whether a module is a part or inside it, by name."""
    return name == part or name.startswith(f"{part}.")


def holds(part: str, *names: str | None) -> bool:
    """Return whether one of these modules is inside a part."""
    return any(name is not None and is_inside(name, part) for name in names)


def join(parent: str, child: str) -> str:
    """Return the full name of a child; the network itself has an empty name."""
    return f"{parent}.{child}" if parent else child
