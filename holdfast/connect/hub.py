"""The Hugging Face Hub: push and load adapted models, cards of moments and recipes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from holdfast import __version__
from holdfast.anchor import Card
from holdfast.connect.config import FILES
from holdfast.connect.folder import Shared, read_folder, write_folder
from holdfast.machine.extras import extra
from holdfast.model.adapted import AdaptedModel


def push_to_hub(
    item: Shared,
    repo_id: str,
    *,
    network: str | None = None,
    weights: bool = False,
    results: str | Path | None = None,
    commit_message: str | None = None,
    private: bool | None = None,
    token: str | bool | None = None,
    branch: str | None = None,
    create_pr: bool | None = None,
) -> str:
    """Push an adapted model, a card or a recipe to a repository of the Hub, and return the address of the commit.

    The repository is created if there is none. Needs the extra `hf`.

    Args:
        item: an adapted model, a card, or a recipe.
        repo_id: name of the repository, such as "me/adapted".
        network: name of the source network, as `holdfast.models.load` takes it, so that others need not pass it.
        weights: whether to add the weights of the source network.
        results: folder of runs whose tables the model card shows.
        commit_message: of the commit.
        private: whether a new repository is private.
        token: of the Hub; by default the one that is logged in.
        branch: to push to.
        create_pr: whether to open a pull request instead.
    """
    api = _hub().HfApi(token=token, library_name="holdfast", library_version=__version__)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(item, folder, network=network, weights=weights, results=results, repo_id=repo_id)
        full_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        commit = api.upload_folder(
            repo_id=full_id,
            folder_path=folder,
            commit_message=commit_message or "Push with holdfast",
            revision=branch,
            create_pr=create_pr,
        )
    return str(commit.commit_url)


def from_hub(
    repo_id: str | Path,
    model: nn.Module | str | None = None,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    token: str | bool | None = None,
    force_download: bool = False,
    local_files_only: bool = False,
    trust_remote_code: bool = False,
    **building: Any,
) -> AdaptedModel | Card:
    """Load what `push_to_hub` pushed, from the Hub or from a local folder: a card, or an adapting model.

    A state is refused for a network with other weights. Repositories need the extra `hf`, local folders do not.

    Args:
        repo_id: name of the repository, or a local folder.
        model: the source network, needed unless the repository names it.
        revision: branch, tag or commit.
        cache_dir: folder for downloads.
        token: of the Hub.
        force_download: whether to download again what is cached.
        local_files_only: whether to use the cache alone.
        trust_remote_code: whether a named network may run Python code of its own.
        **building: arguments of `adapt`: `source` and `holdout` for recipes that need them, `card`, `example`, `head`,
            `output`.

    >>> import tempfile, holdfast
    >>> from holdfast.connect import write_folder
    >>> folder = tempfile.mkdtemp()
    >>> write_folder("rdumb", folder)
    >>> from_hub(folder, "digits_resnet").recipe["recovery"]
    'periodic'
    """
    folder = Path(repo_id)
    if not folder.is_dir():
        folder = _downloaded(
            str(repo_id),
            revision=revision,
            cache_dir=cache_dir,
            token=token,
            force_download=force_download,
            local_files_only=local_files_only,
        )
    return read_folder(folder, model, trust_remote_code=trust_remote_code, **building)


def _downloaded(repo_id: str, **options: Any) -> Path:
    hub = _hub()
    try:
        return Path(
            hub.snapshot_download(
                repo_id,
                allow_patterns=list(FILES),
                library_name="holdfast",
                library_version=__version__,
                **options,
            )
        )
    except hub.errors.LocalEntryNotFoundError as error:
        raise FileNotFoundError(
            f"{repo_id} is neither a folder nor in the cache, and the Hub was not reached; go online, or pass a folder"
        ) from error


def _hub() -> Any:
    return extra("hf", "huggingface_hub", "the Hub needs")
