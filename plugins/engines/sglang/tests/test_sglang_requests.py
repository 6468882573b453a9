"""SGLang's words and ours: requests, answers, options, calls."""

from __future__ import annotations

import argparse
import subprocess
import sys
from types import SimpleNamespace

import attrs
import pytest
import torch

from core_rl.errors import PromptTooLongError, UserError
from core_rl.hf.spec import ModelSpec
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams, ScoreRequest
from core_rl.serving.replica import ServerLostError
from core_rl.weights.segment import Segment
from core_rl_sglang import _calls, _worker
from core_rl_sglang._sampling import body, completion, request_ids, scores
from core_rl_sglang.arguments import as_flags, server_arguments
from core_rl_sglang.config import SglangConfig
from core_rl_sglang.extension import HOOKS

FACTS = {"end_ids": (2, 9), "context_length": 32}


def request(n=2, **params) -> GenerateRequest:
    return GenerateRequest(id="one", prompt_ids=[3, 4, 5], params=SamplingParams(**params), n=n, seed=7)


def test_every_sampling_option_is_sent():
    """A request for each sample, each with its own seed."""
    options = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_new_tokens": 2, "frequency_penalty": 0.5}
    sent = body(request(**options, max_new_tokens=10, stop=("x",), stop_token_ids=(9, 6)), **FACTS)
    first, second = sent["sampling_params"]

    assert (sent["rid"], sent["input_ids"], sent["return_logprob"]) == (["one/0.", "one/1."], [[3, 4, 5]] * 2, True)
    assert first.pop("sampling_seed") != second["sampling_seed"]
    assert first == {
        **options,
        "max_new_tokens": 10,
        "stop_token_ids": [2, 9, 6],
        "ignore_eos": False,
        "no_stop_trim": True,
        "stop": ["x"],
    }


def test_seeds_of_samples_differ():
    """Also those of neighbouring requests; all are what SGLang takes."""
    sent = [body(attrs.evolve(request(n=50), seed=one), **FACTS)["sampling_params"] for one in range(50)]
    seeds = {params["sampling_seed"] for samples in sent for params in samples}

    assert len(seeds) == 2500
    assert all(0 <= one < 2**63 for one in seeds)


def test_no_request_begins_with_another():
    """SGLang takes back every request whose id begins with what it is told."""
    ids = [one for name in ("a", "a#1", "a1") for one in request_ids(name, 12)]

    assert [(a, b) for a in ids for b in ids if a != b and b.startswith(a)] == []


@pytest.mark.parametrize("count", [0, 32])
def test_a_prompt_without_room_is_refused(count):
    """Before anything is sent."""
    with pytest.raises(PromptTooLongError, match="prompt long"):
        body(GenerateRequest(id="long", prompt_ids=[3] * count, params=SamplingParams()), **FACTS)


ANSWER = {
    "meta_info": {
        "finish_reason": {"type": "abort"},
        "output_token_logprobs": [[-0.1, 5, None], [-0.2, 6, None], [-0.3, 7, None]],
        "weight_versions": [{"version": "default", "start": 0, "end": 1}, {"version": "12", "start": 1, "end": 3}],
    }
}


def test_an_answer_in_our_words():
    """Versions are numbers; the weights of the start have 0."""
    found = completion(request(), ANSWER)

    assert (found.tokens, found.logprobs, found.finish_reason) == ([5, 6, 7], [-0.1, -0.2, -0.3], "abort")
    assert [(span.version, span.start, span.end) for span in found.versions] == [(0, 0, 1), (12, 1, 3)]


def test_nothing_was_left_to_chance():
    """With one token to draw from, its log-probability is 0; greedy sampling has the model's."""
    assert completion(request(top_k=1), ANSWER).logprobs == [0.0, 0.0, 0.0]
    assert completion(request(top_k=1, temperature=0.0), ANSWER).logprobs == [-0.1, -0.2, -0.3]


def test_a_request_that_was_taken_back_before_it_began():
    """No tokens, no versions."""
    about = {"finish_reason": {"type": "abort"}, "weight_versions": [{"version": "1", "start": 0, "end": 0}]}
    found = completion(request(), {"meta_info": about})

    assert (list(found.tokens), list(found.logprobs), list(found.versions)) == ([], [], [])


def test_an_end_that_is_none():
    """Of a server that is broken."""
    with pytest.raises(ServerLostError, match="nan"):
        completion(request(), {"meta_info": {"finish_reason": {"type": "nan"}}})


def test_scores_of_given_tokens():
    """The likeliest ones best first; an answer about other tokens is none."""
    rows = [[None, 3, None], [-2.0, 4, None]]
    best = [None, [[-1.0, 9, None], [-0.5, 8, None]]]
    answer = {"meta_info": {"input_token_logprobs": rows, "input_top_logprobs": best}}
    found = scores(ScoreRequest(id="s", tokens=[3, 4], top_k=2), answer)

    assert (list(found.logprobs), list(found.topk_ids), list(found.topk_logprobs)) == (
        [0.0, -2.0],
        [[], [8, 9]],
        [[], [-0.5, -1.0]],
    )
    with pytest.raises(ServerLostError, match="about 2 tokens, and was asked about 3"):
        scores(ScoreRequest(id="s", tokens=[3, 4, 5]), answer)


