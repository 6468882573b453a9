"""`core-rl generate`: completions of a prompt from a run's checkpoint, a run file's model or a model folder."""

from __future__ import annotations

import argparse
import json
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="a run folder, a run file (YAML), or a model (folder, hub name, .gguf, package:NAME)")
    parser.add_argument("prompt", nargs="?", help="the prompt; standard input without it")
    parser.add_argument("--step", type=int, help="the checkpoint of this step; the newest good one without it")
    parser.add_argument("--system", help="a system message before the prompt")
    parser.add_argument("--raw", action="store_true", help="give the prompt to the model as it is, without its chat template")
    parser.add_argument("--n", type=int, default=1, help="completions (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the sampling (default 1)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default)")
    parser.add_argument("--top-p", type=float, default=1.0, help="nucleus sampling (default 1)")
    parser.add_argument("--max-new-tokens", type=int, default=256, help="longest completion (default 256)")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each completion, with token ids")


def run(args: argparse.Namespace) -> int:
    from core_rl.errors import DataError
    from core_rl.loops.inspect import generate_from
    from core_rl.roles.rollout import SamplingParams

    text = args.prompt if args.prompt is not None else sys.stdin.read()
    if not text:
        message = "generate: the prompt is empty; give it as an argument or on standard input"
        raise DataError(message)
    params = SamplingParams(temperature=args.temperature, top_p=args.top_p, max_new_tokens=args.max_new_tokens)
    samples = generate_from(
        args.target, text, params, step=args.step, n=args.n, seed=args.seed, system=args.system, raw=args.raw
    )
    for sample in samples:
        if args.json:
            tokens = [token for turn in sample.turns if turn.generated for token in turn.tokens]
            print(json.dumps({"text": sample.completion_text, "tokens": tokens, "finish_reason": sample.finish_reason}))
        else:
            print(sample.completion_text)
    return 0
