"""The core's selectable pieces as components: found by name, built from a run file, and the numbers they stand for."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.builtin.config import KlEstimatorConfig, MomentsConfig, WhitenConfig
from core_rl.builtin.normalisers import Moments, Whiten
from core_rl.config.algorithm import KlConfig
from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.numerics.aggregation import Aggregator, LocalMean
from core_rl.numerics.kl import kl_estimate
from core_rl.objective import estimator_of
from core_rl.plugins.build import build, build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference
from core_rl.testing.batches import random_batch

AGGREGATIONS = ["token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "prompt-mean"]
ESTIMATORS = ["k1", "abs", "k2", "k3", "k1+", "k3+"]


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nsampling: {{max_new_tokens: 24}}\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_run_file_selects_an_aggregation_by_its_name(tmp_path, name):
    """And gets the weights of that name."""
    batch = random_batch(1)
    built = build(load(tmp_path, f"{{name: grpo, aggregation: {name}}}").aggregation, 24)

    assert torch.equal(built.weights(batch), Aggregator(name).weights(batch))


@pytest.mark.parametrize(("options", "length"), [("", 24), (", scale_length: 7", 7)])
def test_the_constant_length_is_that_of_sampling_unless_said(tmp_path, options, length):
    """Dr. GRPO divides by max_new_tokens."""
    batch = random_batch(1)
    selection = load(tmp_path, f"{{name: grpo, aggregation: {{name: seq-mean-token-sum-norm{options}}}}}").aggregation
    expected = Aggregator("seq-mean-token-sum-norm", scale_length=length).weights(batch)

    assert torch.equal(build(selection, 24).weights(batch), expected)


def test_local_means_have_a_size(tmp_path):
    """There is no size that would be anyone's default."""
    batch = random_batch(1)
    built = build(load(tmp_path, "{name: grpo, aggregation: {name: token-mean-local, sequences: 2}}").aggregation, 24)

    assert torch.equal(built.weights(batch), LocalMean(2).weights(batch))
    with pytest.raises(ConfigError, match=r"algorithm\.aggregation"):
        load(tmp_path, "{name: grpo, aggregation: token-mean-local}")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_run_file_selects_a_kl_estimator_by_its_name(tmp_path, name):
    """With and without a bound on the estimate; the default of the options is none."""
    batch = random_batch(2, spread=2.0)
    pair = batch["logprobs"], batch["ref_logprobs"]
    plain = estimator_of(load(tmp_path, f'{{name: grpo, kl: {{coef: 0.1, estimator: "{name}"}}}}').kl)
    options = f'{{name: "{name}", value_bound: 0.5}}'
    bounded = estimator_of(load(tmp_path, f"{{name: grpo, kl: {{coef: 0.1, estimator: {options}}}}}").kl)

    assert torch.equal(plain(*pair), kl_estimate(*pair, name))
    assert torch.equal(bounded(*pair), kl_estimate(*pair, name).clamp(-0.5, 0.5))
    assert not torch.equal(plain(*pair), bounded(*pair))


def test_an_estimator_that_no_run_file_resolved_is_the_cores():
    """KlConfig made in code has a name alone."""
    batch = random_batch(2)
    pair = batch["logprobs"], batch["ref_logprobs"]

    assert torch.equal(estimator_of(KlConfig(coef=0.1, estimator="k2"))(*pair), kl_estimate(*pair, "k2"))


def test_options_have_bounds():
    """A bound of nothing, and a negative eps."""
    with pytest.raises(ValueError, match="value_bound"):
        KlEstimatorConfig(value_bound=0.0)
    with pytest.raises(ValueError, match="eps"):
        WhitenConfig(eps=-1e-8)


def naive(values, mask, *, ddof, eps, root, centre=True):
    """(x - mean) / scale over those inside the mask that are finite; root: eps under the root."""
    known = [x for x, inside in zip(values, mask, strict=True) if inside and math.isfinite(x)]
    if not known:
        return [0.0] * len(values)
    mean = sum(known) / len(known)
    variance = sum((x - mean) ** 2 for x in known) / (len(known) - ddof) if len(known) > 1 else 1.0
    scale = (variance + eps) ** 0.5 if root else variance**0.5 + eps
    back = 0.0 if centre else mean
    return [(x - mean) / scale + back if inside and math.isfinite(x) else 0.0 for x, inside in zip(values, mask, strict=True)]


