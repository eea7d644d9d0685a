"""A tokenizer of one word a token, for the tiny session's vocabulary."""

from __future__ import annotations

from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers

from chipwise.model.tokenizer import SpecialTokens, Tokenizer
from tests.verify.fakes import EOS, VOCAB


def word_tokenizer(count: int = VOCAB) -> Tokenizer:
    words = {f"w{i}": i for i in range(count)}
    fast = FastTokenizer(models.WordLevel(words, unk_token="w0"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return Tokenizer(fast, SpecialTokens(bos_id=None, eos_ids=(EOS,), pad_id=EOS, add_bos=False))
