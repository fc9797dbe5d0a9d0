"""The join itself: conditions, windows, indexes, engines, devices, state, and the daemon."""
