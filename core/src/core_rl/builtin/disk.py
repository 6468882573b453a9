"""The weight transport of a folder: the trainer writes a Hugging Face folder, the sampler reads it. The folder may be another machine's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from core_rl.errors import RunError
from core_rl.weights.proof import Sent

if TYPE_CHECKING:
    import torch

    from core_rl.builtin.config import DiskConfig
    from core_rl.roles.parts import SyncReport
    from core_rl.roles.rollout import DiskReceiver, RolloutEngine
    from core_rl.roles.train import TrainEngine


class Disk:
    """A `core_rl.roles.parts.WeightTransport`. A folder is complete when it has its name; the one before it is then removed."""

    def __init__(self, options: DiskConfig) -> None:
        self.options = options
        self._last: Path | None = None
        self._own: Path | None = None

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        """Raises `RunError` when there is no room, or what is served afterwards is not what was written."""
        receiver = cast("DiskReceiver", target)
        folder = self._root() / f"version-{version:06d}"
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            sent = await self._write(source, unfinished, version)
            shutil.rmtree(folder, ignore_errors=True)
            with _writing(folder.parent):
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        await receiver.begin_update()
        await receiver.update_from_disk(str(folder))
        await receiver.end_update(version)
        report = await sent.proven(receiver)
        if self._last is not None and self._last != folder:
            shutil.rmtree(self._last, ignore_errors=True)
        self._last = folder
        return report

    def _root(self) -> Path:
        if self.options.dir is not None:
            return Path(self.options.dir)
        if self._own is None:
            self._own = Path(tempfile.mkdtemp(prefix="core-rl-weights-"))
            weakref.finalize(self, shutil.rmtree, self._own, ignore_errors=True)
        return self._own

    async def _write(self, source: TrainEngine, folder: Path, version: int) -> Sent:
        """One safetensors file for each bucket, and the index of all. Requests in flight go on meanwhile."""
        sent = Sent(transport="disk", version=version)
        index: dict[str, str] = {}
        _make(folder)
        for number, bucket in enumerate(sent.buckets(source.export_weights(), self.options.bucket_mb * 2**20)):
            file = f"model-{number:05d}.safetensors"
            await asyncio.to_thread(_save, bucket, folder / file)
            index |= dict.fromkeys((name for name, _ in bucket), file)
        await asyncio.to_thread(_finish, folder, index, sent.num_bytes)
        return sent


def _make(folder: Path) -> None:
    with _writing(folder.parent):
        folder.mkdir(parents=True)


def _save(bucket: list[tuple[str, torch.Tensor]], file: Path) -> None:
    from safetensors.torch import save_file

    with _writing(file.parent.parent):
        save_file(_unshared(bucket), file, metadata={"format": "pt"})


def _finish(folder: Path, index: dict[str, str], num_bytes: int) -> None:
    """Which tensor is in which file."""
    import json

    described: dict[str, Any] = {"metadata": {"total_size": num_bytes}, "weight_map": index}
    with _writing(folder.parent), (folder / "model.safetensors.index.json").open("w") as out:
        json.dump(described, out)
        out.flush()
        os.fsync(out.fileno())


def _unshared(bucket: list[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """safetensors refuses tensors that share memory, and those that do not lie row by row."""
    found: dict[str, torch.Tensor] = {}
    storages: set[int] = set()
    for name, tensor in bucket:
        ours = tensor.detach().cpu().contiguous()
        storage = ours.untyped_storage().data_ptr()
        found[name] = ours.clone() if storage in storages else ours
        storages.add(storage)
    return found


@contextlib.contextmanager
def _writing(root: Path) -> Iterator[None]:
    from safetensors import SafetensorError  # its words of the system's errors are not those of an OSError

    try:
        yield
    except (OSError, SafetensorError) as error:
        message = f"weight_transport.dir: cannot write the weights to {root}: {getattr(error, 'strerror', None) or error}"
        raise RunError(message) from error
