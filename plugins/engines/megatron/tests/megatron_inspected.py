"""The engine with a look inside, for tests: what workers run under another name."""

from __future__ import annotations

from core_rl_megatron.train import MegatronTrainEngine


class Inspected(MegatronTrainEngine):
    """Asked from the driver like any other method."""

    def counters(self):
        """(weights with a state, counters of steps among them that are tensors of their own, their values)"""
        states = [state for part in self._optimizer.members() for state in part.optimizer.state.values()]
        steps = [state["step"] for state in states]
        return len(states), len({id(step) for step in steps}), sorted({float(step) for step in steps})

    def state_bytes(self):
        """Of masters and states, on this rank."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._optimizer.tensors())
