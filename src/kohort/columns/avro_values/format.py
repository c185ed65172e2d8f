"""Format of Avro values: the argument ``avro=`` of ``poll_arrow`` and ``iter_arrow``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kohort.columns.avro_values.writers import check_schema, is_source, writer_schema
from kohort.errors import UsageError
from kohort.schemas.framing import SchemaRef

if TYPE_CHECKING:
    import pyarrow

FRAMINGS: Final = ("prefix", "header", "none")


class AvroFormat:
    """Format of Avro values, for ``poll_arrow(avro=)`` and ``iter_arrow(avro=)``.

    ``schema``: reader's schema, whose fields become columns: Avro as JSON text, or a pyarrow.Schema that selects fields
    of the writers in the types of their columns. Without it, the first batch decides: the
    schema with the highest id in it is the reader's schema from then on.

    ``registry``: writers' schemas by id: a ``kohort.SchemaRegistry``, another blocking client with its methods (such as
    confluent-kafka's), a mapping, or a function that returns the text of a schema. It is asked once for each id. An
    unknown id (LookupError of a function) makes the value undecodable; other errors are raised to the caller, and the
    next call reads the same records.

    ``framing``: ``prefix`` for byte 00 and an id of 4 bytes before each value; ``header`` for the header
    ``__value_schema_id``, or else a prefix; ``none`` for values of one schema without an id.

    Use one object for all calls: it keeps the compiled schemas. Threads may share it. Raises UsageError for an invalid
    schema or other invalid arguments.

    Avro 1.12, "Schema Resolution". Guide: docs/guides/arrow.md.
    """

    def __init__(
        self,
        schema: str | pyarrow.Schema | None = None,
        *,
        registry: Any = None,
        framing: str = "prefix",
    ) -> None:
        if framing not in FRAMINGS:
            raise UsageError(f"framing={framing!r}: expected {', '.join(FRAMINGS)}")
        if framing == "none" and (not isinstance(schema, str) or registry is not None):
            raise UsageError("framing='none' needs schema= as Avro text, and no registry=: all values have this schema")
        if framing != "none" and not is_source(registry):
            raise UsageError(
                f"registry={registry!r:.80}: expected a registry client, a function or a mapping of schemas by id;"
                " for values without ids set framing='none'"
            )
        self.schema = schema
        self.framing = framing
        self._registry = registry
        self.decoders: dict[str, Any] = {}
        if isinstance(schema, str):
            check_schema(schema)
        elif schema is not None and not hasattr(schema, "types"):
            raise UsageError(f"schema= takes Avro as JSON text or a pyarrow.Schema, not {type(schema).__name__}")

    def writer_schema(self, reference: SchemaRef) -> tuple[str, dict[str, str]]:
        """Return the text of a writer's schema, and of its references by name. Raises as ``writers.writer_schema``."""
        assert self._registry is not None
        return writer_schema(self._registry, reference)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "decoders": {}}
