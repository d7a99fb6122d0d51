// Receives the demo's state and pictures over one WebSocket and passes them to the views.
//
// Text frames are JSON: first one `hello` (the constants), then about five `tick`s per second. Binary frames
// are pictures; each is answered with its kind once it is drawn, and the next of that kind follows only then,
// so a page that is hidden or short of processor time gets fewer. The page's only state is the curve, so it
// may be reloaded, and opened twice.

import { Chart } from "./chart.js";
import { Picture } from "./picture.js";
import { Topology } from "./topology.js";
import { figure, rate } from "./figures.js";

const byId = (id) => document.getElementById(id);
const FABRICS = ["unplanned", "planned"];
const pictures = ["original", "unplanned", "planned"].map((name) => new Picture(byId(`picture-${name}`)));
const chart = new Chart(byId("chart"));
const topology = new Topology(byId("topology"));
let world = null;

function hello(message) {
  world = message;
  const { video, stream, links, plan } = message;
  document.documentElement.style.setProperty("--aspect", video.width / video.height);
  const slowest = Math.min(...links.map((link) => link.rate_bps));
  const whole = stream.layers.reduce((sum, layer) => sum + layer.rate_bps, 0);
  byId("about").textContent =
    `${stream.name}: ${rate(whole)} of layered video from ${stream.from} to ${stream.to}, slowest link ${rate(slowest)}. The same frames cross two equal fabrics.`;
  byId("note-original").textContent =
    `${video.name}, ${video.width} × ${video.height}, ${video.fps} frames/s, ${stream.layers.length} layers; a frame is due ${figure(video.deadline_ms)} ms after its capture`;
  byId("plan-figures").textContent =
    `${plan.layers} of ${stream.layers.length} layers, ${figure(plan.delay_ms)} ms, cost ${figure(plan.cost, 2)}`;
  byId("explanation").textContent = message.explanation.trim();
  chart.reset(video);
  topology.build(message);
}

function tick(message) {
  const { fabrics } = message;
  const whole = message.seconds_total === null ? "" : `of ${message.seconds_total} `;
  byId("clock").textContent = message.finished ? "finished" : `${figure(message.elapsed_s)} ${whole}s`;
  const gain = fabrics.planned.psnr_y_mean_db - fabrics.unplanned.psnr_y_mean_db;
  byId("gain").textContent = Number.isFinite(gain) && fabrics.planned.frames_sent > 0 ? (gain >= 0 ? "+" : "−") + figure(Math.abs(gain), 1) : "–";
  for (const name of FABRICS) note(name, fabrics[name]);
  counters(fabrics);
  chart.add(message.curve);
  topology.update(fabrics);
}

function note(name, fabric) {
  const frozen = fabric.still_for_s;
  byId(`note-${name}`).textContent = fabric.psnr_y_now_db === null ? "" :
    `${fabric.layers_shown} of ${world.stream.layers.length} layers · ${figure(fabric.psnr_y_now_db, 1)} dB`;
  const badge = byId(`badge-${name}`);
  badge.hidden = !(frozen > 0.3);
  badge.textContent = fabric.frames_shown === 0 ? "no frame in time yet" : `frozen for ${figure(frozen, 1)} s`;
}

const ROWS = [
  ["Frames in time", (f) => (f.frames_sent ? `${f.frames_shown} of ${f.frames_sent}` : "–")],
  ["Luma, mean", (f) => (f.frames_sent ? `${figure(f.psnr_y_mean_db, 1)} dB` : "–")],
  ["Latency p50", (f) => latency(f.latency_ms.p50)],
  ["Latency p99", (f) => latency(f.latency_ms.p99)],
  ["Insecure link", (f) => (f.sealed_on_insecure === null ? "–" : f.sealed_on_insecure ? "all sealed" : "plaintext")],
];

const latency = (ms) => (ms === null ? "–" : ms < 1000 ? `${figure(ms)} ms` : `${figure(ms / 1000, 1)} s`);

function counters(fabrics) {
  byId("counters").replaceChildren(
    ...ROWS.map(([title, show]) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.textContent = title;
      head.scope = "row";
      row.append(head, ...FABRICS.map((name) => {
        const cell = document.createElement("td");
        cell.textContent = show(fabrics[name]);
        return cell;
      }));
      return row;
    }),
  );
}

function connect() {
  const socket = new WebSocket(`ws://${location.host}/state`);
  socket.binaryType = "arraybuffer";
  let finished = false;
  const arrived = new Map();
  const draw = () => {
    for (const [kind, data] of arrived) {
      pictures[kind]?.show(data);
      if (socket.readyState === WebSocket.OPEN) socket.send(Uint8Array.of(kind));
    }
    arrived.clear();
  };
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) {
      if (arrived.size === 0) requestAnimationFrame(draw);
      arrived.set(new DataView(data).getUint8(0), data);
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "hello") hello(message);
    else tick(message);
    finished = message.finished ?? finished;
  };
  socket.onclose = () => {
    byId("clock").textContent = finished ? "finished; final figures" : "connection lost; reconnecting …";
    if (!finished) setTimeout(connect, 1000);
  };
}

connect();
