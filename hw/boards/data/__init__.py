"""One file for each board, with its `BOARD`. Standard library only, as the host reads them too."""
