/* The page: sections, theme, and updates while it is served. */

let PAGE = JSON.parse(document.getElementById("data").textContent);

function section(id, title, lead, ...content) {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, ...content);
}

/** One list of tabs over several panels; arrow keys move between them. */
function tabs(items, label) {
  if (items.length === 1) return h("div", {}, items[0].make());
  const panel = h("div", { role: "tabpanel" });
  const buttons = items.map((item, index) => h("button", { type: "button", role: "tab", onclick: () => show(index) }, item.label));
  function show(index) {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === index));
      button.tabIndex = i === index ? 0 : -1;
    });
    panel.replaceChildren(items[index].make());
  }
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    show(next);
    buttons[next].focus();
  } }, buttons);
  show(0);
  return h("div", {}, bar, panel);
}

// --- Sections --------------------------------------------------------------------------------

function experimentTable(experiment) {
  const columns = [{ label: "environment", key: (r) => r.name, left: true }];
  experiment.columns.forEach((name, i) => {
    columns.push({ label: name, key: (r) => r.entries[i].value, cell: (r) => beside(r.entries[i]) });
  });
  const counts = Object.entries(experiment.counts).map(([state, n]) => `${n} ${state}`).join(", ");
  return h("div", {},
    h("p", { class: "lead" }, `${experiment.title}. Scale ${experiment.scale}, preset ${experiment.preset}; cells: ${counts}.`),
    experiment.overall ? overall(experiment) : null,
    sortableTable({ columns, rows: experiment.rows, caption: experiment.title, totals: experiment.overall ? [meanRow(experiment)] : [] }),
    ...experiment.curves.map((curve) => h("div", { class: "card", style: "margin-top:1rem;max-width:40rem" }, h("h3", {}, `${curve.row}: return after so many meta-training updates`),
      lineChart({ width: fitting(600), height: 320, xlabel: "updates", ylabel: "return", series: curve.methods.map((m) => ({ label: m.label, colour: m.colour, x: curve.updates, y: m.mean, band: m.band })) }),
      legend(curve.methods.map((m) => [m.colour, m.label])))),
    probes(experiment));
}

/** Means over the sets that every method has, below the table. */
function meanRow(experiment) {
  const entries = experiment.columns.map((name) => {
    const found = experiment.overall.methods.find((m) => m.name === name);
    return { value: found ? found.mean : null, interval: null, paper: found ? found.paperMean : null, paperWidth: null };
  });
  return { name: `mean over ${experiment.overall.sets} sets`, entries, isTotal: true };
}

function overall(experiment) {
  const { methods, thresholds, sets } = experiment.overall;
  const colour = (i) => PALETTE[i % PALETTE.length];
  const better = methods.filter((m) => m.improvement !== null);
  return h("div", { class: "cards three" },
    h("div", { class: "card" }, h("h3", {}, `Interquartile mean over ${sets} sets`),
      intervalChart({ xlabel: "score, 95% interval", name: "Interquartile means", rows: methods.map((m, i) => ({ label: m.name, value: m.iqm, interval: m.iqmInterval, colour: colour(i) })) })),
    h("div", { class: "card" }, h("h3", {}, `Probability that ${methods[0].name} is better`),
      better.length ? intervalChart({ xlabel: "per set, a run against a run", name: "Probabilities of improvement", rows: better.map((m) => ({ label: `than ${m.name}`, value: m.improvement, interval: m.improvementInterval, colour: colour(methods.indexOf(m)) })) }) : h("p", { class: "lead" }, "There is nothing to compare with.")),
    h("div", { class: "card" }, h("h3", {}, "Performance profile"),
      lineChart({ xlabel: "score", ylabel: "share of runs above it", series: methods.map((m, i) => ({ label: m.name, colour: colour(i), x: thresholds, y: m.share, band: m.low.map((low, k) => [low, m.high[k]]) })) }),
      legend(methods.map((m, i) => [colour(i), m.name]))));
}

function probes(experiment) {
  if (!experiment.probes.length) return null;
  const byDistance = experiment.name === "fig-distance";
  const panels = experiment.probes.flatMap((probe) => Object.keys(probe.uncertainty).map((name) => {
    const threshold = probe.threshold[name];
    const points = probe.returns.map((value, i) => {
      const uncertainty = probe.uncertainty[name][i], hollow = uncertainty > threshold;
      return { x: byDistance ? probe.distance[i] : uncertainty, y: value, hollow, colour: hollow ? "var(--rejected)" : "var(--kept)", title: `return ${text(value)}, uncertainty ${small(uncertainty)}, distance ${small(probe.distance[i])}` };
    });
    return h("div", { class: "card" }, h("h3", {}, `${probe.row}: ${name.replace("-", " ")}`),
      scatterChart({ points, xlabel: byDistance ? "distance to the dataset" : "uncertainty", ylabel: "return", density: probe.dataReturns, threshold: byDistance ? undefined : threshold }));
  }));
  return h("div", {},
    h("div", { class: "cards three" }, panels),
    legend([["var(--kept)", "accepted: at or below the threshold"], ["", "rejected", "ring"], ["var(--worse)", "returns in the dataset"]]));
}

