"""Which rank does what: parts of the batch, slices of tokens, shards of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from core_rl.errors import UserError
from core_rl.hf.packed.ulysses import Ulysses

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.hf.packed.policy import Policy
    from core_rl.train.micro_batches import MicroBatch, Plan
    from core_rl.workers.process_group import Membership
    from core_rl_fsdp.config import FsdpConfig


@attrs.frozen(kw_only=True, eq=False)
class Places:
    """This rank's place. `mesh` is [data, ulysses, tensor]; weights are in shards over the first two, matrices are cut over the third."""

    mesh: DeviceMesh
    shards: DeviceMesh

    @classmethod
    def of(cls, options: FsdpConfig, member: Membership) -> Places:
        """Raises `UserError` for a number of ranks that does not divide."""
        world, inner = member.world_size, options.ulysses * options.tensor_parallel
        if world % inner:
            message = (
                f"train_engine: ulysses {options.ulysses} x tensor_parallel {options.tensor_parallel} does not divide the launcher's "
                f"{world} workers; take {', '.join(str(k * inner) for k in (1, 2, 4))}, … workers"
            )
            raise UserError(message)
        shape = (world // inner, options.ulysses, options.tensor_parallel)
        mesh = init_device_mesh(member.device.type, shape, mesh_dim_names=("data", "ulysses", "tensor"))
        shards = mesh["data", "ulysses"]._flatten("shards")  # noqa: SLF001 - what torch documents for this
        return cls(mesh=mesh, shards=shards)

    @property
    def data(self) -> int:
        """Parts of the batch."""
        return self.mesh["data"].size()

    @property
    def data_group(self) -> Any:
        """One rank of each part."""
        return self.mesh["data"].get_group()

    @property
    def speaks(self) -> bool:
        """Whether this rank is the first of those that have the same part."""
        return self.mesh["ulysses"].get_local_rank() == 0 and self.tensor.get_local_rank() == 0

    @property
    def tensor(self) -> DeviceMesh:
        """Those that share every matrix."""
        return self.mesh["tensor"]

    def own(self, plan: Plan, batch: PackedBatch) -> list[MicroBatch]:
        return plan.of_ranks(batch, self.data)[self.mesh["data"].get_local_rank()]

    def ulysses_of(self, policy: Policy) -> Ulysses | None:
        """Raises `UserError` for a model that is not packed, or whose heads do not divide."""
        part = self.mesh["ulysses"]
        if part.size() == 1:
            return None
        if not policy.shares:
            message = f"train_engine.ulysses: attention of {policy.model.config.model_type} is not core-rl's packed one, and only its rows are cut"
            raise UserError(message)
        found = Ulysses(group=part.get_group(), rank=part.get_local_rank(), size=part.size())
        found.check(policy.model.config.get_text_config(), cut=self.tensor.size())
        return found
