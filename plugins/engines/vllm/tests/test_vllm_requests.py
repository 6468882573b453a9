"""vLLM's words and ours: requests, answers, options. Against a small server with vLLM's routes; vLLM itself is in the conformance suite."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from aiohttp import web

from core_rl.errors import PluginError, PromptTooLongError, UserError
from core_rl.hf.spec import ModelSpec
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams, ScoreRequest
from core_rl.serving.answers import version_number
from core_rl.serving.options import check_names
from core_rl.serving.replica import ServerLostError
from core_rl_vllm._inline import VllmInline
from core_rl_vllm._sampling import completion, sampling_params, scores
from core_rl_vllm._server import VllmServer
from core_rl_vllm.arguments import as_flags, engine_arguments
from core_rl_vllm.config import VllmConfig

FACTS = {"end_ids": (2, 9), "context_length": 32}


def request(**params) -> GenerateRequest:
    return GenerateRequest(id="one", prompt_ids=[3, 4, 5], params=SamplingParams(**params), n=2, seed=7)


def test_every_sampling_option_is_sent():
    """By vLLM's names; the ids that end a sequence are all named, so that none is taken from elsewhere."""
    sent = sampling_params(
        request(
            temperature=0.7,
            top_p=0.9,
            top_k=5,
            max_new_tokens=10,
            min_new_tokens=2,
            stop=("x",),
            stop_token_ids=(9, 6),
            frequency_penalty=0.5,
        ),
        **FACTS,
    )

    assert sent == {
        "n": 2,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 5,
        "max_tokens": 10,
        "min_tokens": 2,
        "stop_token_ids": [2, 9, 6],
        "ignore_eos": True,
        "frequency_penalty": 0.5,
        "logprobs": 0,
        "seed": 7,
        "stop": ["x"],
    }


def test_the_context_ends_a_completion():
    """No more tokens are asked for than there is room, nor a least number above that."""
    sent = sampling_params(request(max_new_tokens=100, min_new_tokens=50, ignore_eos=True), **FACTS)

    assert (sent["max_tokens"], sent["min_tokens"], sent["stop_token_ids"], sent["top_k"]) == (29, 29, [], 0)


@pytest.mark.parametrize("count", [0, 32, 40])
def test_a_prompt_without_room_is_refused(count):
    """Before anything is sent."""
    too_long = GenerateRequest(id="long", prompt_ids=[3] * count, params=SamplingParams())
    with pytest.raises(PromptTooLongError, match="prompt long"):
        sampling_params(too_long, **FACTS)


def test_an_answer_in_our_words():
    """Versions are numbers; the weights of the start have 0."""
    choice = {
        "token_ids": [5, 6, 7],
        "logprobs": [-0.1, -0.2, -0.3],
        "finish_reason": "abort",
        "weight_versions": [{"version": "default", "start": 0, "end": 1}, {"version": "12", "start": 1, "end": 3}],
    }
    found = completion(choice)

    assert (found.tokens, found.logprobs, found.finish_reason) == ([5, 6, 7], [-0.1, -0.2, -0.3], "abort")
    assert [(span.version, span.start, span.end) for span in found.versions] == [(0, 0, 1), (12, 1, 3)]
    with pytest.raises(ServerLostError, match="repetition"):
        completion({**choice, "finish_reason": "repetition"})


def test_labels_of_others_are_no_versions():
    """A server that someone else has given weights to."""
    assert [version_number(label) for label in ("default", "7", "step-7", "")] == [None, 7, None, None]


def test_scores_of_given_tokens():
    """vLLM says the k likeliest and the given one; the given one may be beside them."""
    rows = [None, {"4": {"logprob": -2.0}, "8": {"logprob": -0.5}, "9": {"logprob": -1.0}}]
    found = scores(ScoreRequest(id="s", tokens=[3, 4], top_k=2), rows)

    assert list(found.logprobs) == [0.0, -2.0]
    assert [list(ids) for ids in found.topk_ids] == [[], [8, 9]]
    assert [list(values) for values in found.topk_logprobs] == [[], [-0.5, -1.0]]


def test_options_are_vllms_own():
    """As its command line has them."""
    arguments = {
        "max_model_len": 64,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "lora_modules": ["a=/x", "b=/y"],
        "compilation_config": {"level": 0},
        "revision": None,
    }

    assert as_flags(arguments) == [
        *("--max-model-len", "64", "--enforce-eager", "--no-enable-prefix-caching"),
        *("--lora-modules", "a=/x", "b=/y", "--compilation-config", '{"level": 0}'),
    ]


def test_an_option_that_the_version_lacks():
    """The nearest name helps."""
    with pytest.raises(
        UserError, match=r"rollout_engine.args.max_model_length: vLLM 0.32.0 has no such option; did you mean max_model_len"
    ):
        check_names(["max_model_length"], {"max_model_len", "seed"}, "vLLM 0.32.0")


@pytest.mark.parametrize("name", ["port", "served-model-name", "logprobs_mode"])
def test_what_core_rl_sets_is_refused(name):
    """It is said elsewhere in the run file, or must be as it is."""
    context = RolloutContext(model=ModelSpec(path="x"), seed=1)
    with pytest.raises(UserError, match=f"rollout_engine.args.{name}"):
        engine_arguments(VllmConfig(args={name: 1}), context, "x")


def test_arguments_follow_the_run_file():
    """Precision, seed and longest sequence; the user's own come last."""
    context = RolloutContext(model=ModelSpec(path="x", dtype="bfloat16", max_length=99), seed=4)
    found = engine_arguments(VllmConfig(args={"tensor-parallel-size": 2, "seed": 5}, lora_adapter="/a"), context, "folder")

    assert (found["model"], found["dtype"], found["seed"], found["max_model_len"]) == ("folder", "bfloat16", 5, 99)
    assert (found["tensor_parallel_size"], found["enable_lora"], found["logprobs_mode"]) == (2, True, "processed_logprobs")


