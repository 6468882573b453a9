"""The report's style sheet. Six colours that stay apart for colour-blind readers, lighter in the dark."""

from __future__ import annotations

_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a67c00", "#5b6b7a")
_DARK = ("#56b4e9", "#f0883e", "#2fbf95", "#e39ac4", "#e6b422", "#9aa8b5")


def _palette(colours: tuple[str, ...]) -> str:
    return "".join(f"--s{index}:{colour};" for index, colour in enumerate(colours))


_SERIES = "".join(f".c{index}{{stroke:var(--s{index})}}.b{index}{{background:var(--s{index})}}" for index in range(len(_LIGHT)))

STYLE = f"""
:root{{color-scheme:light dark;--back:#fff;--panel:#f6f7f9;--text:#1c2430;--soft:#5b6675;--line:#dfe3e8;
--good:#00704f;--bad:#b3261e;{_palette(_LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{--back:#14181d;--panel:#1c2229;--text:#e4e8ec;--soft:#9aa5b1;--line:#303842;
--good:#4ccf9f;--bad:#ff8a80;{_palette(_DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}}
main{{max-width:1500px;margin:0 auto;padding:24px}}
h1{{margin:0 0 8px;font-size:26px}}h2{{font-size:18px;margin:32px 0 8px}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0 0 20px;color:var(--soft);font-size:13px}}
dd{{margin:0;color:var(--text);overflow-wrap:anywhere}}
.tiles{{display:flex;flex-wrap:wrap;gap:12px;margin-bottom:16px}}
.tiles div{{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:10px 16px;display:grid}}
.tiles b{{font-size:22px;font-variant-numeric:tabular-nums}}small{{color:var(--soft)}}
.charts{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(420px,100%),1fr));gap:12px}}
figure{{margin:0;background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:10px 12px}}
figure.wide{{margin-bottom:12px}}figcaption{{font-weight:600;font-size:14px;margin-bottom:4px}}
svg{{width:100%;height:auto;display:block}}
svg text{{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}}
.grid{{stroke:var(--line)}}
polyline{{fill:none;stroke-linejoin:round}}.mean{{stroke-width:2}}.raw{{stroke-width:1;opacity:.35}}
.dot{{fill:var(--panel);stroke-width:2}}.spot{{fill:transparent;stroke:transparent}}
.spot:hover{{fill:var(--text)}}
{_SERIES}
.spot[class]{{stroke:transparent}}
.legend{{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;color:var(--soft);margin-top:4px}}
.legend i{{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}}
.bar{{display:flex;height:18px;border-radius:4px;overflow:hidden}}.bar i{{display:block}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:13px}}
th,td{{text-align:left;vertical-align:top;padding:8px 10px;border-bottom:1px solid var(--line);white-space:pre-wrap;overflow-wrap:anywhere}}
td small{{display:block;margin-top:4px}}small.good{{color:var(--good)}}small.failed{{color:var(--bad)}}
details{{margin-top:20px}}summary{{cursor:pointer;font-weight:600}}
pre{{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:12px;overflow-x:auto;font-size:12px}}
"""
