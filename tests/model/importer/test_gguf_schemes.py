from __future__ import annotations

import gguf
import pytest

from chipwise.errors import ModelFormatError
from chipwise.model.importer.gguf_header import GgufTensor
from chipwise.model.importer.gguf_schemes import scheme_of
from chipwise.model.importer.gguf_tensors import SUPPORTED_TYPES


def tensor(kind: gguf.GGMLQuantizationType) -> GgufTensor:
    return GgufTensor("blk.0.ffn_up.weight", (4, 256), kind, 0, 0)


@pytest.mark.parametrize("kind", sorted(SUPPORTED_TYPES), ids=lambda kind: kind.name)
def test_every_type_that_is_read_has_a_scheme_of_its_size(kind: gguf.GGMLQuantizationType) -> None:
    scheme = scheme_of(tensor(kind))
    values, nbytes = gguf.GGML_QUANT_SIZES[kind]
    assert scheme.bits <= 8 * nbytes / values < scheme.bits + 2
    assert scheme.bits == int("".join(c for c in kind.name.partition("_")[0] if c.isdigit()))
    assert (scheme.group_size is None) == (scheme.bits >= 16)


def test_another_type_is_refused() -> None:
    with pytest.raises(ModelFormatError, match=r"blk\.0\.ffn_up\.weight is stored as IQ2_XS"):
        scheme_of(tensor(gguf.GGMLQuantizationType.IQ2_XS))
