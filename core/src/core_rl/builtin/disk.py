"""The weight transport of a folder: the trainer writes a Hugging Face folder, the sampler reads it. The folder may be another machine's."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint
from core_rl.roles.parts import SyncReport
from core_rl.weights.buckets import buckets, size_of
from core_rl.weights.proof import prove

if TYPE_CHECKING:
    import torch

    from core_rl.builtin.config import DiskConfig
    from core_rl.roles.rollout import DiskReceiver, RolloutEngine
    from core_rl.roles.train import TrainEngine


class Disk:
    """A `core_rl.roles.parts.WeightTransport`. A folder is complete when it has its name; the one before it is then removed."""

    def __init__(self, options: DiskConfig) -> None:
        self.options = options
        self._last: Path | None = None
        self._own: tempfile.TemporaryDirectory[str] | None = None

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when there is no room, or what is served afterwards is not what was written."""
        receiver = cast("DiskReceiver", target)
        folder = self._root() / f"version-{version:06d}"
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            unfinished.mkdir(parents=True)
            sent, num_bytes = self._write(source, unfinished)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            message = f"weight_transport.dir: cannot write the weights to {folder.parent}: {error.strerror or error}"
            raise RunError(message) from error
        await receiver.begin_update()
        await receiver.update_from_disk(str(folder))
        await receiver.end_update(version)
        prove("disk", version, sent=sent, served=await receiver.fingerprint())
        if self._last is not None and self._last != folder:
            shutil.rmtree(self._last, ignore_errors=True)
        self._last = folder
        return SyncReport(version=version, num_bytes=num_bytes)

    def _root(self) -> Path:
        if self.options.dir is not None:
            return Path(self.options.dir)
        if self._own is None:
            self._own = tempfile.TemporaryDirectory(prefix="core-rl-weights-")
        return Path(self._own.name)

    def _write(self, source: TrainEngine, folder: Path) -> tuple[dict[str, float], int]:
        """One safetensors file for each bucket, and the index of all."""
        import json

        from safetensors.torch import save_file

        sent: dict[str, float] = {}
        index: dict[str, str] = {}
        num_bytes = 0
        for number, bucket in enumerate(buckets(source.export_weights(), self.options.bucket_mb * 2**20)):
            file = f"model-{number:05d}.safetensors"
            sent |= fingerprint(bucket)
            save_file(_unshared(bucket), folder / file, metadata={"format": "pt"})
            index |= dict.fromkeys((name for name, _ in bucket), file)
            num_bytes += sum(size_of(tensor) for _, tensor in bucket)
        described: dict[str, Any] = {"metadata": {"total_size": num_bytes}, "weight_map": index}
        with (folder / "model.safetensors.index.json").open("w") as out:
            json.dump(described, out)
            out.flush()
            os.fsync(out.fileno())
        return sent, num_bytes


def _unshared(bucket: list[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """safetensors refuses tensors that share memory, and those that do not lie row by row."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in bucket}
