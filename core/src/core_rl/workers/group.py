"""A group of worker processes, as the driver sees it: one generic call, which says how arguments are split and results gathered."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from core_rl.errors import RunError, UserError

if TYPE_CHECKING:
    from core_rl.plugins.build import WorkerForm

Split = Callable[[Sequence[Any], int], Sequence[Sequence[Any]] | None]
"""(arguments, world size) -> the arguments of each rank; None: the same for all."""


class Gather(Protocol):
    """From the results of the ranks to one. Those of ranks that `wants` refuses are not fetched, and None is in their place."""

    def wants(self, rank: int) -> bool: ...

    def __call__(self, results: Sequence[Any]) -> Any: ...


class WorkerGroup(Protocol):
    """`world_size` processes, each with objects under keys. Calls go to all ranks; one at a time.

    The first worker's own exception is raised in the driver: a `UserError` as itself, anything else as `WorkerError` with the
    worker's traceback. The group is over then: ranks that wait for the one that failed cannot be saved.
    """

    world_size: int

    def create(self, key: str, form: WorkerForm, *args: Any) -> None:
        """Build the object on every rank: `Target(options, *args)`."""
        ...

    def call(
        self, key: str, method: str, *args: Any, split: Split | None = None, gather: Gather | None = None, **kwargs: Any
    ) -> Any:
        """Call a method of the object under `key` on every rank. Without `gather`: what rank 0 returns."""
        ...

    def stream(self, key: str, method: str, *args: Any) -> Iterator[Any]:
        """What a generator method yields on rank 0, while all ranks go through it together; some hundred megabytes at a time."""
        ...

    def remove(self, key: str) -> None:
        """Close an object, where it has a method `close`, and forget it. After the group is over this does nothing."""
        ...

    def close(self) -> None:
        """End the processes. Also after a failure; a second time does nothing."""
        ...


class WorkerError(RunError):
    """A worker failed with an error of its own, or died. `worker_traceback` is what the worker has printed of it."""

    def __init__(self, message: str, worker_traceback: str = "") -> None:
        super().__init__(message)
        self.worker_traceback = worker_traceback


class First:
    """What rank 0 returns."""

    def wants(self, rank: int) -> bool:
        return rank == 0

    def __call__(self, results: Sequence[Any]) -> Any:
        return results[0]


class Every:
    """What every rank returns, in order."""

    def wants(self, rank: int) -> bool:
        del rank
        return True

    def __call__(self, results: Sequence[Any]) -> list[Any]:
        return list(results)


def same(args: Sequence[Any], world_size: int) -> None:
    """Every rank gets all arguments; they are sent as one message."""
    del args, world_size


def scatter(args: Sequence[Any], world_size: int) -> list[list[Any]]:
    """Each argument is a sequence with one entry for each rank."""
    for index, each in enumerate(args):
        if len(each) != world_size:
            message = f"argument {index} has {len(each)} entries for {world_size} workers"
            raise ValueError(message)
    return [[each[rank] for each in args] for rank in range(world_size)]


@attrs.frozen(kw_only=True)
class Failure:
    """What went wrong in a worker, in a form that always pickles."""

    rank: int
    kind: str
    """The class of the error, `module:Name`."""
    message: str
    traceback: str = ""
    died: bool = False
    """The process ended without a word."""

    @classmethod
    def of(cls, rank: int, error: BaseException) -> Failure:
        kind = f"{type(error).__module__}:{type(error).__qualname__}"
        text = "".join(traceback.format_exception(error))
        return cls(rank=rank, kind=kind, message=str(error), traceback=text)

    @classmethod
    def death(cls, rank: int, how: str) -> Failure:
        return cls(rank=rank, kind="builtins:SystemExit", message=how, died=True)

    @property
    def follows(self) -> bool:
        """Whether it is what a rank says when another one has failed."""
        return self.kind.startswith("torch.distributed") or any(word in self.message for word in _OF_A_LOST_PEER)

    def error(self, doing: str) -> UserError:
        """What the driver raises. A mistake of the user stays what it is, whoever found it."""
        if self.died:
            return WorkerError(
                f"worker {self.rank} {self.message} in {doing}; the run can go on from its last checkpoint: --resume"
            )
        module, _, name = self.kind.partition(":")
        found = getattr(sys.modules.get(module) or _imported(module), name, None)
        if isinstance(found, type) and issubclass(found, UserError):
            known = found(self.message) if found.__init__ is ValueError.__init__ else RunError(self.message)
            known.add_note(f"on worker {self.rank}, in {doing}")
            return known
        summary = f"worker {self.rank} failed in {doing}: {name}: {self.message}"
        return WorkerError(f"{summary.splitlines()[0]}\n{self.traceback.rstrip()}", self.traceback)


_OF_A_LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL communicator was aborted")


def first_cause(failures: Sequence[Failure]) -> Failure:
    """Of what several ranks report of one accident, the likeliest cause: an error of their own, then a death, then a lost peer."""
    return min(failures, key=lambda one: (one.follows, one.died, one.rank))


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
