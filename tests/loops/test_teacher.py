"""What a teacher adds to a batch, from whichever engine, and the teachers that are refused."""

from __future__ import annotations

import asyncio

import pytest
import torch

from core_rl.config.algorithm import KlConfig
from core_rl.config.teacher import TeacherTokens
from core_rl.errors import ModelError, RunError
from core_rl.hf.spec import ModelSpec
from core_rl.loops.teacher import Teacher, shared_vocabulary
from core_rl.loops.teacher_scorers import InRolloutEngine, InTrainEngine
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.roles.rollout import Scores
from core_rl.testing.batches import random_batch
from core_rl.testing.invariance import gradient
from core_rl_grpo.config import PpoClipConfig
from core_rl_grpo.ppo_clip import PpoClip

VOCABULARY = 50


class Bigrams:
    """As much of a train engine as a teacher needs: log-probabilities of the next token by the token before."""

    def __init__(self, seed):
        random = torch.Generator().manual_seed(seed)
        self.table = torch.randn(VOCABULARY, VOCABULARY, generator=random).log_softmax(-1)
        self.calls = []

    def setup(self):
        self.calls.append("setup")

    def close(self):
        self.calls.append("close")

    def rows(self, batch):
        return self.table[batch.tokens.roll(1)]

    def forward(self, batch, outputs=("logprobs",), *, weights="current", top_k=None):
        assert weights == "current"
        self.calls.append(("forward", tuple(outputs), top_k))
        rows, mask = self.rows(batch), batch.loss_mask
        found = {"logprobs": rows.gather(1, batch.tokens[:, None])[:, 0].where(mask, 0.0)} if outputs else {}
        if top_k is not None:
            best = rows.topk(top_k)
            found |= {"topk_ids": best.indices.where(mask[:, None], 0), "topk_logprobs": best.values.where(mask[:, None], 0.0)}
        if "gather_ids" in batch:
            found["gathered_logprobs"] = rows.gather(1, batch["gather_ids"]).where(mask[:, None], 0.0)
        return found


def annotated(tokens, *, vocabulary=VOCABULARY):
    """A batch, the two models, and the batch that the teacher gives back."""
    batch, student, model = random_batch(3), Bigrams(1), Bigrams(2)
    teacher = Teacher(scorer=InTrainEngine(engine=model), tokens=tokens, vocabulary=vocabulary)
    return batch, student, model, asyncio.run(teacher.annotate(batch, student))


def test_the_sampled_tokens_are_enough_where_no_loss_asks_for_more():
    """One forward pass of the teacher and none of the student."""
    batch, student, model, found = annotated(None)
    mask = batch.loss_mask
    expected = torch.stack([model.table[a, b] for a, b in zip(batch.tokens.roll(1), batch.tokens, strict=True)])

    assert torch.equal(found["teacher_logprobs"][mask], expected[mask])
    assert (student.calls, model.calls) == ([], [("forward", ("logprobs",), None)])
    assert "gather_ids" not in found


@pytest.mark.parametrize("ids_from", ["teacher", "student"])
def test_the_likeliest_tokens_of_either(ids_from):
    """The ids are best first by whoever names them, and the log-probabilities are the teacher's."""
    batch, student, model, found = annotated(TeacherTokens(top_k=4, ids_from=ids_from))
    mask, owner = batch.loss_mask, model if ids_from == "teacher" else student
    ids = owner.rows(batch)[mask].argsort(descending=True)[:, :4]

    assert torch.equal(found["gather_ids"][mask], ids)
    assert torch.equal(found["teacher_gathered"][mask], model.rows(batch)[mask].gather(1, ids))
    assert len(model.calls) == 1
    assert len(student.calls) == (ids_from == "student")


def test_the_whole_vocabulary_is_every_shared_id():
    """In order; an id that only one table has is left out."""
    batch, _, model, found = annotated(TeacherTokens(top_k=None), vocabulary=48)

    assert found["gather_ids"].shape == (batch.num_tokens, 48)
    assert torch.equal(found["teacher_gathered"][batch.loss_mask], model.rows(batch)[batch.loss_mask][:, :48])


def test_the_ids_travel_with_their_tokens():
    """Micro-batches cut the batch between sequences; the ids of a token stay its own."""
    batch, _, _, found = annotated(TeacherTokens(top_k=4))
    part = found.select([2, 0])

    assert torch.equal(part["gather_ids"], found["gather_ids"][batch.token_indices([2, 0])])


