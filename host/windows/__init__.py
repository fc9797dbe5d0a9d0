"""Windows and watermarks."""

from host.windows.rows import Rows
from host.windows.watermark import Watermark
from host.windows.within import Within

__all__ = ["Rows", "Watermark", "Within"]
