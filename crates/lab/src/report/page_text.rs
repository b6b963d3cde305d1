//! Fixed parts of the page: its style and the description of the method.

/// Colours, layout and print, light and dark; loads nothing from a network.
pub const STYLE: &str = r#"
:root { color-scheme: light dark; --paper:#fbfaf7; --card:#fff; --ink:#1d2126; --soft:#66707a; --grid:#c9cdd2;
 --line:#e4e2dc; --good:#0b5f9e; --bad:#b5430a;
 --e0:#d55e00; --e1:#0072b2; --e2:#009e73; --e3:#b5568f; --e4:#1d2126; --e5:#b87f00; --e6:#2f8fc4; --e7:#8c8300; }
@media (prefers-color-scheme: dark) { :root { --paper:#15181c; --card:#1d2126; --ink:#e7e9ec; --soft:#98a2ad;
 --grid:#4a525b; --line:#30363d; --good:#6cb8ee; --bad:#f2936b;
 --e0:#ff8a3d; --e1:#4aa3e0; --e2:#2fc79b; --e3:#e39cc6; --e4:#e7e9ec; --e5:#e69f00; --e6:#8fd0f5; --e7:#f0e442; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.5 system-ui,sans-serif; }
main { max-width:1180px; margin:0 auto; padding:1.5rem 1rem 4rem; }
h1 { font-size:1.7rem; line-height:1.2; margin:0 0 .3rem; }
h2 { font-size:1.2rem; margin:2.4rem 0 .3rem; }
p { margin:.3rem 0; max-width:70ch; }
.soft, figcaption small { color:var(--soft); }
.warn { border-left:4px solid var(--bad); padding:.3rem .8rem; background:var(--card); }
.grid { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr)); gap:.9rem; margin-top:.8rem; }
figure { margin:0; padding:.7rem .8rem .4rem; background:var(--card); border:1px solid var(--line); border-radius:8px; }
figcaption { font-weight:600; }
figcaption small { font-weight:400; display:block; line-height:1.3; }
svg { display:block; width:100%; height:auto; max-width:440px; font-variant-numeric:tabular-nums; }
.scroll { overflow-x:auto; background:var(--card); border:1px solid var(--line); border-radius:8px; margin-top:.8rem; }
table { border-collapse:collapse; font-size:.88rem; width:100%; font-variant-numeric:tabular-nums; }
th, td { text-align:left; padding:.25rem .7rem; border-bottom:1px solid var(--line); white-space:nowrap; vertical-align:top; }
td.n, th.n { text-align:right; }
td.wrap { white-space:normal; min-width:16rem; overflow-wrap:anywhere; }
td.good { color:var(--good); font-weight:600; } td.bad { color:var(--bad); font-weight:600; }
tr.first td { border-top:2px solid var(--line); }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.1rem 1rem; margin:.6rem 0; }
dt { color:var(--soft); } dd { margin:0; overflow-wrap:anywhere; }
caption { text-align:left; font-weight:600; padding:.3rem .7rem; }
table.reported { color:var(--soft); }
.tables { display:grid; gap:.6rem; grid-template-columns:repeat(auto-fit,minmax(min(100%,540px),1fr)); align-items:start; }
.tables .scroll { margin-top:0; }
table.heat td.n { text-align:center; } table.heat td.good, table.heat td.bad { color:inherit; }
nav { margin:.8rem 0; display:flex; flex-wrap:wrap; gap:.35rem .5rem; font-size:.88rem; }
nav a { color:inherit; text-decoration:none; border:1px solid var(--line); border-radius:999px; padding:.1rem .7rem; background:var(--card); }
nav a:hover { border-color:var(--soft); }
details.warn p { margin:.1rem 0; }
h2 { scroll-margin-top:1rem; }
.legend span { display:inline-block; margin-right:1rem; white-space:nowrap; }
.legend svg { display:inline-block; width:2.75rem; vertical-align:middle; margin-right:.35rem; }
.chart { margin-top:.8rem; }
.panels { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr)); gap:.6rem 1rem; align-items:start; }
.panels.one { display:block; } .panels.one svg { max-width:490px; }
.panel b { font-size:.92rem; } .scale { margin:.6rem 0 .2rem; }
@media print { :root { --paper:#fff; --card:#fff; } figure, .scroll, .panel { break-inside:avoid; } }
details { margin-top:.8rem; } summary { cursor:pointer; }
th.sortable { cursor:pointer; } th.sortable:hover, th[aria-sort] { text-decoration:underline; }
.panel svg, figure > svg { cursor:zoom-in; }
svg.zoomed { position:fixed; inset:2vh 2vw; width:96vw; height:96vh; max-width:none!important; z-index:9; cursor:zoom-out;
 background:var(--card); border:1px solid var(--line); border-radius:8px; padding:1rem; }
"#;

/// Behaviour of the page: a click on a column's head sorts by it, a click on a picture enlarges it.
/// Without scripts the page shows the same content.
pub const SCRIPT: &str = r#"
const sizes = { K: 1 << 10, M: 1 << 20, G: 2 ** 30, T: 2 ** 40 };
const value = cell => {
  const text = cell.textContent.replaceAll(',', '').trim();
  const parts = /^(-?[\d.]+(?:e[-+]?\d+)?)\s*(?:([KMGT])(?:iB)?\b)?/.exec(text);
  return parts ? parseFloat(parts[1]) * (sizes[parts[2]] ?? 1) : text.toLowerCase();
};
const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === 'number' ? -1 : 1;
for (const table of document.querySelectorAll('table')) {
  if (table.querySelector('[rowspan],[colspan]')) continue;
  const [head, ...rest] = table.rows;
  if (rest.length < 2) continue;
  [...head.cells].forEach((cell, at) => {
    cell.classList.add('sortable');
    cell.tabIndex = 0;
    const sort = () => {
      const up = cell.getAttribute('aria-sort') !== 'ascending';
      [...head.cells].forEach(other => other.removeAttribute('aria-sort'));
      cell.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const rows = rest.filter(row => row.cells[at]);
      rows.sort((a, b) => (up ? 1 : -1) * order(value(a.cells[at]), value(b.cells[at])));
      rows.forEach(row => row.parentNode.appendChild(row));
    };
    cell.addEventListener('click', sort);
    cell.addEventListener('keydown', event => { if (event.key === 'Enter') sort(); });
  });
}
document.addEventListener('click', event => {
  const zoomed = document.querySelector('svg.zoomed');
  if (zoomed) return zoomed.classList.remove('zoomed');
  const picture = event.target.closest('figure svg, .panel svg');
  if (picture && !picture.closest('.legend')) picture.classList.add('zoomed');
});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') document.querySelector('svg.zoomed')?.classList.remove('zoomed');
});
"#;

