"""FSDP on one worker and on two does what the local engine does."""

from __future__ import annotations

import pytest

from core_rl.testing.train_engines import TrainEngineConformance, tiny


class TestFsdp(TrainEngineConformance):
    component = "fsdp"
    options = {"device": "cpu"}  # noqa: RUF012 - it is read only
    world_sizes = (1, 2)


@pytest.mark.slow
class TestUlysses(TrainEngineConformance):
    """Two ranks share the tokens of every micro-batch."""

    component = "fsdp"
    options = {"device": "cpu", "ulysses": 2}  # noqa: RUF012 - it is read only
    world_sizes = (2,)


@pytest.mark.slow
class TestTensorParallel(TrainEngineConformance):
    """Two ranks share every matrix and the vocabulary; of four, each two have a part of the batch."""

    component = "fsdp"
    options = {"device": "cpu", "tensor_parallel": 2}  # noqa: RUF012 - it is read only
    world_sizes = (2, 4)


@pytest.mark.slow
class TestLong(TrainEngineConformance):
    """Four ranks: two share the tokens, and of these two the matrices."""

    component = "fsdp"
    options = {"device": "cpu", "tensor_parallel": 2, "ulysses": 2, "cpu_offload": True}  # noqa: RUF012 - it is read only
    world_sizes = (4,)
    models = {"more_heads": tiny("llama", tie_word_embeddings=True, num_key_value_heads=4)}  # noqa: RUF012 - it is read only
