// Draws every element of class "plot" from the JSON inside it: lines with error bars, a legend that switches lines,
// zoom by dragging, reset by a double click, values under the pointer.
"use strict";
const NS = "http://www.w3.org/2000/svg";
const W = 860, H = 380, LEFT = 70, RIGHT = 16, TOP = 12, BOTTOM = 46;
const COLOURS = ["#3b6fb6", "#d1652b", "#3f9142", "#b33f62", "#7a5ab5", "#8a6d1d", "#25848e", "#666666"];

function node(name, attributes, parent, text) {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

// Round steps that cut a range into about `count` pieces.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw) || raw;
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) out.push(at);
  return out;
}

function show(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return String(Number(value.toPrecision(5)));
}

class Plot {
  constructor(box) {
    this.data = JSON.parse(box.querySelector("script").textContent);
    this.off = new Set();
    this.svg = node("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" }, box);
    node("title", {}, this.svg, this.data.title);
    this.legend = document.createElement("div");
    this.legend.className = "legend";
    box.appendChild(this.legend);
    this.data.lines.forEach((line, nth) => this.entry(line, nth));
    this.reset();
    this.listen();
  }

  entry(line, nth) {
    const button = document.createElement("button");
    button.type = "button";
    button.innerHTML = `<i style="background:${COLOURS[nth % COLOURS.length]}"></i>`;
    button.appendChild(document.createTextNode(line.name));
    button.setAttribute("aria-pressed", "true");
    button.onclick = () => {
      this.off.has(nth) ? this.off.delete(nth) : this.off.add(nth);
      button.setAttribute("aria-pressed", String(!this.off.has(nth)));
      this.draw();
    };
    this.legend.appendChild(button);
  }

  // Everything that is switched on fits.
  reset() {
    let [x0, x1, y1] = [Infinity, -Infinity, -Infinity], y0 = 0;
    for (const line of this.data.lines) {
      for (const [x, y, half] of line.points) {
        x0 = Math.min(x0, x); x1 = Math.max(x1, x);
        y0 = Math.min(y0, y - (half || 0)); y1 = Math.max(y1, y + (half || 0));
      }
    }
    if (!(x1 >= x0)) [x0, x1, y1] = [0, 1, 1];
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    const pad = this.data.categories ? 0.3 : 0;
    this.view = { x0: x0 - pad, x1: x1 + pad, y0, y1: y1 > y0 ? y1 * 1.04 : y0 + 1 };
    this.draw();
  }

  px(x) { return LEFT + (x - this.view.x0) / (this.view.x1 - this.view.x0) * (W - LEFT - RIGHT); }
  py(y) { return H - BOTTOM - (y - this.view.y0) / (this.view.y1 - this.view.y0) * (H - TOP - BOTTOM); }
  x(px) { return this.view.x0 + (px - LEFT) / (W - LEFT - RIGHT) * (this.view.x1 - this.view.x0); }

  draw() {
    if (this.body) this.body.remove();
    this.body = node("g", {}, this.svg);
    this.axes();
    const id = "clip" + Math.random().toString(36).slice(2);
    const clip = node("clipPath", { id }, node("defs", {}, this.body));
    node("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM }, clip);
    const inside = node("g", { "clip-path": `url(#${id})` }, this.body);
    this.data.lines.forEach((line, nth) => { if (!this.off.has(nth)) this.line(line, nth, inside); });
  }

  axes() {
    const axes = node("g", { class: "axes" }, this.body);
    const names = this.data.categories;
    const xs = names ? names.map((_, nth) => nth) : ticks(this.view.x0, this.view.x1, 8);
    for (const x of xs) {
      if (x < this.view.x0 || x > this.view.x1) continue;
      node("line", { x1: this.px(x), x2: this.px(x), y1: TOP, y2: H - BOTTOM }, axes);
      node("text", { x: this.px(x), y: H - BOTTOM + 16, "text-anchor": "middle" }, axes, names ? names[x] : show(x));
    }
    for (const y of ticks(this.view.y0, this.view.y1, 6)) {
      node("line", { x1: LEFT, x2: W - RIGHT, y1: this.py(y), y2: this.py(y) }, axes);
      node("text", { x: LEFT - 6, y: this.py(y) + 4, "text-anchor": "end" }, axes, show(y));
    }
    node("text", { x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle" }, axes, this.data.x);
    const middle = (TOP + H - BOTTOM) / 2;
    const turned = `rotate(-90 14 ${middle})`;
    node("text", { x: 14, y: middle, "text-anchor": "middle", transform: turned }, axes, this.data.y);
  }

  line(line, nth, parent) {
    const colour = COLOURS[nth % COLOURS.length];
    const path = line.points.map(([x, y], at) => `${at ? "L" : "M"}${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`);
    node("path", { d: path.join(""), stroke: colour, class: "line" }, parent);
    for (const [x, y, half] of line.points) {
      if (half === undefined) continue;
      const at = this.px(x);
      node("line", { x1: at, x2: at, y1: this.py(y - half), y2: this.py(y + half), stroke: colour, class: "bar" }, parent);
      node("circle", { cx: at, cy: this.py(y), r: 3.2, fill: colour }, parent);
    }
  }

  listen() {
    const svg = this.svg;
    const at = event => {
      const box = svg.getBoundingClientRect();
      return Math.min(W - RIGHT, Math.max(LEFT, (event.clientX - box.left) / box.width * W));
    };
    let from = null, band = null;
    svg.addEventListener("pointerdown", event => {
      from = at(event);
      band = node("rect", { class: "band", x: from, y: TOP, width: 0, height: H - TOP - BOTTOM }, svg);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", event => {
      const here = at(event);
      this.tell(here);
      if (!band) return;
      band.setAttribute("x", Math.min(from, here));
      band.setAttribute("width", Math.abs(here - from));
    });
    svg.addEventListener("pointerup", event => {
      if (!band) return;
      const here = at(event), [a, b] = [this.x(Math.min(from, here)), this.x(Math.max(from, here))];
      band.remove();
      band = null;
      if (Math.abs(here - from) > 6) { this.view.x0 = a; this.view.x1 = b; this.draw(); }
    });
    svg.addEventListener("pointerleave", () => { if (this.note) { this.note.remove(); this.note = null; } });
    svg.addEventListener("dblclick", () => this.reset());
  }

  // The value of each line nearest to the pointer.
  tell(px) {
    if (this.note) this.note.remove();
    const x = this.x(px);
    this.note = node("g", { class: "note" }, this.svg);
    node("line", { x1: px, x2: px, y1: TOP, y2: H - BOTTOM }, this.note);
    let row = 0;
    this.data.lines.forEach((line, nth) => {
      if (this.off.has(nth) || line.points.length === 0) return;
      const near = line.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      const text = `${line.name}: ${show(near[1])}`;
      const left = px < W / 2;
      const place = { x: px + (left ? 8 : -8), y: TOP + 14 + 15 * row++, "text-anchor": left ? "start" : "end" };
      node("text", { ...place, fill: COLOURS[nth % COLOURS.length] }, this.note, text);
    });
  }
}

document.querySelectorAll(".plot").forEach(box => new Plot(box));