/// How the lab runs rounds.
pub const METHOD_ROUNDS: &str = "\
<p>Each engine runs one round in each repetition, and the order of the engines changes from repetition to repetition. \
Only one engine is open at a time, in its own directory. Keys, values and the order of operations are prepared \
before the clock starts and are the same for every engine. Every read is compared with the written data.</p>";

/// What the figures and the ratios are.
pub const METHOD_RATIOS: &str = "\
<p>Times are medians over the repetitions; the thin line on a bar runs from the smallest to the largest sample. \
A ratio compares with the base engine, by operations per second unless the text names another unit, and above 1 is \
better. Its interval is a bootstrap of both medians at 95 %. \
<em>~</em> marks an interval that contains 1: there is no significant difference. \
<em>?</em> marks a ratio of single rounds, which have no interval. With three repetitions an interval is little \
more than the range of the samples.</p>";

/// What bytes, memory and disk are, and what is not shown.
pub const METHOD_BYTES: &str = "\
<p>Write amplification is the number of bytes that the process passed to write calls (the system's <code>wchar</code>; \
for an engine that writes to a memory map, the dirtied pages, <code>write_bytes</code>) per byte of keys and values \
written. Work that an engine defers until after a task counts where it happens: the figures of whole rounds include it \
up to the close. Peak memory is the maximum resident memory, minus the memory of the lab; mapped file pages count. \
Disk is the number of allocated blocks in bytes.</p>\
<p>These measurements do not show a disk without a cache, a store much larger than memory, a machine under other \
load, or the mix of a particular application.</p>";

/// Additional description on an experiment's page.
pub const LAB_METHOD: &str = "\
<p>An experiment is a text file: it contains every option, size and phase on this page, and the record keeps it. \
Rows, axes and headings name the sizes that ran. The sizes of the document are beside or below them, and absolute \
figures are not the figures of the full size. Reported figures are the document's, from its own machine: they are \
context, never a target, and only their shape can be compared. Figures in brackets compare with the base engine in \
the unit of the table: above 1 is better, whether more or less of the unit is better.</p>";

/// How programs run rounds.
pub const METHOD_PROGRAMS: &str = "\
<p>Each engine runs one round in each repetition, and the order of the engines changes from repetition to repetition. \
Only one engine runs at a time, in its own directory. A program runs the round: it generates the operations, times \
them, and checks its results, as the text above says. Operations per second include what the program itself does for \
an operation; latencies are those of the calls alone.</p>";

/// Who made the lab.
pub const METHOD_AUTHORS: &str = "<p>The authors of the base engine also wrote this lab.</p>";
