"""What all specs are made of: strictness, number types, and JSON there and back.

There are no default values in specs: each value stands once, in conf/. The text under a field says
its unit and is quoted in error messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

STRICT = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
GroupSize = Annotated[int, Field(ge=2)]
Gamma = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]

T = TypeVar("T")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_dict(value: Any) -> dict[str, Any]:
    """A spec as plain JSON types, every field present."""
    dumped = _adapter(type(value)).dump_python(value, mode="json")
    assert isinstance(dumped, dict)
    return dumped


def from_dict(cls: type[T], data: Any) -> T:
    """Strictly validated inverse of `to_dict`; raises pydantic.ValidationError."""
    value: T = _adapter(cls).validate_json(json.dumps(data))
    return value