function runsTable(runs) {
  const rows = runs.flatMap((run) => run.rows.map((row) => {
    const method = run.methods.find((m) => m.name === row.method);
    return { ...row, run, label: method ? method.label : row.method };
  }));
  const several = new Set(runs.map((run) => `${run.subject} ${run.preset}`)).size < runs.length;
  const hasSuccess = rows.some((r) => typeof r.success === "number");
  const columns = [
    { label: "family", key: (r) => r.run.subject, left: true },
    several ? { label: "run", key: (r) => r.run.name, left: true } : null,
    { label: "preset", key: (r) => r.run.preset, left: true },
    { label: "method", key: (r) => r.label, left: true },
    { label: hasSuccess ? "return or score" : "return", key: (r) => r.value, cell: ours },
    { label: "paper", key: (r) => r.paper, cell: paper },
    { label: "difference", key: gap, cell: difference },
    hasSuccess ? { label: "success", key: (r) => r.success } : null,
    { label: "seeds", key: (r) => r.run.seeds.length, cell: (r) => String(r.run.seeds.length) },
  ].filter(Boolean);
  const holder = h("div");
  const filter = (words) => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const hit = (r) => wanted.every((word) => `${r.run.subject} ${r.run.name} ${r.run.preset} ${r.label} ${r.method}`.toLowerCase().includes(word));
    holder.replaceChildren(sortableTable({ columns, rows: rows.filter(hit), caption: "Results of all runs" }));
  };
  filter("");
  const search = h("input", { type: "search", placeholder: "e.g. sparse return", oninput: (event) => filter(event.target.value) });
  return h("div", {}, h("div", { class: "tools" }, h("label", {}, "Show only", search)), holder);
}

/** Methods that ran the same reference stage share its part of the curve. */
function curveSeries(methods) {
  const long = methods.filter((m) => m.curve.length > 1);
  const num = long.length > 1 ? Math.min(...long.map((m) => m.reference)) : 0;
  const isShared = num > 1 && long.every((m) => m.curve.slice(0, num).every((value, i) => value === long[0].curve[i]));
  const series = methods.map((m) => {
    const from = isShared && m.curve.length > 1 ? num - 1 : 0; // the last shared point, so that lines meet
    return { label: m.label, colour: m.colour, x: m.curve.map((_, i) => i + 1).slice(from), y: m.curve.slice(from), band: m.band.slice(from) };
  });
  if (isShared) {
    const first = long[0];
    series.push({ label: "reference stage, the same for all", colour: "#8a94a3", x: first.curve.map((_, i) => i + 1).slice(0, num), y: first.curve.slice(0, num), band: first.band.slice(0, num) });
  }
  return series;
}

/** The score against the budget; methods of one episode are levels. Older results do not have it. */
function anytimeCard(run) {
  const methods = run.methods.filter((m) => m.anytime.length);
  const long = methods.filter((m) => m.anytime.length > 1);
  if (!long.length) return null;
  const series = methods.map((m) => ({ label: m.label, colour: m.colour, x: m.anytime.map((_, i) => i + 1), y: m.anytime, band: m.anytimeBand }));
  return h("div", { class: "card", id: "anytime" }, h("h3", {}, `${run.title}: final return by budget`),
    lineChart({ width: fitting(540), height: 320, series, guides: stageEnds(long), xlabel: "budget in episodes", ylabel: "return of the last one", whole: true, name: "Final return against budget" }),
    legend(series.map((each) => [each.colour, each.label])),
    h("p", { class: "note" }, "For a budget of k episodes: the return of an episode that runs what the method would commit to after k − 1. The last point is the final episode of the whole budget."));
}

function stageEnds(methods) {
  return [...new Set(methods.map((m) => m.reference))].map((n) => ({ x: n + 0.5, label: "the reference stage ends" }));
}

function adaptationCurves(runs) {
  const holder = h("div", { class: "cards" });
  const draw = (index) => {
    const run = runs[index];
    const series = curveSeries(run.methods);
    const guides = stageEnds(run.methods.filter((m) => m.curve.length > 1));
    const anytime = anytimeCard(run);
    const size = anytime ? { width: fitting(540), height: 320 } : { width: fitting(660), height: 340 };
    const episodes = h("div", { class: "card", style: "max-width:44rem" }, h("h3", {}, `${run.title}: return per adaptation episode`),
      lineChart({ ...size, series, guides, xlabel: "adaptation episode", ylabel: "return", whole: true }),
      legend(series.map((each) => [each.colour, each.label])));
    holder.replaceChildren(...[episodes, anytime].filter(Boolean));
  };
  draw(0);
  const chooser = runs.length > 1 ? h("div", { class: "tools" }, select("Family", runs.map((r, i) => [i, r.title]), 0, (v) => draw(Number(v)))) : null;
  return h("div", {}, chooser, holder);
}

