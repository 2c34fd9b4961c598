/* Line and scatter charts as SVG, in the page's own colours. */

/** Round numbers that cover [low, high]. */
function ticks(low, high, about = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (low === high) return [low - Math.max(0.5, Math.abs(low) * 0.05), high + Math.max(0.5, Math.abs(high) * 0.05)];
  return [low, high];
}

/** A chart's width in its own units: about that of its place on the screen, so that text keeps its size. */
function fitting(width) {
  return Math.max(300, Math.min(width, window.innerWidth - 70));
}

/** A frame with axes; returns the two scales and the group to draw in. */
function frame({ x, y, xlabel, ylabel, width = 360, height = 235, log = false, name, whole = false }) {
  const left = 64, right = 12, top = 10, bottom = 40;
  const fx = log ? Math.log10 : (v) => v;
  const pad = (y[1] - y[0]) * 0.05;
  const [y0, y1] = [y[0] - pad, y[1] + pad];
  const [x0, x1] = [fx(x[0]), fx(x[1])];
  const at = {
    x: (v) => left + ((fx(v) - x0) / (x1 - x0 || 1)) * (width - left - right),
    y: (v) => height - bottom - ((v - y0) / (y1 - y0 || 1)) * (height - top - bottom),
  };
  const group = s("g");
  const axes = s("g");
  const levels = ticks(y0, y1);
  for (const tick of levels) {
    axes.append(s("line", { class: "axis", x1: left, x2: width - right, y1: at.y(tick), y2: at.y(tick) }));
    axes.append(s("text", { x: left - 7, y: at.y(tick) + 4, "text-anchor": "end" }, brief(tick, levels)));
  }
  const marks = log ? logTicks(x[0], x[1]) : ticks(x[0], x[1], 7).filter((t) => !whole || Number.isInteger(t));
  for (const tick of marks) {
    axes.append(s("text", { x: at.x(tick), y: height - bottom + 16, "text-anchor": "middle" }, brief(tick, marks)));
  }
  axes.append(s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, xlabel));
  const middle = (top + height - bottom) / 2;
  axes.append(s("text", { x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` }, ylabel));
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name || `${ylabel} against ${xlabel}` }, axes, group);
  return { svg, group, at, box: { left, right: width - right, top, bottom: height - bottom } };
}

function logTicks(low, high) {
  const found = [];
  for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k++) found.push(10 ** k);
  return found.length > 1 ? found : [low, high];
}

/** A tick's number, with just enough decimals to tell it from the other ticks. */
function brief(value, all) {
  const size = Math.abs(value);
  if (size >= 10000) return `${text(value / 1000, 0)}k`;
  if (size !== 0 && size < 0.001) return value.toExponential(0).replace("-", MINUS);
  const apart = [0, 1, 2, 3].find((places) => new Set(all.map((tick) => tick.toFixed(places))).size === all.length);
  const exact = Number(value.toPrecision(6));
  return text(exact, Math.max(apart ?? 3, Number.isInteger(exact) ? 0 : size < 0.1 ? 3 : size < 1 ? 2 : 1));
}

/** series: [{label, colour, x: [], y: [], band: [[low, high]]}]; `level` draws a horizontal line. */
function lineChart({ series, xlabel, ylabel, guides = [], whole = false, name, width, height }) {
  const xs = series.flatMap((each) => each.x);
  const ys = series.flatMap((each) => [...each.y, ...(each.band || []).flat()]);
  const { svg, group, at, box } = frame({ x: extent(xs), y: extent(ys), xlabel, ylabel, whole, name, width, height });
  for (const guide of guides) {
    group.append(s("line", { x1: at.x(guide.x), x2: at.x(guide.x), y1: box.top, y2: box.bottom, stroke: "var(--dim)", "stroke-dasharray": "2 4" },
      s("title", {}, guide.label)));
  }
  for (const each of [...series].reverse()) {
    const colour = ink(each.colour);
    if (each.x.length === 1) { // one episode: a level
      const y = at.y(each.y[0]);
      if (each.band && each.band.length) group.append(s("rect", { x: box.left, width: box.right - box.left, y: at.y(each.band[0][1]), height: Math.max(0, at.y(each.band[0][0]) - at.y(each.band[0][1])), fill: colour, opacity: 0.12 }));
      group.append(s("line", { x1: box.left, x2: box.right, y1: y, y2: y, stroke: colour, "stroke-width": 1.6, "stroke-dasharray": "7 4" }, s("title", {}, `${each.label}: ${text(each.y[0])}`)));
      continue;
    }
    if (each.band && each.band.length) {
      const up = each.x.map((x, i) => `${at.x(x)},${at.y(each.band[i][1])}`);
      const down = each.x.map((x, i) => `${at.x(x)},${at.y(each.band[i][0])}`).reverse();
      group.append(s("polygon", { points: [...up, ...down].join(" "), fill: colour, opacity: 0.16 }));
    }
    group.append(s("polyline", { points: each.x.map((x, i) => `${at.x(x)},${at.y(each.y[i])}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round" }));
    if (each.x.length <= 30) {
      each.x.forEach((x, i) => group.append(s("circle", { cx: at.x(x), cy: at.y(each.y[i]), r: 3, fill: colour },
        s("title", {}, `${each.label}, ${text(x, 0)}: ${text(each.y[i])}`))));
    }
  }
  return svg;
}

/** points: [{x, y, colour, hollow, title}]; lines at x = threshold; shades: densities along y. */
function scatterChart({ points, xlabel, ylabel, threshold, density = [], name }) {
  const xs = points.map((p) => p.x), ys = [...points.map((p) => p.y), ...density];
  const [low, high] = extent(xs);
  const log = low > 0 && high / low > 30;
  const margin = log ? 1.15 : 0;
  const x = log ? [low / margin, high * margin] : [low - (high - low) * 0.04, high + (high - low) * 0.04];
  const { svg, group, at, box } = frame({ x, y: extent(ys), xlabel, ylabel, log, name });
  for (const value of density) {
    group.append(s("rect", { x: box.left, width: box.right - box.left, y: at.y(value) - 3, height: 6, fill: "var(--worse)", opacity: Math.max(0.02, 0.5 / density.length ** 0.7) }));
  }
  if (Number.isFinite(threshold)) {
    group.append(s("line", { x1: at.x(threshold), x2: at.x(threshold), y1: box.top, y2: box.bottom, stroke: "var(--rejected)", "stroke-width": 1.6, "stroke-dasharray": "3 3" },
      s("title", {}, `threshold ${small(threshold)}`)));
  }
  for (const p of points) {
    group.append(s("circle", { cx: at.x(p.x), cy: at.y(p.y), r: p.hollow ? 3.2 : 4, fill: p.hollow ? "var(--paper)" : ink(p.colour), stroke: ink(p.colour), "stroke-width": 1.6, opacity: 0.9 },
      s("title", {}, p.title)));
  }
  return svg;
}

/** rows: [{label, value, interval, colour}]: a dot with its interval per row. */
function intervalChart({ rows, xlabel, name }) {
  const width = 360, line = 30, left = 118, top = 8;
  const [low, high] = extent(rows.flatMap((r) => [r.value, ...(r.interval || [])]));
  const pad = (high - low) * 0.1;
  const height = top + rows.length * line + 38;
  const x = (v) => left + ((v - low + pad) / (high - low + 2 * pad)) * (width - left - 14);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name });
  const marks = ticks(low - pad, high + pad, 4);
  for (const tick of marks) {
    svg.append(s("line", { class: "axis", x1: x(tick), x2: x(tick), y1: top, y2: height - 32 }));
    svg.append(s("text", { x: x(tick), y: height - 18, "text-anchor": "middle" }, brief(tick, marks)));
  }
  rows.forEach((row, index) => {
    const y = top + (index + 0.5) * line;
    svg.append(s("text", { class: "label", x: left - 10, y: y + 4, "text-anchor": "end" }, row.label));
    if (row.interval) svg.append(s("line", { x1: x(row.interval[0]), x2: x(row.interval[1]), y1: y, y2: y, stroke: ink(row.colour), "stroke-width": 7, opacity: 0.35, "stroke-linecap": "round" }));
    svg.append(s("circle", { cx: x(row.value), cy: y, r: 5, fill: ink(row.colour) }, s("title", {}, `${row.label}: ${text(row.value)} ${interval(row.interval)}`)));
  });
  svg.append(s("text", { x: (left + width) / 2, y: height - 2, "text-anchor": "middle" }, xlabel));
  return svg;
}
