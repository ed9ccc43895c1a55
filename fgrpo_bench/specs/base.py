"""What all specs are made of: strictness, number types, and JSON there and back.

Each value stands once, in conf/, and no spec has another: a field that may be left out means the
same as null. The text under a field says its unit and is quoted in error messages. Numbers have
bounds far beyond what anybody trains, so that a slip of the hand (steps=1000000000, an exponent of
1e300) is refused where it is declared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import core_schema

from fgrpo_bench.core import registry
from fgrpo_bench.files.paths import RESERVED

T = TypeVar("T")
STRICT = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

MOST = 10_000_000
"""Of anything that is counted: steps, draws, problems, tokens."""
LARGEST, LEAST = 1e12, 1e-15
"""Of any other number, apart from 0."""


def _unsigned(value: float) -> float:
    """0.0 for -0.0, which would be another identity for the same number."""
    return value + 0.0


def _not_tiny(value: float) -> float:
    if value < LEAST:
        raise ValueError(f"{value:g} is less than {LEAST:g}: give a number that can be meant")
    return value


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    repeated = sorted(str(value) for value, times in Counter(values).items() if times > 1)
    if repeated:
        raise ValueError(f"{', '.join(repeated)} is given more than once: name each value once")
    return values


def _not_reserved(name: str) -> str:
    if name in RESERVED:
        raise ValueError(
            f"{name!r} is the name of something else in a run root ({', '.join(sorted(RESERVED))}):"
            " choose another name"
        )
    return name


Positive = Annotated[int, Field(ge=1, le=MOST)]
NonNegative = Annotated[int, Field(ge=0, le=MOST)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
"""What every generator takes that is seeded with it."""
GroupSize = Annotated[int, Field(ge=2, le=MOST)]
Gamma = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), AfterValidator(_unsigned)]
PositiveFloat = Annotated[
    float, Field(gt=0, le=LARGEST, allow_inf_nan=False), AfterValidator(_not_tiny)
]
NonNegativeFloat = Annotated[
    float, Field(ge=0, le=LARGEST, allow_inf_nan=False), AfterValidator(_unsigned)
]
Parameter = (
    Annotated[int, Field(ge=-MOST, le=MOST)]
    | Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
    | str
)
"""A plain value by name; what it is given to says which ones it takes."""
Fraction = Annotated[float, Field(ge=0, le=1), AfterValidator(_unsigned)]
Beta = Annotated[float, Field(ge=0, lt=1), AfterValidator(_unsigned)]
"""Of AdamW: at 1 an average would never take up a gradient, and torch refuses it."""
Temperature = Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)]
"""Of sampling. vLLM takes lower ones for 0.01 with a warning alone, and at them the
log-probabilities of all but one token are lost in rounding; far above, every token is as likely."""


def _check_temperature(value: float) -> float:
    if 0 < value < 0.01:
        raise ValueError("must be 0, which is greedy, or at least 0.01")
    return _unsigned(value)


TemperatureOrGreedy = Annotated[
    float, Field(ge=0, le=100, allow_inf_nan=False), AfterValidator(_check_temperature)
]
"""Of an evaluation; at 0 the most likely token is taken."""
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
GraderName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$|^[\w.]+:[\w.@-]+$")]
"""A name, or a function's: fgrpo_bench.graders.function."""
FolderName = Annotated[Name, AfterValidator(_not_reserved)]
"""A name that becomes a folder beside the run root's own files."""
Axis = Annotated[tuple[T, ...], AfterValidator(_distinct)]
"""Values of which none is given twice."""


def _loaded(modules: tuple[str, ...]) -> tuple[str, ...]:
    registry.load(modules)
    return modules


Plugins = Annotated[tuple[str, ...], AfterValidator(_loaded)]
"""Modules that add to the tables of fgrpo_bench.core.registry; have done so once they are
validated."""


def registered(table: str) -> AfterValidator:
    """The name must stand in a table of fgrpo_bench.core.registry."""

    def check(name: str) -> str:
        registry.entry(table, name)
        return name

    return AfterValidator(check)


class OneOf:
    """Base of a type of which each entry of a table has its own kind, told by a field.

    A class that names table=, key= and member= is validated as the kind that its data names: the
    attribute `member` of that entry. Classes that inherit from it are the kinds. What else a
    validation is to be called with, e.g. {"extra": "ignore"}, must be its context too.
    """

    _union: ClassVar[tuple[type, str, str, str]]

    def __init_subclass__(cls, *, table: str = "", key: str = "", member: str = "") -> None:
        super().__init_subclass__()
        if table:
            cls._union = (cls, table, key, member)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        if cls is not cls._union[0]:
            schema: core_schema.CoreSchema = handler(source)
            return schema
        return core_schema.with_info_plain_validator_function(cls._validated)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return handler(cls._kinds().core_schema if cls is cls._union[0] else schema)

    @classmethod
    def _validated(cls, value: Any, info: core_schema.ValidationInfo) -> Any:
        if isinstance(value, cls):
            return value
        passed: dict[str, Any] = {"context": info.context, **(info.context or {})}
        if info.mode == "json":
            return cls._kinds().validate_json(json.dumps(value), **passed)
        return cls._kinds().validate_python(value, **passed)

    @classmethod
    def _kinds(cls) -> TypeAdapter[Any]:
        _, table, key, member = cls._union
        entries = registry.table(table).items()  # as it is now: plug-ins may have added to it
        return _tagged(tuple((name, getattr(entry, member)) for name, entry in entries), key)


@cache
def _tagged(kinds: tuple[tuple[str, type], ...], key: str) -> TypeAdapter[Any]:
    class Tagged:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
            choices = {name: handler.generate_schema(kind) for name, kind in kinds}
            return core_schema.tagged_union_schema(choices, discriminator=key)

    return TypeAdapter(Tagged)


def check_name(option: str, name: str) -> None:
    """ValueError for a name given on a command line that cannot be one folder of a run root."""
    try:
        adapter(FolderName).validate_python(name)
    except ValidationError as error:
        rule = error.errors()[0]["msg"]
        raise ValueError(
            f"{option} {name!r}: {rule[0].lower()}{rule[1:]}; it names a folder: take "
            "small letters, digits, dots, dashes and underlines"
        ) from None


adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""What checks and dumps values of a type, made once."""


def to_dict(value: Any) -> dict[str, Any]:
    """A spec as plain JSON types, every field present."""
    dumped = adapter(type(value)).dump_python(value, mode="json")
    assert isinstance(dumped, dict)
    return dumped


def from_dict(cls: type[T], data: Any) -> T:
    """Strictly validated inverse of `to_dict`; raises pydantic.ValidationError."""
    value: T = adapter(cls).validate_json(json.dumps(data))
    return value
