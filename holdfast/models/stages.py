"""Find the main stages of a network from the tree of its modules."""

from __future__ import annotations

from torch import nn

__all__ = ["find_stages"]

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
    layers = [name for name, part in module.named_modules() if any(True for _ in part.parameters(recurse=False))]
    stem_name = next((name for name in layers if is_leaf(module.get_submodule(name))), None)
    trunk = ""
    while True:
        parts = {
            name: sum(is_inside(layer, name) for layer in layers)
            for name in (join(trunk, child) for child, _ in module.get_submodule(trunk).named_children())
        }
        parts = {name: size for name, size in parts.items() if size > 1}
        if len(parts) > 1:  # a single part is a wrapper, with stem and head inside
            parts = {name: size for name, size in parts.items() if not holds(name, stem_name, head_name)}
        if not parts:
            return []
        largest = max(parts, key=lambda name: parts[name])
        if parts[largest] <= MAIN_SHARE * sum(parts.values()):
            return [(name, module.get_submodule(name)) for name in parts]
        trunk = largest


def is_leaf(part: nn.Module) -> bool:
    """Return whether a module has no children."""
    return next(part.children(), None) is None


def is_inside(name: str, part: str) -> bool:
    """Return whether a module is a part or inside it, by name."""
    return name == part or name.startswith(f"{part}.")


def holds(part: str, *names: str | None) -> bool:
    """Return whether one of these modules is inside a part."""
    return any(name is not None and is_inside(name, part) for name in names)


def join(parent: str, child: str) -> str:
    """Return the full name of a child; the network itself has an empty name."""
    return f"{parent}.{child}" if parent else child
