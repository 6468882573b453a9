"""What every train engine refuses in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.errors import ModelError, UserError

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec


def refuse_float16(spec: ModelSpec, *, engine: str) -> None:
    if spec.dtype == "float16":
        message = f"model.dtype: float16 needs a scaled loss, which the {engine} train engine has not; take bfloat16 or float32"
        raise UserError(message)


def no_reference() -> ModelError:
    message = "the reference policy was asked for, and the engine was built without one"
    return ModelError(message)
