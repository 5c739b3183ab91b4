// Draws every element of class "plot" from the JSON inside it: lines with error bars, a legend that switches lines, zoom
// by dragging, by the wheel and by keys, values under the pointer or the cursor, and the plot's data as a file.
"use strict";
const NS = "http://www.w3.org/2000/svg";
const W = 860, H = 380, LEFT = 70, RIGHT = 16, TOP = 12, BOTTOM = 46;
// Colours that readers who see few of them tell apart too (Okabe and Ito's, darker where paper is white). More lines
// than these have a hue each.
const COLOURS = 8;
// Neighbours differ by their dashes, too.
const DASHES = ["none", "7 3", "2 3", "9 3 2 3", "14 4"];
// Of the whole width, by one key.
const STEP = 0.1, ZOOM = 0.7;

function node(name, attributes, parent, text) {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function element(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function button(parent, text, help, action) {
  const made = element("button", { type: "button", title: help, "aria-label": help }, parent, text);
  made.addEventListener("click", action);
  return made;
}

// Where a logarithmic axis is labelled: at powers of ten, and between them if there are few.
function decades(low, high) {
  const steps = high - low < 2 ? [1, 2, 5] : [1], out = [];
  for (let power = Math.floor(low); power <= high; power++) {
    for (const step of steps) {
      const at = power + Math.log10(step);
      if (at >= low && at <= high) out.push(at);
    }
  }
  return out;
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

function save(name, kind, bytes) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([bytes], { type: kind })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function quoted(field) {
  return /[",\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : String(field);
}

// The colour of one of `count` lines: its class, and for many lines its hue and one of three lightnesses.
function coloured(nth, count) {
  if (count <= COLOURS) return { class: `c${nth}` };
  return { class: `many l${nth % 3}`, style: `--hue: ${(nth * 360 / count).toFixed(1)}` };
}

// A short piece of a line as the plot draws it.
function sample(parent, nth, count) {
  const { class: kind, style = "" } = coloured(nth, count);
  const made = node("svg", { class: `sample ${kind}`, style, viewBox: "0 0 34 10", "aria-hidden": "true" }, parent);
  node("path", { d: "M1 5H33", "stroke-dasharray": DASHES[nth % DASHES.length] }, made);
}

class Plot {
  constructor(box, data) {
    this.data = data || JSON.parse(box.querySelector("script").textContent);
    this.off = new Set();
    this.cursor = null;
    this.log = { x: this.spread(), y: false };
    this.box = box;
    this.tools();
    const help = `${this.data.title}. Arrows move a cursor, plus and minus zoom, shift with arrows moves the view, ` +
      "0 shows everything.";
    this.svg = node("svg", { viewBox: `0 0 ${W} ${H}`, role: "application", tabindex: 0, "aria-label": help }, box);
    this.legend = element("div", { class: "legend" }, box);
    this.told = element("div", { class: "told", role: "status", hidden: "" }, box);
    this.data.lines.forEach((line, nth) => this.entry(line, nth));
    this.everything();
    // Values have room of their own, so that they hide nothing.
    this.tell((this.view.x0 + this.view.x1) / 2);
    this.tell(null);
    this.pointer();
    this.keys();
  }

  tools() {
    const bar = element("div", { class: "tools" }, this.box);
    button(bar, "+", "zoom in", () => this.zoom(ZOOM));
    button(bar, "−", "zoom out", () => this.zoom(1 / ZOOM));
    button(bar, "all", "show everything", () => this.everything());
    this.switch(bar, "x");
    this.switch(bar, "y");
    button(bar, "csv", "save the plot's data", () => save(`${this.name()}.csv`, "text/csv", this.csv()));
    button(bar, "svg", "save the picture", () => save(`${this.name()}.svg`, "image/svg+xml", this.picture()));
  }

  // A logarithmic axis, for values above nothing.
  switch(bar, axis) {
    if (axis === "x" && (this.data.categories || this.data.x === "time (s)")) return;
    const made = button(bar, `log ${axis}`, `logarithmic ${axis}`, () => {
      this.log[axis] = !this.log[axis];
      made.setAttribute("aria-pressed", String(this.log[axis]));
      this.everything();
    });
    made.setAttribute("aria-pressed", String(this.log[axis]));
  }

  // Were values of a parameter chosen by factors rather than by steps?
  spread() {
    const xs = this.data.lines.flatMap(line => line.points.filter(point => point.length > 2).map(([x]) => x));
    const [low, high] = [Math.min(...xs), Math.max(...xs)];
    return !this.data.categories && new Set(xs).size > 2 && low > 0 && high / low >= 50;
  }

  // From values to the axis and back; what a logarithmic axis has no place for is nowhere.
  onto(axis, value) { return this.log[axis] ? (value > 0 ? Math.log10(value) : NaN) : value; }
  from(axis, place) { return this.log[axis] ? Math.pow(10, place) : place; }

  // A line's points on the axes: x, y, the ends of the interval, and the values as they were. Kept until an axis
  // changes: each move of the pointer asks for them.
  placed(line) {
    const axes = `${this.log.x} ${this.log.y}`;
    if (line.axes !== axes) [line.axes, line.placed] = [axes, this.place(line)];
    return line.placed;
  }

  place(line) {
    return line.points.map(([x, y, half, above = half]) => ({
      x: this.onto("x", x), y: this.onto("y", y), value: { x, y, half, above },
      low: this.onto("y", y - (half || 0)), high: this.onto("y", y + (above || 0)),
    })).filter(({ x, y }) => !isNaN(x) && !isNaN(y));
  }

  name() { return this.data.title.replace(/[^\w.-]+/g, "-").toLowerCase(); }

  // A row for each point of the lines that are switched on.
  csv() {
    const ranges = this.data.lines.some(line => line.points.some(point => point.length > 3));
    const ends = ranges ? ["least", "greatest"] : ["half of the 95 % interval"];
    const rows = [["line", this.data.x, this.data.y, ...ends]];
    const names = this.data.categories;
    this.lines().forEach(({ line }) => line.points.forEach(([x, y, half, above]) =>
      rows.push([line.name, names ? names[x] : x, y, ...(ranges ? [y - half, y + above] : [half ?? ""])])));
    return rows.map(row => row.map(quoted).join(",") + "\n").join("");
  }

  // The drawing with the colours it has now, for other programs.
  picture() {
    const copy = this.svg.cloneNode(true);
    const from = this.svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
    const keep = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "opacity"];
    from.forEach((old, nth) => {
      const style = getComputedStyle(old);
      keep.forEach(name => to[nth].setAttribute(name, style.getPropertyValue(name)));
    });
    copy.setAttribute("xmlns", NS);
    copy.setAttribute("font-family", "sans-serif");
    copy.setAttribute("style", `background: ${getComputedStyle(document.body).backgroundColor}`);
    return new XMLSerializer().serializeToString(copy);
  }

  entry(line, nth) {
    const made = button(this.legend, "", "switch; with shift: only this one", event => {
      if (event.shiftKey) this.alone(nth);
      else if (!this.off.delete(nth)) this.off.add(nth);
      this.pressed();
    });
    made.removeAttribute("aria-label");
    sample(made, nth, this.data.lines.length);
    made.appendChild(document.createTextNode(line.name));
    made.setAttribute("aria-pressed", "true");
  }

  alone(only) {
    const others = this.data.lines.map((_, nth) => nth).filter(nth => nth !== only);
    const already = others.every(nth => this.off.has(nth)) && !this.off.has(only);
    this.off = new Set(already ? [] : others);
  }

  pressed() {
    [...this.legend.children].forEach((made, nth) => made.setAttribute("aria-pressed", String(!this.off.has(nth))));
    this.fit();
    this.draw();
  }

  // Lines that are switched on.
  lines() {
    return this.data.lines.map((line, nth) => ({ line, nth })).filter(({ nth }) => !this.off.has(nth));
  }

  // The whole of x, of all lines, and what fits of y.
  everything() {
    let [x0, x1] = [Infinity, -Infinity];
    for (const line of this.data.lines) for (const { x } of this.placed(line)) {
      x0 = Math.min(x0, x);
      x1 = Math.max(x1, x);
    }
    if (!(x1 >= x0)) [x0, x1] = [0, 1];
    const pad = this.data.categories ? 0.3 : x0 === x1 ? 0.5 : 0;
    this.whole = { x0: x0 - pad, x1: x1 + pad };
    this.view = { ...this.whole };
    this.frozen = false;
    this.fit();
    this.draw();
  }

  // The room that visible points need, unless a user chose another.
  fit() {
    if (this.frozen) return;
    let [y0, y1] = [this.log.y ? Infinity : 0, -Infinity];
    for (const { line } of this.lines()) for (const { x, y, low, high } of this.placed(line)) {
      if (x < this.view.x0 || x > this.view.x1) continue;
      y0 = Math.min(y0, isNaN(low) ? y : low);
      y1 = Math.max(y1, high);
    }
    if (y0 === Infinity) y0 = 0;
    this.view.y0 = y0;
    this.view.y1 = y1 > y0 ? y0 + (y1 - y0) * 1.04 : y0 + 1;
  }

  // Makes the view `part` as wide, around the cursor or the middle.
  zoom(part, around) {
    const { x0, x1 } = this.view;
    const at = around ?? (this.cursor !== null && this.cursor > x0 && this.cursor < x1 ? this.cursor : (x0 + x1) / 2);
    this.look(at - (at - x0) * part, at + (x1 - at) * part);
  }

  // Shows x0 to x1, as far as there is something.
  look(x0, x1) {
    const { x0: low, x1: high } = this.whole;
    const width = Math.min(Math.max(x1 - x0, (high - low) * 1e-5), high - low);
    this.view.x0 = Math.min(Math.max(x0, low), high - width);
    this.view.x1 = this.view.x0 + width;
    this.fit();
    this.draw();
  }

  px(x) { return LEFT + (x - this.view.x0) / (this.view.x1 - this.view.x0) * (W - LEFT - RIGHT); }
  py(y) { return H - BOTTOM - (y - this.view.y0) / (this.view.y1 - this.view.y0) * (H - TOP - BOTTOM); }
  x(px) { return this.view.x0 + (px - LEFT) / (W - LEFT - RIGHT) * (this.view.x1 - this.view.x0); }
  y(py) { return this.view.y0 + (H - BOTTOM - py) / (H - TOP - BOTTOM) * (this.view.y1 - this.view.y0); }

  draw() {
    if (this.body) this.body.remove();
    this.body = node("g", {}, this.svg);
    this.svg.dataset.view = [this.view.x0, this.view.x1, this.view.y0, this.view.y1].join(" ");
    this.axes();
    const id = "clip" + Plot.made++;
    const clip = node("clipPath", { id }, node("defs", {}, this.body));
    node("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM }, clip);
    const inside = node("g", { "clip-path": `url(#${id})` }, this.body);
    this.lines().forEach(({ line, nth }) => this.line(line, nth, inside));
    this.tell(this.cursor);
  }

  axes() {
    const axes = node("g", { class: "axes" }, this.body);
    const names = this.data.categories;
    const { x0, x1, y0, y1 } = this.view;
    const xs = names ? names.map((_, nth) => nth) : this.log.x ? decades(x0, x1) : ticks(x0, x1, 8);
    for (const x of xs) {
      if (x < this.view.x0 || x > this.view.x1) continue;
      node("line", { x1: this.px(x), x2: this.px(x), y1: TOP, y2: H - BOTTOM }, axes);
      node("text", { x: this.px(x), y: H - BOTTOM + 16, "text-anchor": "middle" }, axes, names ? names[x] : show(this.from("x", x)));
    }
    for (const y of this.log.y ? decades(y0, y1) : ticks(y0, y1, 6)) {
      if (y < this.view.y0) continue;
      node("line", { x1: LEFT, x2: W - RIGHT, y1: this.py(y), y2: this.py(y) }, axes);
      node("text", { x: LEFT - 6, y: this.py(y) + 4, "text-anchor": "end" }, axes, show(this.from("y", y)));
    }
    node("text", { x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle" }, axes, this.data.x);
    const middle = (TOP + H - BOTTOM) / 2;
    const turned = `rotate(-90 14 ${middle})`;
    node("text", { x: 14, y: middle, "text-anchor": "middle", transform: turned }, axes, this.data.y);
  }

  line(line, nth, parent) {
    const { class: kind, style = "" } = coloured(nth, this.data.lines.length);
    const group = node("g", { class: `line ${kind}`, style, "data-line": nth }, parent);
    const points = this.placed(line);
    const path = points.map(({ x, y }, at) => `${at ? "L" : "M"}${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`);
    node("path", { d: path.join(""), "stroke-dasharray": DASHES[nth % DASHES.length] }, group);
    for (const { x, y, low, high, value } of points) {
      if (value.half === undefined) continue;
      const at = this.px(x), [bottom, top] = [isNaN(low) ? H : this.py(low), this.py(high)];
      node("path", { d: `M${at - 3} ${bottom}h6m-3 0V${top}m-3 0h6` }, group);
      node("circle", { cx: at, cy: this.py(y), r: 3.2 }, group);
    }
  }

  pointer() {
    const svg = this.svg;
    const at = event => {
      const box = svg.getBoundingClientRect();
      return {
        x: Math.min(W - RIGHT, Math.max(LEFT, (event.clientX - box.left) / box.width * W)),
        y: Math.min(H - BOTTOM, Math.max(TOP, (event.clientY - box.top) / box.height * H)),
      };
    };
    let from = null, band = null;
    svg.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      from = at(event);
      band = node("rect", { class: "band" }, svg);
      svg.setPointerCapture(event.pointerId);
    });
    // A drag across takes a stretch of x; one that goes down as well takes a box.
    const span = (here, from) => {
      const boxed = Math.abs(here.y - from.y) > 40 && Math.abs(here.x - from.x) > 6;
      return {
        boxed, x: Math.min(from.x, here.x), width: Math.abs(here.x - from.x),
        y: boxed ? Math.min(from.y, here.y) : TOP, height: boxed ? Math.abs(here.y - from.y) : H - TOP - BOTTOM,
      };
    };
    svg.addEventListener("pointermove", event => {
      const here = at(event);
      this.tell(this.x(here.x));
      if (!band) return;
      const { boxed, ...place } = span(here, from);
      for (const key in place) band.setAttribute(key, place[key]);
    });
    const leave = () => { if (band) band.remove(); band = null; };
    svg.addEventListener("pointercancel", leave);
    svg.addEventListener("pointerup", event => {
      if (!band) return;
      const { boxed, x, width, y, height } = span(at(event), from);
      leave();
      if (width <= 6) return;
      const [x0, x1] = [this.x(x), this.x(x + width)];
      if (boxed) {
        [this.view.y0, this.view.y1] = [this.y(y + height), this.y(y)];
        this.frozen = true;
      }
      this.look(x0, x1);
    });
    svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) this.tell(null); });
    svg.addEventListener("dblclick", () => this.everything());
    // Only where the plot has the focus: a page that is scrolled must not stop at each plot.
    svg.addEventListener("wheel", event => {
      if (document.activeElement !== svg) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, this.x(at(event).x));
    }, { passive: false });
  }

  keys() {
    const width = () => this.view.x1 - this.view.x0;
    // To the next point where they are few, and else a hundredth of the width.
    const move = by => {
      const here = this.cursor ?? (this.view.x0 + this.view.x1) / 2;
      const xs = [...new Set(this.lines().flatMap(({ line }) => this.placed(line).map(({ x }) => x)))];
      const beyond = xs.filter(x => (x - here) * by > 1e-9 * width()).sort((a, b) => (a - b) * by);
      const next = xs.length > 100 ? here + by * width() / 100 : beyond[0] ?? here;
      this.tell(Math.min(this.view.x1, Math.max(this.view.x0, next)));
    };
    const pan = by => this.look(this.view.x0 + by * STEP * width(), this.view.x1 + by * STEP * width());
    this.svg.addEventListener("keydown", event => {
      const turn = event.shiftKey ? pan : move;
      const action = {
        ArrowLeft: () => turn(-1), ArrowRight: () => turn(1), "+": () => this.zoom(ZOOM), "=": () => this.zoom(ZOOM),
        "-": () => this.zoom(1 / ZOOM), 0: () => this.everything(), Escape: () => this.tell(null),
      }[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
    this.svg.addEventListener("blur", () => this.tell(null));
  }

  // The value of each line nearest to the cursor, beside it; the cursor stands at the nearest point of all.
  tell(x) {
    this.cursor = x;
    if (this.note) this.note.remove();
    this.note = null;
    this.told.hidden = x === null;
    if (x === null) return;
    const nearest = points => points.reduce((a, b) => Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a);
    const rows = this.lines().map(({ line, nth }) => ({ line, nth, points: this.placed(line) }))
      .filter(({ points }) => points.length > 0).map(({ line, nth, points }) => ({ line, nth, near: nearest(points) }));
    if (rows.length === 0) return;
    const at = nearest(rows.map(({ near }) => near));
    const px = this.px(at.x), names = this.data.categories;
    this.note = node("g", { class: "note" }, this.svg);
    node("line", { x1: px, x2: px, y1: TOP, y2: H - BOTTOM }, this.note);
    const where = names ? names[at.value.x] : show(at.value.x);
    this.told.replaceChildren(element("b", {}, null, `${this.data.x} ${where}`));
    for (const { line, nth, near } of rows) {
      const { y, half, above } = near.value;
      const ends = half === undefined ? "" :
        half === above ? ` ± ${show(half)}` : ` (${show(y - half)} to ${show(y + above)})`;
      const row = element("span", {}, this.told);
      sample(row, nth, this.data.lines.length);
      row.appendChild(document.createTextNode(`${line.name}: ${show(y)}${ends}`));
      const { class: kind, style = "" } = coloured(nth, this.data.lines.length);
      node("circle", { cx: this.px(near.x), cy: this.py(near.y), r: 3, class: kind, style }, this.note);
    }
  }
}
Plot.made = 0;

document.querySelectorAll(".plot").forEach(box => { if (box.querySelector("script")) new Plot(box); });
