"""A worker of a rollout engine in a process of its own: a line of JSON tells it what to do, and it answers with one."""

from __future__ import annotations

import json
import sys

import torch

from core_rl.fingerprint import fingerprint
from core_rl.weights.buckets import TensorSpec
from core_rl.weights.group import GroupPlace, join, leave, receive


def main():
    group, weights = None, {}
    print("null", flush=True)  # ready
    for line in sys.stdin:
        asked, answer = json.loads(line), None
        if "join" in asked:
            if group is not None:
                leave(group)
                group = None
            group = join(GroupPlace(**asked["join"]))
        elif "receive" in asked:
            specs = [TensorSpec.from_json(spec) for spec in asked["receive"]]
            for name, tensor in receive(group, specs, device=torch.device("cpu")):
                weights[name] = torch.zeros_like(tensor) if name == asked["loses"] else tensor
        else:
            answer = [fingerprint(weights.items()), {name: str(tensor.dtype) for name, tensor in weights.items()}]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
