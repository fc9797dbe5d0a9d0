"""Rows, results and settings of the models at the ports of SplitJoin's blocks."""

from __future__ import annotations

from typing import Any

from muntin.contract.designs.splitjoin import JoinSettings, SplitJoinParameters, second_column
from muntin.sim.models.splitjoin import JoinResult, JoinRow


def pack_row(row: JoinRow, parameters: SplitJoinParameters) -> dict[str, int]:
    """A payload of `tagged_row`."""
    payload = {"side": row.side, "null": int(row.null), "more": int(row.more), "key": row.key, "row": row.row}
    if parameters.time_bits:
        payload |= {"mark": int(row.mark), "time": row.time}
    if parameters.bounds:
        payload |= {"again": int(row.again), "lower": row.lower, "upper": row.upper}
    return payload | {name: getattr(row, name) for name in second_column(parameters)}


def unpack_result(payload: dict[str, int]) -> JoinResult:
    """From a payload of `result_layout`."""
    if payload["star"]:
        return JoinResult(payload["probe"], last=bool(payload["last"]))
    return JoinResult(payload["probe"], payload["row"])


def pack_result(result: JoinResult, before: int = 0) -> dict[str, int]:
    """A payload of `result_layout`."""
    star = result.row is None
    return {
        "star": int(star),
        "last": int(result.last),
        "probe": result.probe,
        "row": 0 if star else result.row,
        "before": before,
        "gone": 0,
        "in_order": 0,
    }


def set_settings(dut: Any, settings: JoinSettings, *, prefix: str = "") -> None:
    """Drives the ports of `SettingsSignature`."""
    values = {
        "left_rows": settings.windows[0],
        "right_rows": settings.windows[1],
        "low": settings.low,
        "high": settings.high,
        "complement": int(settings.complement),
        "own_bounds": int(settings.own_bounds),
        "order": int(settings.order),
        "every": settings.every,
        "timed": int(settings.timed),
        "time_low": settings.time_low,
        "time_high": settings.time_high,
        "left_late": settings.late[0],
        "right_late": settings.late[1],
    }
    for name, value in values.items():
        port = getattr(dut, f"{prefix}settings__{name}", None)
        if port is not None:
            port.value = value & ((1 << len(port)) - 1)
