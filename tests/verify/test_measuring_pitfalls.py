"""Each way to make a quantized model look worse, or better, than it is: fed in miniature, and shown to be caught.

One test a pitfall, named after it. In the first ones both sides have the same weights: all that is seen is the fault.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from chipwise.engine import Batch
from chipwise.errors import InputError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.queries import Query
from chipwise.model.tokenizer import SpecialTokens, Tokenizer
from chipwise.report.quality import Quality
from chipwise.verify.case import Case
from chipwise.verify.chat_client import ChatClient
from chipwise.verify.compare import compare
from chipwise.verify.cosine import ChannelCosine
from chipwise.verify.gate import judge
from chipwise.verify.generate import Answer, Prompt, generate
from chipwise.verify.run import verify
from chipwise.verify.score import score_texts
from chipwise.verify.scoring.requirement import Requirement
from chipwise.verify.semantic.locate import open_embedder
from chipwise.verify.thresholds import Thresholds
from tests.verify.chat_server import Reply, says, served
from tests.verify.fakes import EOS, Array, Fault, TinySession, prompts_of
from tests.verify.semantic import test_embedder
from tests.verify.words import word_tokenizer

PROMPTS = [Prompt(tokens, 8) for tokens in prompts_of(1, 9)]
CASES = [Case(str(i), Query(prompt=f"case {i}")) for i in range(9)]
THRESHOLDS = Thresholds().with_overrides({"certainty": 0})


def failed(quality: Quality) -> set[str]:
    return {verdict.metric for verdict in judge(quality, THRESHOLDS) if not verdict.passed}


def measured(candidate: TinySession, reference: TinySession | None = None) -> Quality:
    tokenizer = word_tokenizer()
    return verify(CASES, PROMPTS, tokenizer, candidate=candidate, reference=reference or TinySession())


def test_nothing_is_seen_where_nothing_is_wrong() -> None:
    quality = measured(TinySession())
    assert failed(quality) == set()
    assert quality.answer is not None
    assert quality.answer.kl_max_nats == 0


def assert_named(fault: Fault) -> None:
    """The same weights look damaged, and the self-check names the side that is at fault."""
    seen = failed(measured(TinySession(fault=fault)))
    assert seen & {"kl_mean_nats", "top1_agreement", "perplexity_ratio"}
    assert "self_check_candidate_nats" in seen
    assert "self_check_reference_nats" not in seen
    seen = failed(measured(TinySession(), TinySession(fault=fault)))
    assert "self_check_reference_nats" in seen
    assert "self_check_candidate_nats" not in seen


def test_left_padding() -> None:
    assert_named("left_padding")


def test_right_padding() -> None:
    assert_named("right_padding")


def test_position_ids_with_left_padding() -> None:
    assert_named("left_padding_positions")


def test_a_mask_added_twice() -> None:
    assert_named("mask_twice")


def test_nothing_is_padded_by_the_comparison_itself() -> None:
    session = TinySession()
    generate(session, PROMPTS[:3], eos_ids=[])
    read = [token for step in session.steps if step.rows == 1 for token in step.tokens[0]]
    assert read == [token for prompt in PROMPTS[:3] for token in prompt.tokens]


@pytest.mark.parametrize("inside", [True, False])
def test_padding_inside_mean_pooling(inside: bool, tmp_path: Path) -> None:
    # An encoder that takes its mean over all places, or lets its tokens see the padding.
    table = np.random.default_rng(1).normal(size=(len(test_embedder.WORDS), 5)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    if inside:
        nodes.append(helper.make_node("ReduceMean", ["rows"], ["sentence_embedding"], axes=[1], keepdims=0))
        output = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["b", 5])
    else:
        nodes.append(helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=1))
        nodes.append(helper.make_node("Add", ["rows", "mean"], ["last_hidden_state"]))
        output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", 5])
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])
    made = helper.make_graph(nodes, "g", [ids], [output], [numpy_helper.from_array(table, "table")])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(made, opset_imports=opset, ir_version=9), tmp_path / "model.onnx")
    test_embedder.tokenizer(tmp_path)
    with pytest.raises(InputError, match="it counts padding in"), open_embedder(tmp_path, threads=1):
        pass
    with open_embedder(test_embedder.graph(tmp_path), threads=1) as embedder:
        together = embedder.embed(["lamp", "turn on lamp off turn on lamp off"]).vectors[0]
        assert np.allclose(together, embedder.embed(["lamp"]).vectors[0], atol=1e-6)


def test_double_bos() -> None:
    words = word_tokenizer()
    bos = words.token_id("w5")
    assert bos is not None
    special = SpecialTokens(bos_id=bos, eos_ids=(EOS,), pad_id=None, add_bos=True)
    tokenizer = Tokenizer(words._fast, special)
    template = ChatTemplate("{{ bos_token }} {{ messages[0].content }}", bos_token="w5")
    prompt = Case("a", Query(prompt="w7 w8"), max_tokens=4).encode(tokenizer, template)
    assert prompt.tokens == (bos, 7, 8)
    # Without a template the tokenizer's habit puts it there, and once where the text has it already.
    assert Case("b", Query(prompt="w7 w8")).encode(tokenizer, None).tokens == (bos, 7, 8)
    assert Case("c", Query(prompt="w5 w7")).encode(tokenizer, None).tokens == (bos, 7)
    # And whatever the ids are, both sides read the same: neither tokenizes again.
    reference, candidate = TinySession(), TinySession()
    compare(reference, candidate, [prompt], eos_ids=[EOS])
    assert reference.steps[0].tokens == candidate.steps[0].tokens == ((bos, 7, 8),)


def test_sampling_defaults_that_differ_between_engines() -> None:
    # A server that draws, and punishes repetition, unless a request says otherwise.
    drawn = random.Random(0)

    def reply(body: dict[str, Any], number: int) -> Reply:
        greedy = body.get("temperature", 0.7) == 0 and body.get("top_p", 0.9) == 1
        free = body.get("presence_penalty", 1.1) == 0 and body.get("frequency_penalty", 0.5) == 0
        return says("on" if greedy and free else drawn.choice(["on", "off", "what"]))

    case = Case("a", Query(prompt="lamp"))
    with served(reply) as server:
        client = ChatClient(server.url)
        assert {client.answer(case) for _ in range(12)} == {"on"}
    # Sessions give logits, and the choice is made here, the same for both: of equals the first.
    tie = [0.0] * 41
    tie[7] = tie[9] = 1.0

    def spoil(logits: Array, batch: Batch) -> None:
        logits[:] = np.array(tie, np.float32)

    answers = [generate(TinySession(spoil=spoil, seed=seed), PROMPTS[:1], eos_ids=[]) for seed in (0, 1)]
    assert answers[0] == answers[1] == [Answer((7,) * 8)]


def test_pad_equal_to_eos() -> None:
    # The end token stands in a prompt, as of chats of several turns, and fills what an answer that has ended leaves.
    reference = TinySession()
    prompt = Prompt((5, EOS, 7, EOS, EOS), 6)
    free = generate(TinySession(), [Prompt(prompt.tokens, 6)], eos_ids=[])[0].tokens
    end = next((i for i, token in enumerate(free) if token == EOS), len(free) - 1)
    assert generate(reference, [prompt], eos_ids=[EOS])[0].tokens == free[: end + 1]

    # One answer ends at once; what the candidate says of its slot afterwards is noise, and counts for nothing.
    long, short = PROMPTS[0], Prompt(PROMPTS[1].tokens, 8)
    first = generate(TinySession(), [short], eos_ids=[])[0].tokens[0]

    def noise(logits: Array, batch: Batch) -> None:
        if batch.rows == 2 and batch.tokens[1, 0] == first and batch.past[1] == len(short.tokens):
            logits[1] = np.random.default_rng(0).normal(0, 9, logits[1].shape)

    spoiled = TinySession(spoil=noise, n_slots=2)
    found = compare(TinySession(n_slots=2), spoiled, [long, short], eos_ids=[first])
    assert found.cases[1].reference.tokens == (first,)
    assert len(found.cases[1].answer) == 1
    assert all(float(case.answer.kl_nats.max()) == 0 for case in found.cases)


def test_reference_and_candidate_run_the_same_tokens_through_the_same_shapes() -> None:
    reference, candidate = TinySession(n_slots=3, max_step_tokens=5), TinySession(n_slots=2, max_step_tokens=3)
    compare(reference, candidate, PROMPTS, eos_ids=[EOS])
    # Whatever each could do alone, and even where they answer differently.
    shapes = [{(step.rows, step.new_tokens) for step in session.steps} for session in (reference, candidate)]
    assert shapes[0] == shapes[1]
    assert max(rows for rows, _ in shapes[0]) == 2
    assert max(tokens for _, tokens in shapes[0]) == 3


def test_whole_tensor_cosine_hides_damage() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 1, (200, 32))
    reference[:, 0] *= 200
    candidate = reference.copy()
    candidate[:, 5] = rng.normal(0, 1, 200)
    total = ChannelCosine(32)
    total.add(reference, candidate)
    line = total.result("layers.0.output")
    assert line.whole > 0.9999
    assert line.min < 0.3
    assert line.worst_channel == 5


def test_equal_accuracy_hides_damage() -> None:
    # Half the answers broke and the other half were mended: the shares are equal to the last case.
    cases = [
        Case(str(i), Query(prompt="q"), requirement=Requirement(keywords=("on",)), dimension="keyword")
        for i in range(40)
    ]
    before = ["on" if i % 2 else "off" for i in range(40)]
    after = ["off" if i % 2 else "on" for i in range(40)]
    quality = score_texts(cases, after, reference=before)
    (row,) = quality.matrix
    assert row.reference == row.candidate == 20
    assert row.drop == 0
    assert (row.broke, row.fixed, quality.answers_changed) == (20, 20, 40)
    # The interval of paired cases leaves room for a loss that two equal shares would rule out.
    assert row.loss is not None
    assert row.loss[1] > 0.25


def test_equal_answers_hide_a_distribution_that_moved() -> None:
    # Sharper everywhere, the same choice everywhere: no answer changes, and the paired divergence sees it.
    def sharper(logits: Array, batch: Batch) -> None:
        logits *= 0.25

    quality = measured(TinySession(spoil=sharper))
    assert quality.answers_changed == 0
    assert quality.answer is not None
    assert quality.answer.top1_agreement == 1
    assert "kl_mean_nats" in failed(quality)
