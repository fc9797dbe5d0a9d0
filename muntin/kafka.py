"""Joins of two topics of Kafka, exactly once, in one process. Needs ``pip install 'muntin[kafka]'``."""

from muntin.host.kafka import Arrow, Avro, Format, Json, KafkaJoin

__all__ = ["Arrow", "Avro", "Format", "Json", "KafkaJoin"]
