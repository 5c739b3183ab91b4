// What is around the plots: light and dark, any measure along any parameter, and the runs, searched and sorted.
"use strict";

// The reader's choice, or else the system's.
(function () {
  const root = document.documentElement;
  const remembered = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } } };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (remembered.get()) root.dataset.theme = remembered.get();
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a page from a file may have no storage */ }
  });
})();

// A file is read whole on paper, too.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));

// Any measure along any parameter, a line for each combination of the others.
class Explorer {
  constructor(box, data) {
    this.data = data;
    this.box = box;
    const bar = element("div", { class: "choose" }, box);
    this.measure = this.select(bar, "Measure", data.measures);
    this.along = this.select(bar, "along", data.parameters);
    this.plot = element("div", { class: "plot" }, box);
    this.draw();
  }

  select(bar, label, names) {
    const made = element("select", {}, element("label", {}, bar, `${label} `));
    names.forEach(name => element("option", {}, made, name));
    made.addEventListener("change", () => this.draw());
    return made;
  }

  draw() {
    const { parameters, measures, points } = this.data;
    const measure = measures.indexOf(this.measure.value), along = parameters.indexOf(this.along.value);
    const values = [...new Set(points.map(point => point.at[along]))];
    const numbers = values.every(value => value !== "" && isFinite(value));
    const lines = new Map();
    for (const { at, seen } of points) {
      if (!seen[measure]) continue;
      const name = parameters.map((place, nth) => nth === along ? null : `${place} = ${at[nth]}`).filter(Boolean).join(", ");
      const x = numbers ? Number(at[along]) : values.indexOf(at[along]);
      if (!lines.has(name)) lines.set(name, []);
      lines.get(name).push([x, ...seen[measure]]);
    }
    const sorted = [...lines].map(([name, points]) => ({
      name: name || measures[measure], points: points.sort((a, b) => a[0] - b[0]),
    }));
    this.plot.replaceChildren();
    new Plot(this.plot, {
      title: `${measures[measure]} along ${parameters[along]}`,
      x: this.data.shown[parameters[along]], y: this.data.shown[measures[measure]],
      categories: numbers ? undefined : values, lines: sorted,
    });
  }
}

// A table has a button for each column from the `first` on, and shows as many as the page has room for. `apply` shows
// all but those in `off`.
function chooseColumns(wide, first, names, off, apply) {
  const group = element("div", { class: "columns", role: "group", "aria-label": "columns" });
  wide.before(group);
  const columns = names.map((_, nth) => nth).slice(first);
  for (const column of [...columns].reverse()) {
    if (wide.scrollWidth <= wide.clientWidth) break;
    off.add(column);
    apply();
  }
  for (const column of columns) {
    const made = button(group, names[column], `column ${names[column]}`, () => {
      if (!off.delete(column)) off.add(column);
      made.setAttribute("aria-pressed", String(!off.has(column)));
      apply();
    });
    made.setAttribute("aria-pressed", String(!off.has(column)));
  }
}

// Tables of means with measures across.
document.querySelectorAll("table.means").forEach(table => {
  const names = [...table.tHead.rows[0].cells].map(cell => cell.textContent), off = new Set();
  const apply = () => [...table.rows].forEach(row => [...row.cells].forEach((cell, nth) => { cell.hidden = off.has(nth); }));
  chooseColumns(table.parentElement, 1, names, off, apply);
});

// Each run in a row. Words in the search must all be in it; a comparison such as seed=3 or goodput_mbit>9.5 must hold.
class Runs {
  constructor(box, data) {
    this.data = data;
    this.columns = [...data.parameters, "seed", ...data.measures];
    this.sorted = { column: -1, down: false };
    this.shown = Runs.STEP;
    const bar = element("div", { class: "choose" }, box);
    const help = "words, or comparisons: cubic seed=3 goodput_mbit>9.5";
    this.search = element("input", { type: "search", placeholder: help, "aria-label": `search runs: ${help}` }, bar);
    this.search.addEventListener("input", () => { this.shown = Runs.STEP; this.draw(); });
    this.count = element("output", {}, bar);
    const wide = element("div", { class: "wide", tabindex: 0 }, box);
    const table = element("table", { class: "runs" }, wide);
    this.head = element("tr", {}, element("thead", {}, table));
    this.body = element("tbody", {}, table);
    this.columns.forEach((name, nth) =>
      button(element("th", {}, this.head), data.shown[name], `sort by ${name}`, () => this.sort(nth)));
    element("th", {}, this.head, "again");
    this.more = button(box, "more", "show more runs", () => { this.shown += Runs.STEP * 10; this.draw(); });
    this.off = new Set();
    this.draw();
    chooseColumns(wide, data.parameters.length + 1, this.columns, this.off, () => this.draw());
  }

  sort(column) {
    this.sorted = { column, down: this.sorted.column === column && !this.sorted.down };
    [...this.head.children].forEach((cell, nth) => {
      if (nth === column) cell.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    this.draw();
  }

  fits(run) {
    const text = run.slice(0, -1).join(" ").toLowerCase();
    return this.search.value.toLowerCase().split(/\s+/).filter(Boolean).every(word => {
      const [, name, sign, wanted] = word.match(/^([^<>=]+)(<=|>=|<|>|=)(.+)$/) || [];
      const column = this.columns.findIndex(column => column.toLowerCase() === name);
      if (column < 0) return text.includes(word);
      const value = run[column];
      if (value === null) return false;
      if (sign === "=") return String(value).toLowerCase() === wanted || Number(value) === Number(wanted);
      const [a, b] = [Number(value), Number(wanted)];
      return { "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b }[sign];
    });
  }

  draw() {
    const { column, down } = this.sorted;
    const runs = this.data.runs.filter(run => this.fits(run));
    if (column >= 0) {
      const order = (a, b) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const numbers = Number(a) - Number(b);
        return isNaN(numbers) ? String(a).localeCompare(String(b)) : numbers;
      };
      runs.sort((a, b) => order(a[column], b[column]) * (down ? -1 : 1));
    }
    [...this.head.children].forEach((cell, nth) => { cell.hidden = this.off.has(nth); });
    this.count.textContent = ` ${runs.length} of ${this.data.runs.length} runs`;
    this.body.replaceChildren(...runs.slice(0, this.shown).map(run => this.row(run)));
    this.more.hidden = runs.length <= this.shown;
  }

  row(run) {
    const row = element("tr", {});
    run.slice(0, -1).forEach((value, nth) => {
      if (this.off.has(nth)) return;
      const text = value === null ? "" : typeof value === "number" ? show(value) : value;
      element("td", typeof value === "number" ? { class: "number", title: value } : {}, row, text);
    });
    const again = run[run.length - 1];
    button(element("td", {}, row), "copy", `copy: ${again}`, event => {
      if (navigator.clipboard) navigator.clipboard.writeText(again).then(() => { event.target.textContent = "copied"; });
      else prompt("", again);
    });
    return row;
  }
}
Runs.STEP = 100;

document.querySelectorAll(".data").forEach(box => {
  const data = JSON.parse(box.querySelector("script").textContent);
  const explorer = box.querySelector(".explorer"), runs = box.querySelector(".search");
  if (data.parameters.length > 0 && data.measures.length > 0) new Explorer(explorer, data);
  else explorer.remove();
  new Runs(runs, data);
});
