// Draws nodes with trust and adapters, and links with their load in both fabrics.
//
// Nodes stand in columns by their distance from the producer. Each link has two bars in the colours of the
// fabrics, filled by load over rate. The loads are measured by the shaper, not planned.

import { draw, words } from "./svg.js";
import { figure, rate } from "./figures.js";

const NODE = { width: 122, height: 44 };
const FABRICS = [["unplanned", "unplanned"], ["planned", "planned"]];

export class Topology {
  constructor(svg) {
    this.svg = svg;
    this.world = null;
    this.bars = [];
    new ResizeObserver(() => this.world && this.build(this.world)).observe(svg);
  }

  build(world) {
    this.world = world;
    const { width, height } = this.svg.getBoundingClientRect();
    if (width === 0) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const places = arrange(world, width, height);
    this.bars = world.links.map((link) => new Load(link, places));
    const wires = world.links.map((link) => wire(link, places));
    const nodes = world.nodes.map((node) => box(node, places.get(node.name), world.plan));
    this.svg.replaceChildren(...wires, ...this.bars.map((bar) => bar.element), ...nodes);
    if (this.latest) this.update(this.latest);
  }

  update(fabrics) {
    this.latest = fabrics;
    this.bars.forEach((bar, index) => bar.update(fabrics, index));
  }
}

// Columns by hops from the producer, rows within a column.
function arrange({ nodes, links, stream }, width, height) {
  const depth = new Map([[stream.from, 0]]);
  for (const name of depth.keys()) {
    for (const { from, to } of links) {
      const next = from === name ? to : to === name ? from : null;
      if (next && !depth.has(next)) depth.set(next, depth.get(name) + 1);
    }
  }
  const last = Math.max(1, ...depth.values());
  const columns = new Map();
  for (const { name } of nodes) {
    const at = depth.get(name) ?? last;
    columns.set(at, [...(columns.get(at) ?? []), name]);
  }
  const left = 16 + NODE.width / 2;
  const places = new Map();
  for (const [at, names] of columns) {
    names.forEach((name, row) => places.set(name, {
      x: left + (at / last) * (width - 2 * left),
      y: names.length === 1 ? 42 : 34 + ((row + 0.5) / names.length) * (height - 60),
    }));
  }
  return places;
}

