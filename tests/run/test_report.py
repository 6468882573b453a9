"""The report, the charts in it, and the picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.cli.main import main
from core_rl.errors import CheckpointError, UserError
from core_rl.run.charts import line_chart, smoothed, thinned, ticks
from core_rl.run.plot import plot_run
from core_rl.run.record import RunRecord, first_and_last
from core_rl.run.report import write_report

METRICS = [{"step": 0, "eval/reward/mean": 0.1, "time/eval": 2.0}] + [
    {"step": step, "reward/mean": step / 10, "loss": None if step == 3 else 0.5, "kl/k3": 0.01 * step, "time/step": 2.0,
     "time/rollout": 1.0, "time/train": 0.8, "perf/tok_s": 100.0 + step, **({"eval/reward/mean": 0.9} if step == 10 else {})}
    for step in range(1, 11)
]  # fmt: skip


def sample(identity, completion, reward, split="eval"):
    return {"split": split, "id": identity, "prompt": f"<|im_start|>user\nq{identity} <script>", "completion": completion,
            "answer": 7, "reward": reward, "finish_reason": "length"}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    (tmp_path / "config.yaml").write_text("run: {name: <b>bold</b>}\n")
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in METRICS) + '{"step": 11, "rew')
    (tmp_path / "samples").mkdir()
    for step, said in ((0, "before"), (10, "after")):
        rows = [sample("a", f"{said}-a\x1b[31m", 0.0), sample("a", "second sample", 1.0), sample("b", f"{said}-b", None)]
        text = "".join(json.dumps({"step": step, **row}) + "\n" for row in rows)
        (tmp_path / "samples" / f"step-{step:06d}.jsonl").write_text(text)
    manifest = {
        "name": "r<i>",
        "status": "done",
        "seed": 1,
        "plugins": [{"kind": "loss", "name": "ppo_clip", "distribution": "core-rl-grpo", "version": "0.1.0", "target": "a:b"}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


class Page(HTMLParser):
    """Every tag with its attributes, balanced; and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else(run):
    """Well-formed, no outside resource, no script; whatever the run said is escaped."""
    page = Page(write_report(run).read_text())
    tags = {tag for tag, _ in page.tags}

    assert page.open == []
    assert not tags & {"script", "link", "img", "iframe", "b2"}
    assert not any(key in attributes for _, attributes in page.tags for key in ("src", "href"))
    assert "<script>" in page.text
    assert "\\x1b[31m" in page.text


def test_the_page_says_what_matters(run):
    """First against last, the charts there is data for, before and after by prompt, configuration, plugins."""
    text = Page(write_report(run).read_text()).text

    assert "0.150 → 0.950" in text
    assert "0.100 → 0.900" in text
    assert "rollout 50.0%" in text
    assert "rest 10.0%" in text
    assert "KL" in text
    assert "Entropy" not in text
    assert text.index("before-a") < text.index("after-a") < text.index("before-b") < text.index("after-b")
    assert "second sample" not in text
    assert "reward failed · cut" in text
    assert "<b>bold</b>" in text
    assert "core-rl-grpo" in text


def test_a_run_that_has_hardly_begun(tmp_path):
    """Only a configuration: the page says that nothing was logged."""
    (tmp_path / "config.yaml").write_text("run: {}\n")

    assert "No metrics were logged" in Page(write_report(tmp_path).read_text()).text


def test_without_evaluations_the_training_samples_are_shown(run):
    """Those logged last."""
    for path in (run / "samples").iterdir():
        path.write_text(path.read_text().replace('"eval"', '"train"'))
    text = Page(write_report(run).read_text()).text

    assert "Completions of step 10" in text
    assert "before-a" not in text


def test_the_command(run, capsys):
    """Prints the paths; a folder that is no run is the user's mistake."""
    assert main(["report", str(run), "--png", str(run / "plots" / "x.png")]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines == [str(run.resolve() / "report.html"), str(run / "plots" / "x.png")]
    assert (run / "plots" / "x.png").read_bytes().startswith(b"\x89PNG")
    assert main(["report", str(run / "samples")]) == 2
    assert "is no run folder" in capsys.readouterr().err


def test_a_plot_needs_rewards(tmp_path):
    """One line that says what is missing."""
    (tmp_path / "config.yaml").write_text("run: {}\n")

    with pytest.raises(UserError, match=r"no reward or loss in metrics\.jsonl"):
        plot_run(tmp_path, tmp_path / "x.png")
    with pytest.raises(CheckpointError, match="is no folder"):
        plot_run(tmp_path / "nowhere", tmp_path / "x.png")


def test_a_record_leaves_out_what_is_not_there(run):
    """Values that were not finite and torn lines are gaps."""
    record = RunRecord.read(run)

    assert [step for step, _ in record.series("loss")] == [1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert record.series("nothing") == []
    assert first_and_last([(step, float(step)) for step in range(10)]) == (0.5, 8.5)
    assert first_and_last([]) is None


finite = st.floats(-1e12, 1e12)


@given(st.lists(finite, min_size=1, max_size=40), st.lists(finite, max_size=3))
@settings(deadline=None, max_examples=100)
def test_charts_of_any_numbers_are_sound(first, second):
    """Every drawn coordinate is within the picture, and the SVG parses."""
    chart = line_chart({"a<b": list(enumerate(first)), "c": list(enumerate(second))})
    svg = ET.fromstring(chart.partition("</svg>")[0] + "</svg>")

    for line in svg.iter("polyline"):
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 460
            assert 0 <= y <= 220


@given(finite, st.floats(1e-6, 1e9))
def test_ticks_are_few_and_inside(low, width):
    """Two to six of them, for any interval that floats can tell apart."""
    high = low + width
    if high - low > 1e-9 * abs(low):
        found = ticks(low, high)

        assert 1 <= len(found) <= 6
        assert all(low - width * 1e-6 <= value <= high + width * 1e-6 for value in found)


def test_smoothing_and_thinning_by_hand():
    """A straight line stays one; a long series keeps its mean and fits."""
    line = [(float(x), 2.0 * x) for x in range(1000)]

    assert smoothed(line) == line
    assert smoothed([(0, 0.0), (1, 3.0), (2, 0.0)])[1] == (1, 1.0)
    assert len(thinned(line)) <= 240
    assert thinned(line)[0] == (2.0, 4.0)
    assert thinned(line[:7]) == line[:7]
    assert line_chart({"a": []}) == ""


def test_an_offline_run_is_judged_by_its_loss(tmp_path):
    """Tiles, charts and picture have training and held-out loss, and the accuracy of pairs."""
    (tmp_path / "config.yaml").write_text("run: {}\n")
    rows = [{"step": 0, "eval/loss": 0.7}] + [{"step": step, "loss": 1 / step, "rewards/accuracy": 0.5} for step in range(1, 6)]
    rows.append({"step": 6, "loss": 0.1, "eval/loss": 0.3, "eval/rewards/accuracy": 0.9})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = Page(write_report(tmp_path).read_text()).text
    plot_run(tmp_path, tmp_path / "x.png")

    for part in ("held-out loss", "0.700 → 0.300", "loss", "Held-out loss", "share with the preferred side ahead"):
        assert part in text, part
    assert "held-out reward" not in text
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
