import os
from pathlib import Path

from core_rl import Component, hookimpl
from core_rl.errors import Problem


class Watchtower:
    """A class instead of a module, all static."""

    folder = None
    steps = 0

    @staticmethod
    @hookimpl
    def core_rl_rewards():
        return [
            Component(
                name="brief",
                target="watchtower.reward:Brief",
                config="watchtower.reward:BriefConfig",
                summary="right and short",
            )
        ]

    @staticmethod
    @hookimpl
    def core_rl_loggers():
        return [
            Component(
                name="csv",
                target="watchtower.csv_logger:CsvLogger",
                config="watchtower.csv_logger:CsvConfig",
                summary="metrics.csv in the run's folder",
            )
        ]

    @staticmethod
    @hookimpl
    def core_rl_check_config(config):
        if config.run.name == "watchtower":
            return [Problem("", "run.name", "watchtower is taken: choose another name")]
        return []

    @staticmethod
    @hookimpl
    def core_rl_run_start(run):
        Watchtower.folder = Path(run.dir)
        Watchtower.steps = 0

    @staticmethod
    @hookimpl
    def core_rl_step_end(step):
        Watchtower.steps = max(Watchtower.steps, step)

    @staticmethod
    @hookimpl
    def core_rl_should_stop(step, metrics):
        last = int(os.environ.get("WATCHTOWER_LAST_STEP", "0"))
        if last and step >= last:
            return f"watchtower: step {step}, {len(metrics)} metrics"
        return None

    @staticmethod
    @hookimpl
    def core_rl_run_end(run, status):
        text = f"{run.name}: {status} after {Watchtower.steps} steps\n"
        (Watchtower.folder or Path(run.dir)).joinpath("watchtower.txt").write_text(text)

    @staticmethod
    @hookimpl
    def core_rl_describe():
        return {"watchtower": "awake"}

    @staticmethod
    @hookimpl
    def core_rl_add_commands(commands):
        parser = commands.add_parser("watchtower", help="say whether it is awake")
        parser.add_argument("--loud", action="store_true")
        parser.set_defaults(run=_say)


def _say(args):
    print("AWAKE" if args.loud else "awake")
    return 0
