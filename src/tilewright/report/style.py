"""The style sheet of reports; follows the reader's choice of light or dark."""

from __future__ import annotations

STYLE = """
:root{--ink:#1c2430;--dim:#647084;--rule:#dde3ec;--back:#fff;--soft:#f5f7fa;--main:#2563c9;
--bad:#c2412d;--good:#22763a;--odd:#8250df;--name:#0a7a8a}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ef;--dim:#97a3b6;--rule:#333c4a;--back:#151a21;
--soft:#1d242e;--main:#6ea2f7;--bad:#ef7f6b;
--good:#7fd192;--odd:#c9a5ff;--name:#6fcbd8}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:2rem auto;
max-width:1180px;padding:0 1rem}
h1{margin-bottom:0}h2{margin-top:2.2rem;border-top:1px solid var(--rule);padding-top:1.2rem}
h3{font-size:1rem;margin:.2rem 0 .6rem}.sub,figcaption{color:var(--dim)}a{color:var(--main)}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .8rem .35rem 0;
border-bottom:1px solid var(--rule);vertical-align:top}th{color:var(--dim);font-weight:500}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:1rem}
figure{margin:0;padding:1rem;background:var(--soft);border-radius:8px}svg{width:100%;height:auto}
figcaption{font-size:.85rem}details{margin:.6rem 0}summary{cursor:pointer}
pre{background:var(--soft);padding:1rem;border-radius:8px;overflow:auto;font-size:12.5px}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}.tick.x,.label.x{text-anchor:middle}
.tick.y{text-anchor:end}.grid{stroke:var(--rule)}.mark{stroke:var(--dim);
stroke-dasharray:4 3}.line{fill:none;stroke:var(--main);stroke-width:2}
.dot{fill:var(--main);fill-opacity:.5}.bar{fill:var(--main)}.bar.bad{fill:var(--bad)}
.tok-comment{color:var(--dim);font-style:italic}.tok-string{color:var(--good)}
.tok-decorator{color:var(--odd)}.tok-keyword{color:var(--main);font-weight:600}
.tok-namespace{color:var(--name)}.tok-number{color:var(--bad)}
@media(max-width:600px){body{margin:1rem auto}h1,h2,p,td{overflow-wrap:anywhere}
svg text{font-size:19px}figure{padding:.6rem}th{display:none}
tr,td{display:block}tr{border-bottom:1px solid var(--rule);padding:.4rem 0}
td{border:0;padding:.1rem 0 .1rem 7rem;min-height:1.5em;position:relative}
td::before{content:attr(data-name);position:absolute;left:0;color:var(--dim)}}
""".strip()
