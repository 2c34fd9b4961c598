/* The adaptation explorer: one task's episodes, step by step. */

function explorer(runs) {
  const usable = runs.filter((run) => run.methods.length);
  const root = h("div", { id: "explorer-body" });
  if (!usable.length) return root;
  const start = Math.max(0, usable.findIndex((run) => run.onPlane));
  const state = { run: start, method: 0, seed: 0, task: 0, episode: 0 };
  const cache = new Map();

  const current = () => {
    const run = usable[state.run];
    const method = run.methods[Math.min(state.method, run.methods.length - 1)];
    return { run, method, seed: decoded(method.seeds[Math.min(state.seed, method.seeds.length - 1)]) };
  };

  function decoded(seed) {
    if (!cache.has(seed)) {
      cache.set(seed, {
        tasks: seed.tasks, episodes: seed.episodes,
        returns: floats(seed.returns), kept: bytes(seed.kept),
        success: seed.success ? bytes(seed.success) : null,
        uncertainty: seed.uncertainty ? floats(seed.uncertainty) : null,
        threshold: seed.threshold ? floats(seed.threshold) : null,
        paths: seed.paths ? shorts(seed.paths) : null,
        steps: seed.steps ? floats(seed.steps) : null,
      });
    }
    return cache.get(seed);
  }

  /** Everything known about one episode. */
  function look(seed, method, episode) {
    const place = state.task * seed.episodes + episode;
    const isFinal = episode === seed.episodes - 1;
    return {
      number: episode + 1, isFinal,
      isReference: episode < method.reference && !isFinal,
      kept: !!seed.kept[place] && !isFinal,
      return: seed.returns[place],
      success: seed.success ? !!seed.success[place] : null,
      uncertainty: seed.uncertainty ? seed.uncertainty[place] : null,
      threshold: seed.threshold ? seed.threshold[place] : null,
    };
  }

  const colourOf = (each) => each.isFinal ? "var(--ink)" : each.kept ? "var(--kept)" : "var(--rejected)";
  const wordOf = (each) => each.isFinal ? "final, scored" : each.kept ? "kept" : "rejected";

  const slider = h("input", { type: "range", min: 1, value: 1, "aria-label": "Episode", oninput: () => go(Number(slider.value) - 1) });
  const before = h("button", { type: "button", "aria-label": "Previous episode", onclick: () => go(state.episode - 1) }, "‹");
  const after = h("button", { type: "button", "aria-label": "Next episode", onclick: () => go(state.episode + 1) }, "›");
  const verdict = h("div", { class: "verdict", "aria-live": "polite", id: "verdict" });
  const tools = h("div", { class: "tools" });
  const left = h("div", { class: "card" });
  const right = h("div", { class: "card" });
  const panels = h("div", { class: "explorer" }, left, right);
  const list = h("div");

  function go(episode) {
    const { seed } = current();
    state.episode = Math.max(0, Math.min(seed.episodes - 1, episode));
    drawEpisode();
  }

  function choose(change) {
    const before = current();
    const name = before.method.name, task = before.seed.tasks[state.task];
    Object.assign(state, change);
    const { run } = current();
    if ("run" in change) { // the same method, if the new run has it
      state.method = Math.max(0, run.methods.findIndex((m) => m.name === name));
      state.seed = 0;
    }
    const { seed } = current();
    state.task = "task" in change ? state.task : Math.max(0, seed.tasks.indexOf(task));
    state.episode = Math.min(state.episode, seed.episodes - 1);
    draw();
  }

  function draw() {
    const { run, method, seed } = current();
    tools.replaceChildren(
      select("Family", usable.map((r, i) => [i, r.title]), state.run, (v) => choose({ run: Number(v) })),
      select("Method", run.methods.map((m, i) => [i, m.label]), Math.min(state.method, run.methods.length - 1), (v) => choose({ method: Number(v) })),
      select("Seed", run.seeds.map((n, i) => [i, String(n)]), state.seed, (v) => choose({ seed: Number(v) })),
      select("Test task", seed.tasks.map((n, i) => [i, String(n)]), state.task, (v) => choose({ task: Number(v) })),
    );
    slider.max = seed.episodes;
    drawEpisode();
  }

  function drawEpisode() {
    const { run, method, seed } = current();
    const all = Array.from({ length: seed.episodes }, (_, i) => look(seed, method, i));
    const now = all[state.episode];
    slider.value = now.number;
    slider.setAttribute("aria-valuetext", `Episode ${now.number} of ${seed.episodes}, ${wordOf(now)}`);
    before.disabled = state.episode === 0;
    after.disabled = state.episode === seed.episodes - 1;
    const stage = now.isFinal ? "the final episode" : now.isReference ? "reference stage" : "iterative stage";
    const judged = now.uncertainty !== null && !now.isFinal;
    const sign = now.kept ? "≤" : now.uncertainty <= now.threshold ? "≤" : ">";
    verdict.className = `verdict ${now.isFinal ? "final" : now.kept ? "kept" : "rejected"}`;
    verdict.replaceChildren(
      h("strong", {}, `Episode ${now.number} of ${seed.episodes}: ${wordOf(now)}`), ` (${stage})`, h("br"),
      `Return ${text(now.return)}`,
      now.success === null ? "" : now.success ? ", success" : ", no success",
      judged ? `. Uncertainty ${small(now.uncertainty)} ${sign} threshold ${small(now.threshold)}.` : ".",
      !judged && !now.isFinal && seed.uncertainty === null ? " This method keeps everything it sees." : "",
    );
    panels.classList.toggle("no-path", !seed.paths);
    left.replaceChildren(...plane(run, method, seed, all));
    right.replaceChildren(...charts(method, seed, all));
    list.replaceChildren(episodeTable(all));
  }

  /** Where the episodes went, those so far pale and this one strong. */
  function plane(run, method, seed, all) {
    const title = h("h3", {}, "Trajectory");
    if (!seed.paths) {
      return [title, h("p", { class: "lead" }, run.onPlane
        ? "The trajectories of this seed were left out to keep the page small; the first seeds have them."
        : "Trajectories of this family are not saved. Its returns and judgements are shown beside this.")];
    }
    const length = seed.paths.length / 2 / (seed.tasks.length * seed.episodes);
    const path = (episode) => {
      const start = (state.task * seed.episodes + episode) * length * 2;
      const steps = seed.steps[state.task * seed.episodes + episode];
      return points(seed.paths.subarray(start, start + 2 * (steps + 1)));
    };
    const task = seed.tasks[state.task];
    const scene = run.scene || {};
    const data = [];
    if (scene.data) {
      scene.decoded = scene.decoded || shorts(scene.data);
      const [, num, steps] = scene.dataShape;
      for (let k = 0; k < num; k++) {
        const start = (task * num + k) * steps * 2;
        data.push(points(scene.decoded.subarray(start, start + steps * 2)));
      }
    }
    const paths = all.map((_, i) => path(i));
    const goals = scene.goals || [];
    const everything = [...paths.flat(), ...data.flat(), ...goals];
    const [x0, x1] = extent(everything.map((p) => p[0])), [y0, y1] = extent(everything.map((p) => p[1]));
    const size = Math.max(x1 - x0, y1 - y0) * 0.04;
    const unit = Math.max(x1 - x0, y1 - y0) / 400;
    const svg = s("svg", { viewBox: `${x0 - size} ${-y1 - size} ${x1 - x0 + 2 * size} ${y1 - y0 + 2 * size}`, role: "img", "aria-label": `Trajectory of episode ${state.episode + 1}` });
    const line = (p, colour, width, opacity) => s("polyline", { points: p.map(([x, y]) => `${x},${-y}`).join(" "), fill: "none", stroke: colour, "stroke-width": width * unit, opacity, "stroke-linecap": "round", "stroke-linejoin": "round" });
    for (const p of data) svg.append(line(p, "var(--data)", 1.6, 0.8));
    for (const [x, y] of goals) svg.append(s("circle", { cx: x, cy: -y, r: 1.3 * unit, fill: "var(--dim)" }));
    for (let i = 0; i < state.episode; i++) svg.append(line(paths[i], colourOf(all[i]), all[i].kept ? 2.2 : 1.4, all[i].kept ? 0.8 : 0.3));
    if (scene.goals) {
      const [x, y] = goals[task];
      svg.append(s("text", { x, y: -y, "text-anchor": "middle", "dominant-baseline": "central", style: `font-size:${30 * unit}px;fill:var(--goal)` }, "★"));
    }
    const now = paths[state.episode], end = now[now.length - 1];
    svg.append(line(now, colourOf(all[state.episode]), 3.4, 1), s("circle", { cx: end[0], cy: -end[1], r: 5.5 * unit, fill: colourOf(all[state.episode]) }));
    const keys = [["var(--kept)", "kept"], ["var(--rejected)", "rejected"], ["var(--ink)", "final"]];
    if (data.length) keys.push(["var(--data)", "logged data of this task"]);
    if (scene.goals) keys.push(["var(--goal)", "goal"]);
    return [title, svg, legend(keys)];
  }

  function points(array) {
    const found = [];
    for (let i = 0; i < array.length; i += 2) found.push([array[i] / PAGE.positionScale, array[i + 1] / PAGE.positionScale]);
    return found;
  }

  /** Return and uncertainty of every episode; the current one is ringed, and each can be clicked. */
  function charts(method, seed, all) {
    const parts = [h("div", {}, h("h3", {}, "Return per episode"), dots(all, (e) => e.return, "return", method))];
    if (seed.uncertainty) {
      parts.push(h("div", {}, h("h3", {}, "Uncertainty and threshold"),
        dots(all, (e) => e.uncertainty, "uncertainty", method, (e) => e.isFinal ? NaN : e.threshold)));
    }
    const found = [h("div", { class: "cards" }, parts)];
    found.push(legend([["var(--kept)", "kept as context"], ["", "rejected", "ring"], ["var(--ink)", "final, scored"], ...(seed.uncertainty ? [["", "threshold", "dash"]] : [])]));
    return found;
  }

  function dots(all, value, ylabel, method, level) {
    const ys = all.map(value), extra = level ? all.map(level) : [];
    const { svg, group, at, box } = frame({ x: [0.5, all.length + 0.5], y: extent([...ys, ...extra]), xlabel: "episode", ylabel, width: fitting(560), height: 200, whole: true });
    if (method.reference < all.length) {
      const x = at.x(method.reference + 0.5);
      group.append(s("line", { x1: x, x2: x, y1: box.top, y2: box.bottom, stroke: "var(--dim)", "stroke-dasharray": "2 4" }, s("title", {}, "the reference stage ends")));
    }
    if (level) {
      all.forEach((each, i) => {
        const y = at.y(level(each));
        if (Number.isFinite(y)) group.append(s("line", { x1: at.x(i + 0.55), x2: at.x(i + 1.45), y1: y, y2: y, stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "4 2" }));
      });
    }
    all.forEach((each, i) => {
      if (!Number.isFinite(ys[i])) return;
      const hollow = !each.kept && !each.isFinal;
      if (i === state.episode) group.append(s("circle", { cx: at.x(i + 1), cy: at.y(ys[i]), r: 10, fill: "var(--accent)", opacity: 0.25 }));
      group.append(s("circle", { cx: at.x(i + 1), cy: at.y(ys[i]), r: hollow ? 4 : 5, fill: hollow ? "var(--paper)" : colourOf(each), stroke: colourOf(each), "stroke-width": 2, style: "cursor:pointer", onclick: () => go(i) },
        s("title", {}, `episode ${i + 1}: ${ylabel} ${small(ys[i])}, ${wordOf(each)}`)));
    });
    return svg;
  }

  function episodeTable(all) {
    return sortableTable({
      caption: "Episodes of this task",
      columns: [
        { label: "episode", key: (e) => e.number, cell: (e) => String(e.number) },
        { label: "return", key: (e) => e.return },
        { label: "uncertainty", key: (e) => e.uncertainty, cell: (e) => e.uncertainty === null ? "–" : small(e.uncertainty) },
        { label: "threshold", key: (e) => e.threshold, cell: (e) => e.threshold === null || e.isFinal ? "–" : small(e.threshold) },
        { label: "verdict", key: wordOf, left: true },
      ],
      rows: all,
    });
  }

  root.append(tools, h("div", { class: "steps" }, before, slider, after), verdict,
    panels,
    h("details", {}, h("summary", {}, "All episodes as a table"), list));
  root.addEventListener("keydown", (event) => {
    if (event.target === slider || event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { go(state.episode + step); event.preventDefault(); }
  });
  draw();
  return root;
}