def answering(routes, work):
    """The result of `work(replica)` beside a server with these routes: (method, path) -> what it answers, or a function of the body."""

    async def main():
        application = web.Application()
        for (method, path), answer in routes.items():

            async def handle(asked, answer=answer):
                found = answer(await asked.json()) if callable(answer) else answer
                return found if isinstance(found, web.Response) else web.json_response(found)

            application.router.add_route(method, path, handle)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        replica = VllmServer(VllmConfig(), url=f"http://127.0.0.1:{port}", arguments={})
        replica.prepare(**FACTS)
        try:
            return await work(replica)
        finally:
            await replica.close()
            await runner.cleanup()

    return asyncio.run(main())


CHOICE = {
    "index": 0,
    "token_ids": [5],
    "logprobs": {"content": [{"token_id": 5, "logprob": -0.25}]},
    "finish_reason": "length",
    "weight_versions": [{"version": "1", "start": 0, "end": 1}],
}
START = {
    ("GET", "/health"): web.Response,
    ("GET", "/get_world_size"): {"world_size": 4},
    ("POST", "/collective_rpc"): {"results": [{}]},
    ("GET", "/v1/models"): {"data": [{"id": "theirs"}]},
}


def test_a_server_at_a_url():
    """It is asked by the name that it serves; choices come in their order."""
    asked = []

    def generate(body):
        asked.append(body)
        return {"choices": [{**CHOICE, "index": 1, "token_ids": [6]}, CHOICE]}

    async def work(replica):
        await replica.start()
        return replica.workers, await replica.generate(request())

    start = {**START, ("GET", "/health"): {}}
    workers, found = answering({**start, ("POST", "/inference/v1/generate"): generate}, work)

    assert workers == 4
    assert [list(one.tokens) for one in found] == [[5], [6]]
    assert (asked[0]["model"], asked[0]["token_ids"], asked[0]["request_id"]) == ("theirs", [3, 4, 5], "one")


def test_a_server_without_the_routes_says_how_to_start_it():
    """One line, with what is to be set."""
    with pytest.raises(UserError, match="VLLM_SERVER_DEV_MODE=1"):
        answering({("GET", "/health"): {}}, lambda replica: replica.start())


@pytest.mark.parametrize("answer", [{}, {"choices": [{"index": 0}]}, [], "text"])
def test_an_answer_in_another_form(answer):
    """Another server may do better."""
    with pytest.raises(ServerLostError):
        answering({("POST", "/inference/v1/generate"): answer}, lambda replica: replica.generate(request()))


def test_a_worker_that_fails_is_told_with_its_words():
    """An update that one worker could not load."""
    broken = web.json_response({"error": {"message": "no parameter x"}}, status=500)
    with pytest.raises(ServerLostError, match="no parameter x"):
        answering({("POST", "/collective_rpc"): lambda _: broken}, lambda replica: replica.call_workers("core_rl_begin"))


def test_prompts_of_older_weights_are_forgotten():
    """Where requests in flight hold the cache, they are computed anew; when that fails too, the update does."""
    calls = []

    def reset(answers):
        remaining = list(answers)
        return lambda _: (calls.append("reset"), {"success": remaining.pop(0)})[1]

    routes = {
        ("POST", "/collective_rpc"): lambda body: (calls.append(body["method"]), {"results": [None]})[1],
        ("POST", "/update_weight_version"): lambda body: (calls.append(body["new_version"]), {})[1],
        ("POST", "/resume"): lambda _: (calls.append("resume"), {})[1],
    }

    async def work(replica):
        replica.client.post = _with_body(replica.client.post)
        await replica.end_update(3)

    answering({**routes, ("POST", "/reset_prefix_cache"): reset([False, True])}, work)
    assert calls == ["core_rl_end", "3", "reset", "reset", "resume"]
    with pytest.raises(UserError, match="older weights"):
        answering({**routes, ("POST", "/reset_prefix_cache"): reset([False, False])}, work)


def _with_body(post):
    """The routes above read a body of every request."""
    return lambda path, body=None, **options: post(path, body or {}, **options)


def test_vllm_is_not_installed_here():
    """In the main environment it is not; a hint says what to do."""
    pytest.importorskip("deepspeed")  # the main environment
    with pytest.raises(PluginError, match=r"pip install 'core-rl\[vllm\]'"):
        asyncio.run(VllmInline(VllmConfig(), arguments={}).start())


def test_a_server_that_cannot_start_says_why(tmp_path):
    """The last lines of its log, and where all of it is."""
    from core_rl_vllm.rollout import VllmRolloutEngine

    model = ModelSpec(
        init="random",
        tokenizer="characters:0123",
        config={
            "model_type": "llama",
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "intermediate_size": 32,
        },
    )
    engine = VllmRolloutEngine(
        VllmConfig(log_dir=str(tmp_path), env={"PYTHONPATH": "/nowhere"}, python="/bin/false"),
        RolloutContext(model=model, seed=1),
    )

    async def work():
        try:
            await engine.start()
        finally:
            await engine.close()

    with pytest.raises(UserError, match=r"ended with exit code 1 before it was ready(.|\n)*vllm-0.log"):
        asyncio.run(work())


def test_listing_is_light():
    """The plugin, its options and its arguments import neither vllm nor torch."""
    code = "import sys, core_rl_vllm.plugin, core_rl_vllm.config, core_rl_vllm.arguments; print({'torch', 'vllm', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