function wire({ from, to, secure }, places) {
  const [a, b] = [places.get(from), places.get(to)];
  return draw("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: secure ? "wire" : "wire insecure" });
}

function box({ name, trusted, slots }, { x, y }, plan) {
  const adapters = plan.placements.find((placement) => placement.node === name)?.adapters ?? [];
  const left = x - NODE.width / 2;
  const top = y - NODE.height / 2;
  const title = `${name}: ${trusted ? "may see plaintext" : "may not see plaintext"}`;
  return draw("g", { class: trusted ? "node" : "node untrusted" },
    draw("title", {}, title),
    draw("rect", { x: left, y: top, width: NODE.width, height: NODE.height, rx: 8 }),
    shield(left + 11, top + 12, trusted),
    words(name, { x: left + 35, y: y - 3, class: "strong" }),
    words(trusted ? "trusted" : "not trusted", { x: left + 35, y: y + 13, class: "quiet" }),
    ...adapters.map((adapter, row) => chip(x, top + NODE.height + 8 + row * 23, adapter)),
    ...(adapters.length ? [] : [words(`${slots} ${slots === 1 ? "slot" : "slots"} free`, { x, y: top + NODE.height + 22, class: "quiet", "text-anchor": "middle" })]),
  );
}

const LABELS = {
  keep: (layers) => `keep ${layers} ${layers === "1" ? "layer" : "layers"}`,
};

function chip(x, y, adapter) {
  const [kind, value] = adapter.split(":");
  const text = LABELS[kind]?.(value) ?? kind;
  return draw("g", { class: "chip" },
    draw("rect", { x: x - NODE.width / 2, y, width: NODE.width, height: 20, rx: 10 }),
    words(text, { x, y: y + 14, "text-anchor": "middle" }));
}

function shield(x, y, trusted) {
  const outline = draw("path", { d: `M${x} ${y + 3}l8 -3 8 3v6c0 5 -4 8 -8 10c-4 -2 -8 -5 -8 -10z`, class: "glyph" });
  const inside = trusted ? `M${x + 4.5} ${y + 9}l3 3 4.5 -5.5` : `M${x + 5} ${y + 6}l6 6m0 -6l-6 6`;
  return draw("g", {}, outline, draw("path", { d: inside, class: "glyph" }));
}

function lock(x, y, closed) {
  const shackle = closed ? `M${x + 2} ${y + 5}v-2a3 3 0 0 1 6 0v2` : `M${x + 2} ${y + 5}v-2a3 3 0 0 1 5.6 -1.4`;
  return draw("g", {},
    draw("rect", { x, y: y + 5, width: 10, height: 7, rx: 1.5, class: closed ? "glyph solid" : "glyph" }),
    draw("path", { d: shackle, class: "glyph" }));
}

// A link's facts, and a bar per fabric.
class Load {
  constructor(link, places) {
    const [a, b] = [places.get(link.from), places.get(link.to)];
    const room = Math.abs(b.x - a.x) - NODE.width - 28;
    this.link = link;
    this.width = Math.max(60, Math.min(320, room));
    const x = (a.x + b.x) / 2 - this.width / 2;
    const y = (a.y + b.y) / 2;
    const facts = [rate(link.rate_bps), `${figure(link.delay_ms)} ms`];
    if (link.loss > 0) facts.push(`${figure(link.loss * 100, 1)} % loss`);
    const about = [words(facts.join(" · "), { x, y: y - 12, class: "strong" })];
    if (!link.secure) about.push(words("insecure", { x: x + this.width, y: y - 12, class: "quiet", "text-anchor": "end" }));
    this.rows = FABRICS.map(([name, title], row) => this.row(name, title, x, y + 14 + row * 46));
    this.element = draw("g", {}, ...about, ...this.rows.map((each) => each.element));
  }

  row(name, title, x, y) {
    const value = words("", { x, y: y + 12 });
    const share = words("", { x: x + this.width, y: y + 12, "text-anchor": "end", class: "quiet" });
    const load = draw("rect", { x, y: y + 19, width: 0, height: 9, rx: 3, class: "load" });
    const track = draw("rect", { x, y: y + 19, width: this.width, height: 9, rx: 3, class: "track" });
    const lockAt = draw("g", {});
    const trouble = words("", { x: x + this.width, y: y + 40, "text-anchor": "end", class: "quiet" });
    const element = draw("g", { class: name }, draw("title", {}, `${title}, ${this.link.from} to ${this.link.to}`), value, share, track, load, lockAt, trouble);
    return { name, x, y, value, share, load, lockAt, trouble, element };
  }

  update(fabrics, index) {
    for (const row of this.rows) {
      const now = fabrics[row.name].links[index];
      const share = Math.min(1, now.rate_bps / this.link.rate_bps);
      row.load.setAttribute("width", Math.max(0, share * this.width));
      row.value.textContent = rate(now.rate_bps);
      row.trouble.textContent = now.dropped === 0 ? "" : `${now.dropped} ${now.dropped === 1 ? "packet" : "packets"} dropped`;
      row.share.textContent = `${figure(share * 100)} %`;
      // A lock where sealing is required: closed if every ADU crossed sealed, open otherwise.
      row.lockAt.replaceChildren(...(now.sealed === null ? [] : [
        lock(row.x + 86, row.y + 1, now.sealed),
        words(now.sealed ? "sealed" : "plaintext", { x: row.x + 102, y: row.y + 12, class: "label" }),
      ]));
    }
  }
}
