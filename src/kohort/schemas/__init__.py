"""Serializers, deserializers and the schema registry, without I/O."""