def some_values(seed):
    """[12] with a NaN inside the mask and garbage outside; groups of three."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(12, generator=random)
    mask = torch.rand(12, generator=random) > 0.2
    values[int(torch.randint(0, 12, (1,), generator=random))] = torch.nan
    return values, torch.arange(12) // 3, mask


@given(seed=st.integers(0, 500), std=st.sampled_from(["sample", "population"]), centre=st.booleans())
@settings(deadline=None, max_examples=25)
def test_whiten_is_the_definition(seed, std, centre):
    """Against lists; what failed or is masked is in no statistic and comes out as 0."""
    values, group, mask = some_values(seed)
    found = Whiten(WhitenConfig(std=std, eps=1e-4, centre=centre))(values, group, mask)
    ddof = 1 if std == "sample" else 0

    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(
        naive(values.tolist(), mask.tolist(), ddof=ddof, eps=1e-4, root=True, centre=centre), rel=1e-4, abs=1e-5
    )


@given(seed=st.integers(0, 500), std=st.sampled_from(["sample", "population"]))
@settings(deadline=None, max_examples=25)
def test_moments_over_the_batch_are_the_definition(seed, std):
    """The default: mean and deviation of the batch, eps beside the root."""
    values, group, mask = some_values(seed)
    found = Moments(MomentsConfig(std=std, eps=1e-3))(values, group, mask)
    ddof = 1 if std == "sample" else 0

    assert found.tolist() == pytest.approx(
        naive(values.tolist(), mask.tolist(), ddof=ddof, eps=1e-3, root=False), rel=1e-4, abs=1e-5
    )


@given(seed=st.integers(0, 500))
@settings(deadline=None, max_examples=25)
def test_moments_over_groups_are_those_of_each_group_alone(seed):
    """The same normaliser on one group after the other."""
    values, group, mask = some_values(seed)
    whole = Moments(MomentsConfig(mean_level="group", std_level="group"))(values, group, mask)
    apart = [Moments(MomentsConfig())(values[group == g], group[group == g], mask[group == g]) for g in range(4)]

    assert torch.allclose(whole, torch.cat(apart), rtol=1e-5, atol=1e-6)


def test_moments_by_hand():
    """Group means by the deviation of the batch; one left out; nothing taken away."""
    values, group = torch.tensor([1.0, 3.0, 2.0, 6.0]), torch.tensor([0, 0, 1, 1])
    mask = torch.ones(4, dtype=torch.bool)

    def found(**options):
        return Moments(MomentsConfig(eps=0.0, **options))(values, group, mask).tolist()

    assert found(mean_level="group", std_level="none") == [-1.0, 1.0, -2.0, 2.0]
    assert found(mean_level="group", std_level="none", leave_one_out="mean") == [-2.0, 2.0, -4.0, 4.0]
    assert found(mean_level="none", std_level="none") == [1.0, 3.0, 2.0, 6.0]
    assert found(mean_level="group", std="population") == pytest.approx([x / 3.5**0.5 for x in (-1, 1, -2, 2)])


@pytest.mark.parametrize("normaliser", [Whiten(WhitenConfig()), Moments(MomentsConfig())], ids=["whiten", "moments"])
def test_edges_of_normalisers(normaliser):
    """All equal, one value, none, only failed ones: zeros, never NaN."""
    mask, group = torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.int64)

    assert normaliser(torch.full((3,), 0.7), group, mask).abs().max() < 1e-6
    assert normaliser(torch.tensor([5.0]), group[:1], mask[:1]).tolist() == [0.0]
    assert normaliser(torch.ones(3), group, ~mask).tolist() == [0.0] * 3
    assert normaliser(torch.full((3,), torch.nan), group, mask).tolist() == [0.0] * 3


@pytest.mark.parametrize("kind", ["aggregation", "kl_estimator", "normaliser"])
def test_each_says_what_it_computes(kind):
    """A summary and a formula, its own or that of its options."""
    found = [one.component for one in Catalogue.discover().components(kind) if one.plugin == "core-rl"]
    sizes = {"sequences": 4}

    assert len(found) == {"aggregation": 7, "kl_estimator": 6, "normaliser": 2}[kind]
    for one in found:
        config = load_reference(one.config) if one.config else None
        options = config(**{k: v for k, v in sizes.items() if k in config.__slots__}) if config else None
        assert one.summary
        assert one.formula or options.formula()
        assert build_component(one, options, *([16] if kind == "aggregation" else [])) is not None
