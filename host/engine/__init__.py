"""Engines: sequenced batches of encoded keys in, row-number pairs out."""
