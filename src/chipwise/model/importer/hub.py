"""Models by their Hugging Face id."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.constants import HF_HUB_CACHE
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from chipwise.errors import InputError
from chipwise.files import full_disk, output_error

PREFIX = "hf:"

# What the importer reads: not the same weights again in other formats.
_WANTED = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.*",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "README.md",
]


def fetch_model(ref: str) -> tuple[Path, str]:
    """Download (or find in the cache) the model ``hf:org/name[@revision]``: its folder and its name.

    Raises:
        InputError: The hub is out of reach, has no such model or revision, or wants a login first.
        OutputError: The disk of the hub's cache is full.
    """
    repo, _, revision = ref.removeprefix(PREFIX).partition("@")
    try:
        folder = snapshot_download(repo, revision=revision or None, allow_patterns=_WANTED)
    except HFValidationError as e:
        raise InputError("not a model id", where=ref, remedy="write hf:org/name or hf:org/name@revision") from e
    except GatedRepoError as e:
        raise InputError(
            "the model asks for an agreement first",
            where=ref,
            remedy="accept its terms on its page, then log in with `hf auth login`",
        ) from e
    except RevisionNotFoundError as e:
        raise InputError(f"the model has no revision {revision!r}", where=ref, remedy="leave the revision out") from e
    except RepositoryNotFoundError as e:
        raise InputError(
            "no such model, or it is private",
            where=ref,
            remedy="check the id; for a private model log in with `hf auth login`",
        ) from e
    except LocalEntryNotFoundError as e:
        raise _unreachable(ref, "the hub cannot be reached, and the model is not in the cache") from e
    except Exception as e:  # the hub's client lets out whatever its HTTP library raises
        full = full_disk(e)
        if full is not None:
            raise output_error(full, Path(HF_HUB_CACHE)) from e
        raise _unreachable(ref, f"the download failed ({e})") from e
    return Path(folder), repo.rpartition("/")[2]


def _unreachable(ref: str, what: str) -> InputError:
    return InputError(what, where=ref, remedy="check the network, or download the folder elsewhere and give its path")
