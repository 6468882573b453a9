"""One member of weight groups, run by itself: python group_member.py RANK PORT. Rank 0 sends, the other says what it got.

Each line of its input names a group to join and the updates to pass through it: `first 1 2 3`. It says `left first` when that is done.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from core_rl.weights.buckets import TensorSpec, buckets
from core_rl.weights.group import GroupPlace, join, leave, receive, send

CPU = torch.device("cpu")


def weights(update):
    generator = torch.Generator().manual_seed(update)
    return {
        "a": torch.randn(30, 7, generator=generator),
        "b": torch.randn(50, generator=generator).bfloat16(),
        "c": torch.tensor(float(update)),
        "d": torch.randn(8, 6, generator=generator).T,
        "e": torch.arange(5) * update,
    }


def main():
    rank, port = int(sys.argv[1]), int(sys.argv[2])
    for line in sys.stdin:
        name, *updates = line.split()
        place = GroupPlace(address="127.0.0.1", port=port, rank=rank, world_size=2, name=name, backend="gloo", timeout_s=60.0)
        group = join(place)
        assert not dist.is_initialized()  # whatever group a process has of its own is its own
        for update in map(int, updates):
            for bucket in buckets(iter(weights(update).items()), 500):
                if rank == 0:
                    send(group, bucket, device=CPU)
                else:
                    specs = [TensorSpec.from_json(TensorSpec.of(*one).to_json()) for one in bucket]
                    got = list(receive(group, specs, device=CPU))
                    assert [one for one, _ in got] == [one for one, _ in bucket]
                    assert all(torch.equal(ours, theirs) for (_, ours), (_, theirs) in zip(got, bucket, strict=True))
                    print(name, update, len(bucket), flush=True)
        leave(group)
        del group
        print("left", name, flush=True)


if __name__ == "__main__":
    main()