function progressTable(runs) {
  return sortableTable({
    caption: "Runs in progress",
    columns: [
      { label: "run", key: (r) => r.title, left: true },
      { label: "state", key: (r) => r.progress.state, left: true },
      { label: "updates", key: (r) => r.progress.updates / (r.progress.of || 1), cell: (r) => h("span", {}, h("span", { class: "bars" }, h("span", { style: `width:${100 * r.progress.updates / (r.progress.of || 1)}%` })), ` ${text(r.progress.updates, 0)} of ${text(r.progress.of, 0)}`) },
      { label: "methods done", key: (r) => r.rows.length, cell: (r) => String(r.rows.length) },
    ],
    rows: runs,
  });
}

// --- The whole page --------------------------------------------------------------------------

function render() {
  const counts = {};
  for (const run of PAGE.runs) counts[run.subject] = (counts[run.subject] || 0) + 1;
  for (const run of PAGE.runs) {
    run.title = `${run.subject} · ${counts[run.subject] > 1 ? run.name : run.preset}`;
    run.onPlane = run.methods.some((m) => m.seeds.some((seed) => seed.paths));
  }
  const done = PAGE.runs.filter((run) => run.rows.length);
  const open = PAGE.runs.filter((run) => run.progress.state !== "done");
  const sections = [];
  if (open.length || PAGE.live) sections.push(["progress", "Progress", section("progress", "Progress", PAGE.live ? "Read again every few seconds." : "These runs were not finished when this page was written.", open.length ? progressTable(open) : h("p", {}, "Nothing is running: all runs are done."))]);
  const tables = PAGE.experiments.map((e) => ({ label: `${e.name} (${e.scale})`, make: () => experimentTable(e) }));
  if (tables.length) sections.push(["experiments", "Experiments", section("experiments", "Experiments", "The paper's tables, its numbers beside ours. A difference is coloured where it is beyond the paper's own interval.", tabs(tables, "Experiments"))]);
  if (done.length) {
    sections.push(["runs", "Runs", section("runs", "All runs", "The final episode of adaptation, averaged over test tasks, with 95% bootstrap intervals over seeds. Scores of ML1 are returns over the expert's.", runsTable(done))]);
    sections.push(["curves", "Curves", section("curves", "Adaptation", "Returns while adapting; the bands are 95% intervals over seeds.", adaptationCurves(done))]);
    sections.push(["explorer", "Explorer", section("explorer", "Adaptation explorer", "Step through the episodes of one test task: what was tried, how it was judged, what was kept. Arrow keys move between episodes.", explorer(done))]);
  }
  if (PAGE.unreadable.length) sections.push(["unreadable", "Unreadable", section("unreadable", "Unreadable", "These are left out.", h("ul", {}, PAGE.unreadable.map((each) => h("li", {}, `${each.name}: ${each.problem}`))))]);
  document.getElementById("main").replaceChildren(...sections.map((each) => each[2]));
  document.getElementById("nav").replaceChildren(...sections.map(([id, words]) => h("a", { href: `#${id}` }, words)));
  const runs = PAGE.runs.length, families = new Set(PAGE.runs.map((run) => run.family)).size;
  document.getElementById("subtitle").textContent = `${runs} run${runs === 1 ? "" : "s"} of ${families} task famil${families === 1 ? "y" : "ies"}, ${PAGE.made}`;
  document.getElementById("footer").textContent = `Made by idaq ${PAGE.version}. Intervals are percentile bootstraps over seeds (10,000 resamples). The paper: Wang, Zhang et al., ICML 2023.`;
}

// --- Theme -----------------------------------------------------------------------------------

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";
function paint() {
  const shown = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = shown;
  const button = document.getElementById("theme");
  button.textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme];
  button.setAttribute("aria-label", `Colours: ${{ auto: "as the system", light: "light", dark: "dark" }[theme]}`);
}
dark.addEventListener("change", paint);
document.getElementById("theme").addEventListener("click", () => {
  theme = { auto: "light", light: "dark", dark: "auto" }[theme];
  paint();
});

paint();
render();

if (PAGE.live) {
  setInterval(async () => {
    try {
      const answer = await fetch(`data.json?${PAGE.stamp}`);
      if (answer.status !== 200) return; // 204: nothing new
      PAGE = await answer.json();
      if (!document.getElementById("main").contains(document.activeElement)) render();
    } catch { /* the server has ended; what is shown stays */ }
  }, 3000);
}
