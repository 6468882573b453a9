"""From what Ray raises to what happened in a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.workers.group import Failure
from core_rl.workers.worker import Reply

if TYPE_CHECKING:
    from core_rl_ray.actor import Place


def answer(reference: Any, rank: int, place: Place | None) -> Any:
    """What a method of an actor has returned, or a `Reply` with why it has not. Never Ray's own error."""
    import ray
    from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

    try:
        return ray.get(reference)
    except (ActorDiedError, ActorUnavailableError) as error:
        return Reply(failure=Failure.death(rank, _how(str(error), place)))
    except RayTaskError as error:  # outside of RayWorker.run: a result that does not pickle, a module that the node lacks
        cause = error.cause if isinstance(error.cause, Exception) else error
        return Reply(failure=Failure.of(rank, cause))
    except RayError as error:  # an object that is lost, a store that is full
        return Reply(failure=Failure.of(rank, error))


def _how(told: str, place: Place | None) -> str:
    """Ray does not say by which signal a process has ended, and lists what it may have been."""
    reason = told.strip().splitlines()[-1]
    if _ENDED in reason:
        reason = "killed (out of memory?) or ended by a fault in native code"
    where = "" if place is None else f" (pid {place.pid} on {place.address}, its output is in {place.log})"
    return f"died: {reason.rstrip('.')}{where}"


_ENDED = "connection error code 2"