def parser():
    made = argparse.ArgumentParser()
    made.add_argument("--tensor-parallel-size", "--tp-size", dest="tp_size", type=int)
    made.add_argument("--disable-cuda-graph", action="store_true")
    made.add_argument("--radix", action=argparse.BooleanOptionalAction)
    made.add_argument("--lora-paths", nargs="*")
    made.add_argument("--json")
    return made


def test_options_are_sglangs_own():
    """By the names of its flags, or of its fields."""
    given = {"tensor_parallel_size": 2, "disable_cuda_graph": True, "radix": False, "lora_paths": ["a", "b"], "json": {"x": 1}}
    flags = as_flags(given, parser(), "0.5.23")

    assert flags == [
        "--tensor-parallel-size",
        "2",
        "--disable-cuda-graph",
        "--no-radix",
        "--lora-paths",
        "a",
        "b",
        "--json",
        '{"x": 1}',
    ]
    assert as_flags({"tp_size": None, "disable_cuda_graph": False}, parser(), "0.5.23") == []


def test_options_that_it_does_not_have():
    """Names, and values where only true or false are."""
    with pytest.raises(UserError, match=r"rollout_engine.args.tp_siz: SGLang 0.5.23 has no such option; did you mean tp_size"):
        as_flags({"tp_siz": 2}, parser(), "0.5.23")
    with pytest.raises(UserError, match=r"rollout_engine\.args\.disable_cuda_graph: expected true or false, found 3"):
        as_flags({"disable_cuda_graph": 3}, parser(), "0.5.23")


@pytest.mark.parametrize("name", ["port", "model-path", "api_key"])
def test_what_core_rl_sets_is_refused(name):
    """It is said elsewhere in the run file."""
    with pytest.raises(UserError, match=f"rollout_engine.args.{name}"):
        server_arguments(SglangConfig(args={name: 1}), RolloutContext(model=ModelSpec(path="x"), seed=1), "x", 32)


def test_arguments_follow_the_run_file():
    """Precision, seed and room; the user's own come last."""
    context = RolloutContext(model=ModelSpec(path="x", dtype="bfloat16"), seed=2**40 + 4)
    found = server_arguments(SglangConfig(args={"tp-size": 2, "random_seed": 5}), context, "folder", 32)

    assert (found["model_path"], found["dtype"], found["random_seed"], found["tp_size"]) == ("folder", "bfloat16", 5, 2)
    assert found["context_length"] == 34


def test_a_fingerprint_comes_through_as_numbers():
    """What SGLang carries is a list of them."""
    answer = {"fingerprint": {"a.weight": 1.25, "b": float("nan")}, "differing": None}
    numbers = _calls.packed(answer)

    assert all(isinstance(number, float) for number in numbers)
    assert str(_calls.unpacked(numbers)) == str(answer)
    for nothing in ([1.0, 2.0], None, "x"):
        with pytest.raises(ValueError, match=r"not an answer of core-rl's extension|int"):
            _calls.unpacked(nothing)


class Model:
    def __init__(self):
        self.loaded = {}

    def load_weights(self, weights):
        for name, tensor in weights:
            if name not in ("a", "b"):
                raise KeyError(name)
            self.loaded[name] = tensor.clone()


def test_a_worker_loads_what_lies_in_memory(monkeypatch):
    """And says its fingerprint, or what went wrong; other calls are SGLang's."""
    monkeypatch.setattr(_worker, "WEIGHTS", _worker.Weights())
    monkeypatch.setattr(_worker, "_differing", lambda ours: None)
    model, segment = Model(), Segment()
    worker = SimpleNamespace(model_runner=SimpleNamespace(model=model))
    updater = SimpleNamespace(get_model=lambda: model)

    def ask(method):
        return _calls.unpacked(_worker.answer(None, worker, SimpleNamespace(name=_calls.question(method)["name"])))

    def load(method, tensors):
        text = _calls.loading(method, segment.write(tensors), workers=1)["load_format"]
        return _worker.load(None, updater, [], text)

    try:
        ask("begin")
        assert load("memory", [("a", torch.ones(3)), ("b", torch.zeros(2, 2))]) == (True, "Success")
        assert set(ask("fingerprint")["fingerprint"]) == {"a", "b"}
        assert model.loaded["a"].tolist() == [1.0, 1.0, 1.0]
        assert load("memory", [("c", torch.ones(1))]) == (False, "KeyError: 'c'")
        ask("begin")
        assert ask("fingerprint")["fingerprint"] == {}
        assert load("changes", [("a|values", torch.ones(3))])[0] is False
    finally:
        segment.close()
    assert _worker.load(lambda *all: all, updater, "tensors", None) == (updater, "tensors", None)
    assert _worker.answer(lambda *all: "theirs", worker, SimpleNamespace(name="a")) == "theirs"


def test_listing_is_light():
    """The plugin and its options import neither sglang nor torch."""
    code = "import sys, core_rl_sglang.plugin, core_rl_sglang.config, core_rl_sglang.arguments; print({'torch', 'sglang', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_a_server_that_has_nothing_to_do_with_core_rl(monkeypatch):
    """SGLang loads the extension wherever it is installed: there it does nothing."""
    from core_rl_sglang.extension import SWITCH, register

    monkeypatch.delenv(SWITCH, raising=False)
    register()
    assert "sglang" not in sys.modules
    assert len(HOOKS) == 5
