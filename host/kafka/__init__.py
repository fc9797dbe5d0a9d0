"""Joins of two topics of Kafka, exactly once."""

from muntin.host.kafka.formats import Arrow, Avro, Format, Json
from muntin.host.kafka.join import KafkaJoin

__all__ = ["Arrow", "Avro", "Format", "Json", "KafkaJoin"]