def test_an_id_that_the_student_lacks_is_an_error():
    """A row of padding in the teacher's larger table."""
    with pytest.raises(RunError, match="share 10 ids: take a smaller top_k"):
        annotated(TeacherTokens(top_k=4), vocabulary=10)


def test_setup_and_close_reach_the_engine():
    """In a train engine nothing else has to be started."""
    model = Bigrams(1)
    teacher = Teacher(scorer=InTrainEngine(engine=model), tokens=None, vocabulary=VOCABULARY)
    teacher.setup()
    asyncio.run(teacher.start())
    asyncio.run(teacher.stop())
    teacher.close()

    assert model.calls == ["setup", "close"]


class Sampler:
    """As much of a rollout engine as a teacher needs, on the same table."""

    def __init__(self, model):
        self.model = model
        self.requests = []

    async def start(self):
        self.requests.append("start")

    async def close(self):
        self.requests.append("close")

    async def score(self, request):
        self.requests.append(request)
        rows = self.model.table[torch.tensor(request.tokens[:-1])]
        best = rows.topk(request.top_k)
        return Scores(
            logprobs=[0.0, *rows.gather(1, torch.tensor(request.tokens[1:])[:, None])[:, 0].tolist()],
            topk_ids=[[], *best.indices.tolist()],
            topk_logprobs=[[], *best.values.tolist()],
        )


@pytest.mark.parametrize("tokens", [None, TeacherTokens(top_k=4)])
def test_a_rollout_engine_says_the_same(tokens):
    """Request by request, in the tokens' own places, and nothing of a sequence that is wholly masked."""
    batch, _, model, expected = annotated(tokens)
    sampler = Sampler(model)
    teacher = Teacher(scorer=InRolloutEngine(engine=sampler, temperature=0.5), tokens=tokens, vocabulary=VOCABULARY)
    found = asyncio.run(teacher.annotate(batch, Bigrams(1)))
    scored = batch.sequence_ids[batch.loss_mask].unique()

    for name in ("teacher_logprobs", *(("gather_ids", "teacher_gathered") if tokens else ())):
        assert torch.allclose(found[name], expected[name]), name
    assert [request.tokens for request in sampler.requests] == [batch.select([s]).tokens.tolist() for s in scored.tolist()]
    assert len(scored) < batch.num_sequences
    assert {request.temperature for request in sampler.requests} == {0.5}


def test_a_rollout_engine_is_started_and_closed_in_the_loop():
    """Where its tasks live."""
    sampler = Sampler(Bigrams(1))
    teacher = Teacher(scorer=InRolloutEngine(engine=sampler, temperature=1.0), tokens=None, vocabulary=VOCABULARY)
    teacher.setup()
    asyncio.run(teacher.start())
    asyncio.run(teacher.stop())
    teacher.close()

    assert sampler.requests == ["start", "close"]


def spec(characters, **config):
    return ModelSpec(init="random", tokenizer=f"characters:{characters}", config={"model_type": "llama", **config})


def test_tables_of_different_length_share_the_shorter_part():
    """The tokens are the same; one model pads its table."""
    assert shared_vocabulary(spec("01"), spec("01", vocab_size=64)) == 5


@pytest.mark.parametrize(
    ("theirs", "message"),
    [("10", "'0' is 3 for the policy and 4 there"), ("0", "'1' is 4 for the policy and no token there")],
)
def test_a_teacher_of_other_tokens_is_refused(theirs, message):
    """In one line that names the first token they differ in."""
    with pytest.raises(ModelError, match=message) as caught:
        shared_vocabulary(spec("01"), spec(theirs))

    assert "\n" not in str(caught.value)


def test_a_teacher_that_is_not_there_is_told_by_its_own_key():
    """Not by the policy's."""
    with pytest.raises(ModelError, match=r"^algorithm\.teacher\.model\.path: runs/no/model does not exist"):
        shared_vocabulary(spec("01"), ModelSpec(path="runs/no/model"))


def test_a_teacher_may_know_more_tokens():
    """As long as the policy's mean the same there."""
    assert shared_vocabulary(spec("01"), spec("012")) == 5


def test_every_objective_reports_the_distance_to_the_teacher():
    """The mean of log pi - log teacher over the tokens of a step."""
    batch = random_batch(3)
    found = gradient(PolicyObjective(PpoClip(PpoClipConfig()), kl=KlConfig()), Aggregator("token-mean"), batch)
    expected = (batch["logprobs"] - batch["teacher_logprobs"])[batch.loss_mask].mean()

    assert found.metrics["kl/teacher"] == pytest.approx(float(expected), rel=1e-5)
