"""What differs between the kinds of plugin that `core-rl plugins new` writes."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of component, and the example that a new plugin of it begins with."""

    hook: str
    suffix: str
    """Of the class: `MyIdeaLoss`."""
    module: str
    """Of the implementation."""
    summary: str
    about: str
    """What the example does, for the README."""
    extras: tuple[str, ...] = ("grpo",)
    """Plugins of core-rl that its run file selects, beside those of every example."""
    needs: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    "loss": Kind(
        hook="core_rl_losses",
        suffix="Loss",
        module="loss",
        summary="a policy gradient whose weight falls off smoothly where the policy has moved away",
        about="weighs the gradient of a token by how near the policy still is to the one that sampled it, with no hard edge as a clip has",
    ),
    "advantage": Kind(
        hook="core_rl_advantages",
        suffix="Advantage",
        module="advantage",
        summary="reward less the mean of the prompt's other samples",
        about="compares the reward of a sample with the mean of the other samples of its prompt",
        needs=("rewards", "group"),
    ),
    "rejection": Kind(
        hook="core_rl_rejections",
        suffix="Rejection",
        module="rejection",
        summary="leaves out samples that were cut off in a group where others came to an end",
        about="leaves samples that were cut at the limit out of training, unless all of their group were",
        needs=("group",),
    ),
    "reward": Kind(
        hook="core_rl_rewards",
        suffix="Reward",
        module="reward",
        summary="how near the last number of a completion is to the answer",
        about="compares the last number of a completion with the prompt's answer: 1 where they are equal, less the further they are apart",
    ),
    "algorithm": Kind(
        hook="core_rl_algorithms",
        suffix="",
        module="config",
        summary="group-normalised rewards with an asymmetric clip and no KL",
        about="is a recipe: which advantage, loss and aggregation, with which values. It has no code of its own",
    ),
    "logger": Kind(
        hook="core_rl_loggers",
        suffix="Logger",
        module="logger",
        summary="metrics as a table of comma-separated values",
        about="writes the metrics of every step into one file of comma-separated values, which spreadsheets read",
    ),
    "data": Kind(
        hook="core_rl_data",
        suffix="Data",
        module="data",
        summary="sums of two numbers, as many as are asked for",
        about="makes prompts: sums of two numbers, by a seed",
        provides=("prompts",),
    ),
    "workflow": Kind(
        hook="core_rl_workflows",
        suffix="Workflow",
        module="workflow",
        summary="the policy answers, is told what it said, and may answer again",
        about="lets the policy answer, shows it its answer with a text of yours behind it, and lets it answer again",
    ),
    "rollout-engine": Kind(
        hook="core_rl_rollout_engines",
        suffix="RolloutEngine",
        module="engine",
        summary="a plain sampler: one forward pass for each token",
        about="samples with a model of transformers in this process, one token of every running sample at a time, without a cache",
        provides=("rollout_logprobs", "processed_logprobs"),
    ),
    "train-engine": Kind(
        hook="core_rl_train_engines",
        suffix="TrainEngine",
        module="engine",
        summary="a plain trainer: transformers, one sequence at a time",
        about="trains a model of transformers in this process, one sequence at a time, with AdamW",
        provides=(
            *("old_logprobs", "ref_logprobs", "entropy", "entropy_grad", "gathered_logprobs", "topk_logprobs"),
            "shared_weights",
        ),
    ),
    "launcher": Kind(
        hook="core_rl_launchers",
        suffix="Launcher",
        module="launcher",
        summary="engines in this process, with a number of threads of your choice",
        about="builds the engines in this process and gives torch as many threads as you say; it says how long each engine took to build",
        provides=("shared_weights",),
    ),
    "weight-transport": Kind(
        hook="core_rl_weight_transports",
        suffix="Transport",
        module="transport",
        summary="weights by a file of safetensors for each bucket, deleted when it was read",
        about="sends weights through files, a bucket at a time, so that no more than one bucket lies on the disk",
    ),
}
