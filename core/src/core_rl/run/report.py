"""`report.html`: a run on one page, in one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core_rl.run.charts import COLOURS, line_chart
from core_rl.run.files import write_atomically
from core_rl.run.headline import headline
from core_rl.run.record import Row, RunRecord, first_and_last
from core_rl.run.report_completions import completions, escaped
from core_rl.run.report_style import STYLE
from core_rl.run.text import clock, number

_CHARTS: Sequence[tuple[str, Sequence[str]]] = (
    ("Reward", ("reward/mean",)),
    ("Held-out reward", ("eval/reward/mean",)),
    ("Rewards by name", ("reward/*/mean",)),
    ("Loss", ("loss",)),
    ("Held-out loss", ("eval/loss",)),
    ("Pairs: share with the preferred side ahead", ("rewards/accuracy", "eval/rewards/accuracy")),
    ("Entropy", ("entropy/mean",)),
    ("Gradient norm", ("optim/grad_norm",)),
    ("KL", ("kl/*",)),
    ("Trainer against sampler: difference of log-probabilities", ("mismatch/*",)),
    ("Completion length, tokens", ("len/completion_mean", "len/completion_max")),
    ("Shares: truncated, groups without spread", ("len/truncated_frac", "reward/zero_std_frac")),
    ("Tokens per second", ("perf/tok_s",)),
    ("Time of a step, seconds", ("time/step", "time/rollout", "time/logprob", "time/train", "time/sync")),
)
_PHASES = ("rollout", "logprob", "train", "sync")


def write_report(run_dir: Path) -> Path:
    """Write the report of a run's folder and return its path.

    Raises:
        CheckpointError: the folder is no run's.
    """
    record = RunRecord.read(run_dir)
    write_atomically(record.directory.report, render(record))
    return record.directory.report


def render(record: RunRecord) -> str:
    """The page."""
    name = escaped(record.manifest.get("name", record.directory.path.name))
    sections = [
        f"<h1>{name}</h1>",
        _facts(record),
        _tiles(record),
        _time_split(record),
        _charts(record),
        completions(record),
        _plugins(record.manifest.get("plugins") or []),
        f"<details><summary>Configuration</summary><pre>{escaped(record.config)}</pre></details>",
    ]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{name} · core-rl</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main>{''.join(sections)}</main></body></html>\n"
    )


def _facts(record: RunRecord) -> str:
    manifest, machine = record.manifest, record.manifest.get("machine") or {}
    gpus = machine.get("gpus") or []
    commit = manifest.get("git") or {}
    facts = {
        "status": manifest.get("status"),
        "started": manifest.get("started"),
        "algorithm": manifest.get("algorithm"),
        "seed": manifest.get("seed"),
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB" if machine else None,
        "GPUs": "; ".join(gpus) or None,
        "commit": commit and f"{commit['commit'][:12]}{' and changes' if commit['dirty'] else ''}",
        "command": " ".join(manifest.get("command") or []),
    }
    rows = "".join(f"<dt>{key}</dt><dd>{escaped(value)}</dd>" for key, value in facts.items() if value not in (None, "", {}))
    return f"<dl>{rows}</dl>"


def _tiles(record: RunRecord) -> str:
    tiles: list[tuple[str, str, str]] = []
    judged = headline(record.names)
    ends = first_and_last(record.series(judged.train))
    if ends:
        tiles.append(
            (judged.word, f"{number(ends[0])} → {number(ends[1])}", "mean of the first and of the last fifth of the steps")
        )
    held_out = record.series(judged.held_out)
    if len(held_out) > 1:
        first, last = held_out[0], held_out[-1]
        tiles.append(
            (f"held-out {judged.word}", f"{number(first[1])} → {number(last[1])}", f"step {first[0]} and step {last[0]}")
        )
    seconds = sum(value for name in ("time/step", "time/eval") for _, value in record.series(name))
    if record.metrics:
        tiles.append(("steps", str(record.metrics[-1]["step"]), f"{clock(seconds)} in steps and evaluations"))
    speed = [value for _, value in record.series("perf/tok_s")]
    if speed:
        tiles.append(("tokens/s", number(sorted(speed)[len(speed) // 2]), "median over the steps"))
    items = "".join(f"<div><small>{label}</small><b>{value}</b><small>{note}</small></div>" for label, value, note in tiles)
    return f'<section class="tiles">{items}</section>' if items else "<p>No metrics were logged (is the logger jsonl on?).</p>"


def _time_split(record: RunRecord) -> str:
    """Where an average step goes, as one bar."""
    total = sum(value for _, value in record.series("time/step"))
    if not total:
        return ""
    shares = {phase: sum(value for _, value in record.series(f"time/{phase}")) / total for phase in _PHASES}
    shares["rest"] = max(0.0, 1 - sum(shares.values()))
    bar = "".join(
        f'<i class="b{index % COLOURS}" style="width:{share:.2%}"></i>' for index, share in enumerate(shares.values())
    )
    legend = "".join(
        f'<span><i class="b{index % COLOURS}"></i>{phase} {share:.1%}</span>'
        for index, (phase, share) in enumerate(shares.items())
    )
    return f'<figure class="wide"><figcaption>Where the time of a step goes</figcaption><div class="bar">{bar}</div><div class="legend">{legend}</div></figure>'


def _charts(record: RunRecord) -> str:
    figures = []
    for title, patterns in _CHARTS:
        names = [name for pattern in patterns for name in _matching(record.names, pattern)]
        if title == "Rewards by name" and len(names) < 2:
            continue
        chart = line_chart({name: record.series(name) for name in names})
        if chart:
            figures.append(f"<figure><figcaption>{title}</figcaption>{chart}</figure>")
    return f'<section class="charts">{"".join(figures)}</section>'


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    if "*" not in pattern:
        return [name for name in names if name == pattern]
    start, _, end = pattern.partition("*")
    return [name for name in names if name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end)]


def _plugins(plugins: Sequence[Row]) -> str:
    rows = "".join(
        f"<tr><td>{escaped(row['kind'])}</td><td>{escaped(row['name'])}</td><td>{escaped(row['distribution'] or row['target'])}</td>"
        f"<td>{escaped(row['version'] or '')}</td></tr>"
        for row in plugins
    )
    head = "<tr><th>kind</th><th>name</th><th>distribution</th><th>version</th></tr>"
    return f'<details><summary>Plugins</summary><div class="scroll"><table>{head}{rows}</table></div></details>' if rows else ""
