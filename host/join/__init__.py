"""The operator in its parts: sequencer, engines, materializer and row log."""
