"""Format of Avro values: the argument ``avro=`` of ``poll_arrow`` and ``iter_arrow``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kohort.columns.avro_values.schema import AvroProblem, parse_schema
from kohort.errors import UsageError
from kohort.schemas.framing import SchemaRef

WriterSchemas = Callable[[Any], str]
"""Function that returns the text of a schema by its id, or by its GUID as text. Raises LookupError if unknown."""
FRAMINGS: Final = ("prefix", "header", "none")


class AvroFormat:
    """Format of Avro values, for ``poll_arrow(avro=)`` and ``iter_arrow(avro=)``.

    ``schema``: reader's schema as JSON text, whose fields become columns. Without it, the first batch decides: the
    schema with the highest id in it is the reader's schema from then on.

    ``registry``: writers' schemas by id, as a mapping or a function that returns the text of a schema. A function runs
    once for each id. It raises LookupError for an unknown id, which makes the value undecodable; other errors are
    raised to the caller, and no record is lost.

    ``framing``: ``prefix`` for byte 00 and an id of 4 bytes before each value; ``header`` for the header
    ``__value_schema_id``, or else a prefix; ``none`` for values of one schema without an id.

    Use one object for all calls: it keeps the compiled schemas. Threads may share it. Raises UsageError for an invalid
    schema or other invalid arguments.

    Avro 1.12, "Schema Resolution". Guide: docs/guides/arrow.md.
    """

    def __init__(
        self,
        schema: str | None = None,
        *,
        registry: WriterSchemas | Mapping[Any, str] | None = None,
        framing: str = "prefix",
    ) -> None:
        if framing not in FRAMINGS:
            raise UsageError(f"framing={framing!r}: expected {', '.join(FRAMINGS)}")
        if framing == "none" and (schema is None or registry is not None):
            raise UsageError("framing='none' needs schema=, and no registry=: all values have this schema")
        if framing != "none" and not (callable(registry) or isinstance(registry, Mapping)):
            raise UsageError(
                f"registry={registry!r:.80}: expected a function or mapping from schema ids to schemas;"
                " for values without ids set framing='none'"
            )
        self.schema = schema
        self.framing = framing
        self._registry = registry
        self.decoder: Any = None
        if schema is not None:
            try:
                parse_schema(schema)
            except AvroProblem as problem:
                raise UsageError(f"schema: {problem}") from None

    def writer_schema(self, reference: SchemaRef) -> str:
        """Return the text of a writer's schema. Raises LookupError for an unknown id or GUID."""
        if isinstance(self._registry, Mapping):
            return self._registry[reference]
        assert self._registry is not None
        return self._registry(reference)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "decoder": None}
