"""Draws `docs/join.svg`: two streams, their windows and a band. `python docs/pictures.py` writes it again.

Text is drawn as paths, so that the picture needs no font.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

#: (time, price) of each row, up to the ask that has just arrived.
BIDS = [(0.6, 6.2), (1.7, 3.9), (3.1, 5.6), (4.3, 2.1), (5.2, 4.3), (6.4, 7.4), (7.3, 5.2), (8.3, 3.2)]
ASKS = [(2.1, 5.2), (2.5, 7.1), (3.7, 3.3), (4.9, 6.6), (6.0, 3.0), (7.8, 6.9)]
NEW, WINDOW, BAND = (9.2, 4.8), 6.4, 1.0
BID, ASK, GONE = "#1f6fb4", "#c2571a", "#b8b8b8"


def draw(path: Path) -> None:
    plt.rcParams |= {"svg.hashsalt": "muntin", "svg.fonttype": "path", "font.size": 10}
    figure, axes = plt.subplots(figsize=(8.4, 3.4))
    begin, price = NEW[0] - WINDOW, NEW[1]
    axes.axvspan(begin, NEW[0], ymin=0.0, ymax=1.0, color="#eef4fa", zorder=0)
    axes.axhspan(price - BAND, price + BAND, xmin=0, xmax=1, color="#f6dfce", alpha=0.65, zorder=1)
    for rows, color, marker in ((BIDS, BID, "o"), (ASKS, ASK, "s")):
        for time, value in rows:
            axes.scatter(time, value, s=52, marker=marker, color=color if time >= begin else GONE, zorder=3)
    for time, value in BIDS:
        if time >= begin and abs(value - price) <= BAND:
            axes.plot([time, NEW[0]], [value, price], color=BID, linewidth=1.1, zorder=2)
            axes.scatter(time, value, s=150, facecolors="none", edgecolors=BID, linewidths=1.3, zorder=3)
    axes.scatter(*NEW, s=120, marker="s", color=ASK, edgecolors="black", zorder=4)
    axes.text(NEW[0] + 0.2, price, "an ask\narrives", va="center")
    axes.annotate("", (begin, 8.5), (NEW[0], 8.5), arrowprops={"arrowstyle": "<->", "color": "#444444"})
    axes.text(
        (begin + NEW[0]) / 2, 8.62, "the windows: what is still within reach of a new row", ha="center", va="bottom"
    )
    axes.text(begin - 0.15, 8.62, "expired", ha="right", va="bottom", color="#777777")
    axes.text(0.05, price, "the band:\nits price ± 5", va="center", color="#8a3d10")
    axes.scatter([], [], s=52, marker="o", color=BID, label="bids (left stream)")
    axes.scatter([], [], s=52, marker="s", color=ASK, label="asks (right stream)")
    axes.plot([], [], color=BID, linewidth=1.1, label="pairs that are emitted")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, frameon=False)
    axes.set(xlim=(0, 10.3), ylim=(1.2, 9.3), xticks=[], yticks=[], ylabel="price")
    axes.set_xlabel("time  →", loc="right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("join.svg"))
