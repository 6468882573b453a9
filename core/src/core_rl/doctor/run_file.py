"""Can this run file run here: its parts, its model, and whether memory and disk are enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.doctor.machine import Machine, gigabytes
from core_rl.doctor.model import model_facts
from core_rl.doctor.plugins import PluginReport
from core_rl.errors import UserError
from core_rl.plugins.selected import selected
from core_rl.plugins.selectors import canonical

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

_WEIGHT, _GRADIENT, _ADAM = 4, 4, 8
"""Bytes a parameter, in float32: engines keep master weights, and AdamW two moments."""


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at. `problem` says that the run cannot work, or will not end well."""

    what: str
    text: str
    problem: bool = False


def examine_run_file(
    path: Path, overrides: Sequence[str], *, machine: Machine, plugins: Sequence[PluginReport], torch: Mapping[str, Any]
) -> list[Finding]:
    """Every finding; a file with mistakes gives those alone."""
    try:
        run_file = load_run_file(path, overrides)
        check_capabilities(run_file)
    except UserError as error:
        return [Finding(what="run file", text=line, problem=True) for line in str(error).splitlines()]
    findings = [Finding(what="run file", text=f"{path}: no mistakes")]
    findings += _parts(run_file, plugins)
    try:
        model = model_facts(run_file.model)
    except UserError as error:
        return [*findings, Finding(what="model", text=str(error), problem=True)]
    size = "" if model.parameters is None else f", {model.parameters / 1e6:,.1f} million parameters"
    findings.append(Finding(what="model", text=f"{run_file.model.path or 'no path'}: {model.where}{size}"))
    if model.parameters is not None and getattr(run_file.train_engine.options, "lora", None) is None:
        findings += _sizes(run_file, model.parameters, machine, torch)
    return findings


def _parts(run_file: RunFile, plugins: Sequence[PluginReport]) -> Iterator[Finding]:
    """What each section selects, and whether that plugin works here."""
    reports = {canonical(report.plugin): report for report in plugins}
    for path, selection in selected(run_file):
        report = reports.get(canonical(selection.plugin)) if selection.plugin else None
        source = f" ({selection.plugin})" if selection.plugin else ""
        reason = "" if report is None or selection.component is None else _why_not(report, selection.component.target)
        text = f"{selection.name}{source}"
        yield Finding(what=path, text=f"{text}: {reason}" if reason else text, problem=bool(reason))


def _why_not(report: PluginReport, target: str) -> str:
    """Why this component of the plugin does not work here; empty when it does."""
    if report.errors:
        return report.errors.get(target, "")
    if report.state == "works":
        return ""
    return f"{report.reason}: {report.mend}" if report.mend else report.reason


def _sizes(run_file: RunFile, parameters: int, machine: Machine, torch: Mapping[str, Any]) -> Iterator[Finding]:
    """Memory for the state of training in one process, and disk for its checkpoints."""
    reference = run_file.algorithm.options.kl.coef > 0
    need = parameters * (_WEIGHT + _GRADIENT + _ADAM + (_WEIGHT if reference else 0))
    free, place = _memory(machine, torch)
    what = "weights, gradients and AdamW" + (", and the reference policy" if reference else "")
    yield Finding(
        what="memory",
        text=f"{gigabytes(need)} for {what} in float32, before activations and caches; {gigabytes(free)} free {place}",
        problem=need > free,
    )
    section = run_file.checkpoint
    one = parameters * (_WEIGHT + _ADAM)
    kept = section.keep + 1 if section.every else 1  # a new one is whole before an old one goes
    disk = one * kept * bool(section.every or section.at_end) + parameters * _WEIGHT * section.export_hf
    yield Finding(
        what="disk",
        text=f"{gigabytes(disk)} for checkpoints and the final model; {gigabytes(machine.disk_free)} free at {machine.disk_path}",
        problem=disk > machine.disk_free,
    )


def _memory(machine: Machine, torch: Mapping[str, Any]) -> tuple[int, str]:
    """Where one process would train: the first GPU when there is one."""
    gpus = torch.get("gpus", [])
    return (gpus[0]["free"], f"on {gpus[0]['name']}") if gpus else (machine.memory_available, "in main memory")
