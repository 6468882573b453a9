"""Components chosen by name, with their options and defaults."""

from __future__ import annotations

from core_rl.config.algorithm import KlConfig

BARE = "model: {path: toy}\ndata: {name: rows, path: x}\n"


def test_short_form_mapping_and_default_resolve_alike(run_file):
    """A name, a mapping with a name, and nothing at all."""
    short = run_file("train_engine: local\n")
    long = run_file("train_engine: {name: local}\n")
    silent = run_file("")

    assert short == long == silent
    assert (short.train_engine.component.name, short.train_engine.plugin) == ("local", "core-rl-toy")
    assert short.train_engine.options.optimizer.weight_decay == 0.1
    assert silent.rollout_engine.options is None


def test_a_mapping_without_name_changes_the_default_component(run_file):
    """Partial options keep the default's name and its other options; also inside an algorithm."""
    file = run_file("algorithm:\n  name: grpo\n  group_size: 4\n  loss: {clip_low: 0.1}\ntrain_engine: {lr: 1e-5}\n", base=BARE)
    algorithm = file.algorithm.options

    assert file.train_engine.name == "local"
    assert (file.train_engine.options.lr, algorithm.group_size) == (1e-5, 4)
    assert (algorithm.loss.name, algorithm.loss.options.clip_low, algorithm.loss.options.clip_high) == ("ppo_clip", 0.1, 0.28)


def test_another_name_drops_the_defaults_options(run_file):
    """`clip_high` of the default loss is not cispo's business."""
    file = run_file("algorithm: {name: grpo, loss: {name: cispo, upper: 3}}\n", base=BARE)

    assert file.algorithm.options.loss.options.upper == 3.0


def test_a_full_name_of_the_same_component_is_no_change(run_file):
    """`plugin/name` and `name` select one component."""
    file = run_file("algorithm: {name: grpo, loss: {name: core-rl-toy/ppo_clip, clip_low: 0.1}}\n", base=BARE)

    assert file.algorithm.options.loss.options.clip_high == 0.28


def test_a_partial_section_changes_the_defaults_of_its_owner(run_file):
    """GRPO's KL has its own coefficient, and evaluation its own temperature: naming another key keeps both."""
    file = run_file("algorithm: {name: grpo, kl: {estimator: k1}}\neval: {sampling: {max_new_tokens: 5}}\n", base=BARE)

    kl = file.algorithm.options.kl

    assert (kl.coef, kl.estimator.name, kl.place) == (0.04, "k1", KlConfig().place)
    assert (file.eval.sampling.temperature, file.eval.sampling.max_new_tokens) == (0.0, 5)


def test_lists_of_components(run_file):
    """In the order of the file; a reward's weight belongs to the entry."""
    file = run_file("rewards: [exact, {name: format, weight: 0.5, pattern: a}]\nloggers: []\n")

    assert [(one.name, one.weight) for one in file.rewards] == [("exact", 1.0), ("format", 0.5)]
    assert file.rewards[1].options.pattern == "a"
    assert file.loggers == ()


def test_null_where_a_component_is_optional(run_file):
    """And a component where it is given."""
    assert run_file("eval_data: null\n").eval_data is None
    assert run_file("eval_data: {name: rows, path: held.jsonl}\n").eval_data.options.path == "held.jsonl"


def test_a_reference_stands_where_a_name_does(run_file, monkeypatch):
    """`module:Object`, for what no plugin registers, with its own options class."""
    import core_rl_toy.config as toys

    class Mine:
        __core_rl_config__ = toys.FormatConfig

    monkeypatch.setattr(toys, "Mine", Mine, raising=False)
    reward = run_file("rewards: [{name: 'core_rl_toy.config:Mine', pattern: b, weight: 2}]\n").rewards[0]

    assert (reward.options.pattern, reward.weight, reward.plugin) == ("b", 2.0, None)


def test_every_mistake_in_selections_has_its_place(problems):
    """Unknown components and options, options where there are none, names that are no names."""
    found = problems(
        "train_engine: {lrr: 1}\n"
        "rollout_engine: {name: locl, x: 1}\n"
        "weight_transport: null\n"
        "workflow: [a]\n"
        "rewards: [{weight: 1}, {name: 3}, {name: exact, weight: heavy}, ~]\n"
        "loggers: console\n"
        "launcher: {x: 1}\n"
    )

    assert [line for line in found if ":5:" not in line] == [
        "run.yaml:4:16: train_engine.lrr: unknown option of train_engine `local`; did you mean `lr`?",
        "run.yaml:6:19: weight_transport: expected the name of a weight_transport, or a mapping with `name` and its options, found nothing (null)",
        "run.yaml:7:11: workflow: expected the name of a workflow, or a mapping with `name` and its options, found a list",
        "run.yaml:8:11: rewards.0: `name` is required: it selects the reward",
        "run.yaml:8:31: rewards.1.name: expected the name of a reward, found 3",
        "run.yaml:8:57: rewards.2.weight: expected a number, found text 'heavy'",
        "run.yaml:8:65: rewards.3: expected the name of a reward, or a mapping with `name` and its options, found nothing (null)",
        "run.yaml:9:10: loggers: expected a list of logger components, found text 'console' (write [console])",
        "run.yaml:10:12: launcher.x: unknown option of launcher `inline`, which has no options",
    ]
    assert found[1].startswith("run.yaml:5:24: rollout_engine: there is no rollout_engine 'locl'")


def test_a_mistake_in_a_default_is_told_to_be_one(problems):
    """The user has written nothing there, so the place is that of the section around it."""
    assert problems("plugins: {block: [toy]}\n")[0].endswith("(this is the default)")
