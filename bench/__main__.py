"""The command line of the benchmark: ``python -m bench``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.batch_joins import run_batch_joins
from bench.condition_joins import run_condition_joins
from bench.contenders import Unavailable
from bench.machine import describe_machine
from bench.operator_benchmark import ResultsDiffer, run_operator_benchmark
from bench.plan import (
    CONDITION_PEERS,
    PARTS,
    BatchJoinsPlan,
    ConditionsPlan,
    Plan,
    full_plan,
    leaves_out,
    quick_conditions_plan,
    quick_plan,
)
from bench.report import print_cell, print_condition, print_parts, print_tables, write_report
from bench.short_calls import ShortCallsPlan, run_short_calls
from bench.spark_plan import FloorPlan, SparkPlan
from bench.state import StatePlan, run_state_benchmark
from bench.workloads import KINDS, ROWS


@click.command(context_settings={"max_content_width": 110})
@click.option("--quick", is_flag=True, help="About a minute: the headline cell and a few more; no Spark.")
@click.option("--full", is_flag=True, help="Whole windows and every peer: some hours.")
@click.option("--only", help=f"Parts to run, from {', '.join(PARTS)}, separated by commas.  [default: all]")
@click.option("--device", "devices", multiple=True, help="Beside cpp; repeatable.  [default: cpu, one thread, opencl]")
@click.option("--workload", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Repeatable.  [default: all]")
@click.option("--window", "windows", multiple=True, type=ROWS, help="Rows a side in the window; repeatable.")
@click.option("--batch", "batches", multiple=True, type=ROWS, help="Rows a side in one call; repeatable.")
@click.option(
    "--contender",
    "contenders",
    multiple=True,
    help="cpp, numpy-searchsorted, polars, duckdb, DEVICE or DEVICE/INDEX; repeatable, and then in every cell.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="CONTENDER",
    help="Leave it out, here and in other parts; repeatable: spark leaves conditions without Spark.",
)
@click.option("--micro-batch", type=ROWS, help="Rows of both sides in one Spark micro-batch.  [default: 256K]")
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Time for one contender in one cell.")
@click.option("--turns", type=click.IntRange(min=1), help="Turns of each cell; figures are medians over them.")
@click.option("--steps", is_flag=True, help="Print the time of each step of a call, too.")
@click.option("--seed", type=int, default=20, show_default=True, help="Seed of all data.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/bench"),
    show_default=True,
    help="Folder for JSON and plots.",
)
def main(
    quick: bool,
    full: bool,
    only: str | None,
    devices: tuple[str, ...],
    kinds: tuple[str, ...],
    windows: tuple[int, ...],
    batches: tuple[int, ...],
    contenders: tuple[str, ...],
    without: tuple[str, ...],
    micro_batch: int | None,
    seconds: float | None,
    turns: int | None,
    steps: bool,
    seed: int,
    out: Path,
) -> None:
    """Measure the window join beside its peers, on the same batches, in the same run.

    Without options: every workload, window and batch size, then batch joins by other engines (peers), then Spark, how
    near the join comes to Spark's floor, what state costs, how long calls of few rows take (calls), then conjunctions,
    outer, as-of and aggregate joins (conditions); some 50 minutes on two cores. Pairs of all contenders are compared as
    they come, and a difference ends the command with an error.
    """
    if quick and full:
        raise click.UsageError("--quick and --full exclude each other")
    parts = _parts(only, quick, bool(kinds or windows or batches or contenders))
    plan = quick_plan() if quick else full_plan() if full else Plan()
    changes: dict = {"seed": seed}
    if devices:
        changes["contenders"] = (*devices, "cpp")
    if contenders:
        changes |= {"contenders": contenders, "extra": ()}
    given = {"kinds": kinds, "windows": windows, "batches": tuple(sorted(batches, reverse=True))}
    changes |= {name: value for name, value in given.items() if value}
    changes |= {name: value for name, value in (("seconds", seconds), ("turns", turns)) if value is not None}
    plan = dataclasses.replace(plan, **changes)

    peers_plan = BatchJoinsPlan(seed=seed)
    for name in without:
        known_names = (*plan.contenders, *plan.extra, *peers_plan.contenders, *CONDITION_PEERS)
        if not any(leaves_out(known, (name,)) for known in known_names):
            raise click.BadParameter(f"{name!r} is no contender of this run", param_hint="--without")
    try:
        plan = plan.without(without)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--without") from error
    # The first window and batch named stand for the batch joins', too.
    sizes: dict[str, Any] = {"window": windows[:1], "batch": batches[:1]}
    peers_plan = dataclasses.replace(
        peers_plan.without(without), **{name: value[0] for name, value in sizes.items() if value}
    )

    spark_plan = SparkPlan(seed=seed, device=devices[0] if devices else "cpu")
    if quick:
        spark_plan = dataclasses.replace(spark_plan, window=1 << 17, batch=1 << 16, steps=3)
    if full:
        spark_plan = dataclasses.replace(spark_plan, steps=9, tuned=True)
    if micro_batch is not None:
        spark_plan = dataclasses.replace(spark_plan, batch=micro_batch)

    floor_plan = FloorPlan(seed=seed, window=spark_plan.window)
    if quick:
        floor_plan = dataclasses.replace(floor_plan, batches=(spark_plan.batch,))
    floor_plan = dataclasses.replace(
        floor_plan,
        turns=turns or floor_plan.turns,
        batches=floor_plan.batches if micro_batch is None else (micro_batch,),
    )
    state_plan = StatePlan(window=windows[0] if windows else spark_plan.window, batch=spark_plan.batch, seed=seed)
    state_plan = dataclasses.replace(state_plan, recovery_window=8 * state_plan.window, turns=turns or state_plan.turns)
    conditions_plan = dataclasses.replace(quick_conditions_plan() if quick else ConditionsPlan(), seed=seed)
    if micro_batch is not None:
        conditions_plan = dataclasses.replace(conditions_plan, micro_batch=micro_batch)
    conditions_plan = conditions_plan.without(without)
    calls_plan = ShortCallsPlan(seed=seed)

    console = Console()
    result = describe_machine()
    result["parameters"] = {"operator": dataclasses.asdict(plan), "peers": dataclasses.asdict(peers_plan)}
    result["parameters"] |= {"spark": dataclasses.asdict(spark_plan), "floor": dataclasses.asdict(floor_plan)}
    result["parameters"] |= {"state": dataclasses.asdict(state_plan), "calls": dataclasses.asdict(calls_plan)}
    result["parameters"]["conditions"] = dataclasses.asdict(conditions_plan)
    try:
        if "operator" in parts:
            result["operator"] = []
            _operator(console, plan, result["operator"], steps)
        if "peers" in parts:
            with console.status("batch joins") as status:
                result["peers"] = run_batch_joins(peers_plan, on_stage=status.update)
        if "spark" in parts:
            result["spark"] = _spark(console, spark_plan)
        if "floor" in parts:
            from bench.spark_join import run_floor

            with console.status("spark: starting four queries") as status:
                result["floor"] = run_floor(floor_plan, on_stage=status.update)
        if "state" in parts:
            with console.status("state") as status:
                result["state"] = run_state_benchmark(state_plan, on_stage=status.update)
        if "calls" in parts:
            with console.status("short calls") as status:
                result["calls"] = run_short_calls(calls_plan, on_stage=status.update)
        if "conditions" in parts:
            result["conditions"] = []
            _conditions(console, conditions_plan, result["conditions"])
    except ResultsDiffer as error:
        raise click.ClickException(f"results differ: {error}") from error
    except Unavailable as error:
        raise click.ClickException(str(error)) from error
    finally:
        # What was measured before a difference or an interrupt is kept.
        if any(result.get(part) for part in PARTS):
            print_tables(console, result)
            for path in write_report(result, out):
                console.print(f"wrote {path}", highlight=False)


def _parts(only: str | None, quick: bool, cells_given: bool) -> tuple[str, ...]:
    if only is None:
        return ("operator",) if quick or cells_given else PARTS
    parts = tuple(part.strip() for part in only.split(","))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(PARTS)}", param_hint="--only")
    return parts


def _operator(console: Console, plan: Plan, cells: list[dict], steps: bool) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    missing: dict[str, str] = {}
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("operator", total=plan.cells())

        def on_cell(cell: dict) -> None:
            for name, reason in cell.get("missing", {}).items():
                if name not in missing:
                    missing[name] = reason
                    console.print(f"without {name}: {reason}", highlight=False)
            cells.append(cell)
            print_cell(console, cell)
            if steps:
                print_parts(console, cell)
            progress.advance(task)

        def on_stage(stage: str) -> None:
            progress.update(task, description=stage)

        run_operator_benchmark(plan, on_cell=on_cell, on_stage=on_stage)


def _spark(console: Console, plan: SparkPlan) -> dict:
    from bench.spark_join import run_spark_benchmark

    with console.status("spark: starting two queries"):
        return run_spark_benchmark(plan, on_stage=lambda stage: console.print(stage, highlight=False, soft_wrap=True))


def _conditions(console: Console, plan: ConditionsPlan, figures: list[dict]) -> None:
    with console.status("conditions") as status:

        def on_stage(stage: str) -> None:
            status.update(stage)
            if stage.startswith("spark:"):  # each takes up to some minutes
                console.print(stage, highlight=False, soft_wrap=True)

        for figure in run_condition_joins(plan, on_stage):
            figures.append(figure)
            print_condition(console, figure)


if __name__ == "__main__":
    main(prog_name="python -m bench")
