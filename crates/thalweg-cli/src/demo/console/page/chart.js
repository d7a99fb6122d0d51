// Draws the PSNR of both pictures over the last 30 s: one line per fabric, a tick below for each late frame.

import { draw, words } from "./svg.js";
import { figure } from "./figures.js";

const WINDOW_S = 30;
const MARGIN = { left: 30, right: 118, top: 10, bottom: 30 };
const FABRICS = [["unplanned", "unplanned"], ["planned", "planned"]];

export class Chart {
  constructor(svg) {
    this.svg = svg;
    this.samples = [];
    this.fps = 1;
    this.pointer = null;
    new ResizeObserver(() => this.render()).observe(svg);
    svg.addEventListener("pointermove", (event) => {
      this.pointer = event.offsetX;
      this.render();
    });
    svg.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.render();
    });
  }

  reset({ fps }) {
    this.fps = fps;
    this.samples = [];
    this.render();
  }

  // A sample is [frame, unplanned dB, planned dB, unplanned late, planned late].
  add(samples) {
    this.samples.push(...samples);
    const keep = WINDOW_S * this.fps * 2;
    if (this.samples.length > keep * 2) this.samples.splice(0, this.samples.length - keep);
    this.render();
  }

  render() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (width < 200) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const last = this.samples.at(-1)?.[0] ?? 0;
    const end = Math.max(WINDOW_S, last / this.fps);
    const start = end - WINDOW_S;
    const shown = this.samples.filter(([frame]) => frame / this.fps >= start);
    const [low, high] = span(shown);
    const scale = {
      x: (frame) => MARGIN.left + ((frame / this.fps - start) / WINDOW_S) * (width - MARGIN.left - MARGIN.right),
      y: (db) => MARGIN.top + ((high - db) / (high - low)) * (height - MARGIN.top - MARGIN.bottom),
    };
    const parts = [...axes(scale, { low, high, start, end, width, height })];
    FABRICS.forEach(([name, title], index) => parts.push(...curve(shown, index, name, scale, height)));
    parts.push(...labels(shown, scale, width));
    if (this.pointer !== null && shown.length) parts.push(...this.cursor(shown, scale, height));
    this.svg.replaceChildren(...parts);
  }

  cursor(shown, scale, height) {
    const near = shown.reduce((a, b) => (Math.abs(scale.x(b[0]) - this.pointer) < Math.abs(scale.x(a[0]) - this.pointer) ? b : a));
    const x = scale.x(near[0]);
    const anchor = x > 260 ? "end" : "start";
    const at = x + (anchor === "end" ? -6 : 6);
    return [
      draw("line", { x1: x, x2: x, y1: MARGIN.top, y2: height - MARGIN.bottom, class: "cursor" }),
      words(`frame ${near[0]}: planned ${figure(near[2], 1)} dB, unplanned ${figure(near[1], 1)} dB`, { x: at, y: MARGIN.top + 10, "text-anchor": anchor, class: "strong" }),
    ];
  }
}

// The range of the y axis: whole tens around the values, at least 20 dB.
function span(shown) {
  const values = shown.flatMap(([, a, b]) => [a, b]);
  const low = Math.max(0, Math.floor((Math.min(20, ...values) - 1) / 10) * 10);
  const high = Math.min(100, Math.ceil((Math.max(30, ...values) + 1) / 10) * 10);
  return [low, high];
}

function* axes(scale, { low, high, start, end, width, height }) {
  const step = high - low > 60 ? 20 : 10;
  for (let db = low; db <= high; db += step) {
    const y = scale.y(db);
    yield draw("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y, class: "grid" });
    yield words(String(db), { x: MARGIN.left - 7, y: y + 4, "text-anchor": "end", class: "quiet" });
  }
  const right = width - MARGIN.right;
  for (let second = Math.ceil(start / 5) * 5; second <= end; second += 5) {
    const x = MARGIN.left + ((second - start) / WINDOW_S) * (right - MARGIN.left);
    yield words(`${second} s`, { x, y: height - 4, "text-anchor": "middle", class: "quiet" });
  }
}

function* curve(shown, index, name, scale, height) {
  if (shown.length === 0) return;
  const group = draw("g", { class: name });
  const points = shown.map((sample) => `${scale.x(sample[0]).toFixed(1)},${scale.y(sample[1 + index]).toFixed(1)}`);
  group.append(draw("polyline", { points: points.join(" "), class: "curve" }));
  const top = height - MARGIN.bottom + 2 + index * 6;
  const late = shown.filter((sample) => sample[3 + index]).map((sample) => `M${scale.x(sample[0]).toFixed(1)} ${top}v4`);
  group.append(draw("path", { d: late.join(""), class: "late" }));
  yield group;
}

// Labels at the ends of the lines, moved apart where they would overlap.
function* labels(shown, scale, width) {
  const last = shown.at(-1);
  const ends = FABRICS.map(([name, title], index) => ({ name, title, db: last?.[1 + index], y: last ? scale.y(last[1 + index]) : MARGIN.top + 20 + 40 * (1 - index) }));
  const [lower, upper] = [...ends].sort((a, b) => b.y - a.y);
  if (lower.y - upper.y < 34) {
    const middle = Math.max((lower.y + upper.y) / 2, MARGIN.top + 22);
    upper.y = middle - 17;
    lower.y = middle + 17;
  }
  for (const { name, title, db, y } of ends) {
    const x = width - MARGIN.right + 10;
    yield draw("g", { class: name },
      words(title, { x, y, class: "label" }),
      words(db === undefined ? "" : `${figure(db, 1)} dB`, { x, y: y + 15, class: "quiet" }));
  }
}
