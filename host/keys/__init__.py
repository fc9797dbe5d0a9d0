"""Values as keys: their types, constants, durations, order and digests."""
