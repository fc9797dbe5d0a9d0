"""Windows and watermarks."""

from muntin.host.windows.rows import Rows
from muntin.host.windows.watermark import Watermark
from muntin.host.windows.within import Within

__all__ = ["Rows", "Watermark", "Within"]
