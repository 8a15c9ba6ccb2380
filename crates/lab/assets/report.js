"use strict";
// The page without this script is complete; the script adds what needs a pointer or a keyboard.
(() => {
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const SVG = "http://www.w3.org/2000/svg";
const problems = [];
addEventListener("error", e => problems.push(e.message));
addEventListener("unhandledrejection", e => problems.push(String(e.reason)));
document.addEventListener("securitypolicyviolation", e => problems.push("blocked: " + e.violatedDirective));

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value); else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// ---- data: the texts of all references in one block, deflated and in base 85

// Five digits for four bytes, from "#" on, with "z" for "<".
function bytesOf(coded) {
  const digits = Array.from(coded, c => c === "z" ? 25 : c.charCodeAt(0) - 35);
  const out = new Uint8Array(Math.floor(digits.length * 4 / 5));
  for (let at = 0, to = 0; at < digits.length; at += 5) {
    let word = 0;
    for (let i = 0; i < 5; i++) word = word * 85 + (digits[at + i] ?? 84);
    for (let shift = 24; shift >= 0 && to < out.length; shift -= 8) out[to++] = word >>> shift;
  }
  return out;
}
// "~" is a number that differs from the one before as that one from its predecessor.
function fieldsOf(column) {
  const fields = column.split("|");
  fields.forEach((field, i) => {
    if (field === "~") fields[i] = String(Math.round((2 * fields[i - 1] - fields[i - 2]) * 1e9) / 1e9);
  });
  return fields;
}

let texts = null;
// A table is the list of its columns.
async function text(reference) {
  texts ??= new Response(new Blob([bytesOf($("#data").textContent)]).stream()
    .pipeThrough(new DecompressionStream("deflate"))).json();
  const found = (await texts)[reference.className][reference.dataset.at];
  if (typeof found === "string") return found;
  const columns = found.map(fieldsOf);
  return columns[0].map((first, i) => columns.map(column => column[i]).join(",")).join("\n") + "\n";
}

function parse(csv) {
  const lines = csv.trimEnd().split("\n").map(line => {
    const cells = [];
    line.replace(/(?:"((?:[^"]|"")*)"|([^,]*))(,|$)/g, (all, quoted, plain, end) => {
      if (cells.end) return "";
      cells.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
      cells.end = end === "";
      return "";
    });
    return cells;
  });
  const head = lines.shift();
  return lines.map(line => Object.fromEntries(head.map((name, i) => [name, line[i] ?? ""])));
}

const known = new WeakMap();
function rows(figure) {
  if (!known.has(figure)) known.set(figure, text($("script.csv", figure)).then(parse));
  return known.get(figure);
}

// ---- figures: geometry from the attributes of panels and layers

const numeric = value => value === "" ? NaN : Number(value);
function axis(words) {
  const [kind, low, high, factor, ...unit] = words.split(" ");
  return { kind, low: +low, high: +high, factor: +factor, unit: unit.join(" ") };
}
function share(a, value) {
  return a.kind === "log" ? Math.log(value / a.low) / Math.log(a.high / a.low) : (value - a.low) / (a.high - a.low);
}
function panelOf(group) {
  const [x, y, w, h] = group.dataset.box.split(" ").map(Number);
  const X = axis(group.dataset.x), Y = axis(group.dataset.y);
  return { group, x, y, w, h, X, Y, px: v => x + w * share(X, v), py: v => y + h * (1 - share(Y, v)) };
}
function layersOf(root) {
  return $$(".layer", root).map(group => {
    const [first, count] = group.dataset.rows.split(" ").map(Number);
    return { group, first, count, marks: $$(".m", group), series: group.dataset.series };
  });
}
function digits(value) { return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : ""; }

function tell(row, panel) {
  const show = (a, value) => {
    const number = numeric(value);
    return Number.isNaN(number) ? value : digits(number * a.factor) + (a.unit ? " " + a.unit : "");
  };
  let said = `${row.series}: ${show(panel.Y, row.value)}\nat ${show(panel.X, row.x)}`;
  if (row.low !== "" && row.high !== "" && row.mark === "point") {
    said += `\n95 % interval ${show(panel.Y, row.low)} to ${show(panel.Y, row.high)}`;
  }
  return row.n === "" ? said : said + `\nn = ${row.n}`;
}

const tip = $("#tip");
function place(said, x, y) {
  tip.textContent = said;
  tip.hidden = !said;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + "px";
  tip.style.top = Math.max(4, y - box.height - 10) + "px";
}

/// Marks of a figure that can be pointed at: each with its row of data and its panel.
async function targets(figure) {
  const data = await rows(figure);
  return $$(".panel", figure).flatMap(group => {
    const panel = panelOf(group);
    return layersOf(group).filter(l => !l.group.classList.contains("off"))
      .flatMap(l => l.marks.map((mark, i) => ({ mark, row: data[l.first + i], panel })));
  });
}
function centre(mark) {
  const box = ($(".dot", mark) ?? mark).getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2, box];
}
function choose(figure, target) {
  $$(".m.at", figure).forEach(mark => mark.classList.remove("at"));
  if (!target) return place("", 0, 0);
  target.mark.classList.add("at");
  const [x, , box] = centre(target.mark);
  place(tell(target.row, target.panel), x, box.y);
}
function nearest(all, x, y) {
  let best = null, least = 30;
  for (const target of all) {
    const [cx, cy, box] = centre(target.mark);
    const inside = x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
    const distance = inside ? 0 : Math.hypot(cx - x, cy - y);
    if (distance < least) [best, least] = [target, distance];
  }
  return best;
}

function pointing(figure, svg) {
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", async e => choose(figure, nearest(await targets(figure), e.clientX, e.clientY)));
  svg.addEventListener("pointerleave", () => choose(figure, null));
  svg.addEventListener("blur", () => choose(figure, null));
  let at = -1;
  svg.addEventListener("keydown", async e => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (e.key === "Escape") return choose(figure, null);
    if (!step || e.target !== svg) return;
    e.preventDefault();
    const all = await targets(figure);
    if (!all.length) return;
    at = (at + step + all.length) % all.length;
    choose(figure, all[at]);
  });
}

function legend(figure) {
  for (const key of $$(".key", figure)) {
    key.setAttribute("role", "button");
    key.setAttribute("tabindex", "0");
    key.setAttribute("aria-pressed", "true");
    const toggle = () => {
      const on = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", on);
      $$(`.layer[data-series="${key.dataset.series}"]`, figure).forEach(l => l.classList.toggle("off", !on));
    };
    key.addEventListener("click", toggle);
    key.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); toggle(); } });
  }
}

// ---- logarithmic axis: marks are moved to where the new scale has their values

function logTicks(low, high) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
    for (const step of Math.log10(high / low) > 3 ? [1] : [1, 2, 5]) {
      const at = step * 10 ** e;
      if (at >= low && at <= high) ticks.push(at);
    }
  }
  return ticks;
}
const round = value => Math.round(value * 10) / 10;

async function toLog(figure, group) {
  const data = await rows(figure);
  const layers = layersOf(group);
  const values = layers.flatMap(l => data.slice(l.first, l.first + l.count))
    .flatMap(row => [row.value, row.low, row.high].map(numeric)).filter(v => v > 0);
  const Y = axis(group.dataset.y);
  Y.kind = "log"; Y.low = Math.min(...values) / 1.1; Y.high = Math.max(...values) * 1.1;
  group.dataset.y = `log ${Y.low} ${Y.high} ${Y.factor} ${Y.unit}`;
  const panel = panelOf(group);
  const y = value => round(panel.py(Math.max(numeric(value), Y.low)));
  const axisGroup = $(".axis.y", group);
  const name = $(".name", axisGroup);
  axisGroup.replaceChildren(...logTicks(Y.low * Y.factor, Y.high * Y.factor).flatMap(at => {
    const grid = document.createElementNS(SVG, "path"), label = document.createElementNS(SVG, "text");
    const place = y(at / Y.factor);
    grid.setAttribute("class", "grid");
    grid.setAttribute("d", `M${panel.x} ${place}h${panel.w}`);
    label.setAttribute("x", panel.x - 8);
    label.setAttribute("y", place + 3.8);
    label.textContent = digits(at);
    return [grid, label];
  }), name);
  for (const layer of layers) move(layer, data, panel, y);
}

function move(layer, data, panel, y) {
  const part = data.slice(layer.first, layer.first + layer.count);
  const kind = layer.group.classList[1];
  layer.marks.forEach((mark, i) => {
    const row = part[i];
    if (kind === "points") {
      const x = mark.getAttribute("transform").match(/\(([^ ]+)/)[1], at = y(row.value);
      mark.setAttribute("transform", `translate(${x} ${at})`);
      const low = round(y(row.low) - at), high = round(y(row.high) - at);
      $(".bar", mark)?.setAttribute("d", `M0 ${low}V${high}M-3 ${low}h6M-3 ${high}h6`);
    } else if (kind === "levels") {
      mark.setAttribute("d", `M${panel.x} ${y(row.value)}h${panel.w}`);
    } else if (kind === "boxes") {
      const box = $("rect", mark), line = $(".line", mark);
      box.setAttribute("y", y(row.high));
      box.setAttribute("height", Math.max(0, round(y(row.low) - y(row.high))));
      line.setAttribute("d", line.getAttribute("d").replace(/ [^h]+h/, ` ${y(row.value)}h`));
    }
  });
  const path = $(":scope > .line:not(.m)", layer.group);
  if (path && !path.dataset.thinned) {
    let i = 0;
    const shown = part.filter(row => row.value !== "");
    const d = path.getAttribute("d").replace(/([ML])([-\d.]+) [-\d.]+/g, (all, c, x) => `${c}${x} ${y(shown[i++].value)}`);
    path.setAttribute("d", d);
  }
}

function logButton(figure) {
  const groups = $$('.panel[data-log="1"]', figure);
  if (!groups.length) return [];
  const before = new Map();
  const button = make("button", { type: "button", "aria-pressed": "false", onclick: async () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", on);
    for (const group of groups) {
      if (on) {
        before.set(group, [group.dataset.y, group.innerHTML]);
        await toLog(figure, group);
      } else {
        [group.dataset.y, group.innerHTML] = before.get(group);
      }
    }
  } }, "log axis");
  return [button];
}

// ---- downloads

// The style without declarations that read custom properties: a file has no page that sets them, and
// some programs take such a declaration for black. Literal values stand before them.
function literal(style) {
  const parts = style.split(/(?<=[;{}])/);
  return parts.map(part => !part.includes("var(") ? part : part.endsWith("}") ? "}" : "").join("");
}
function file(figure) {
  const svg = $("svg.figure", figure).cloneNode(true);
  svg.setAttribute("xmlns", SVG);
  svg.removeAttribute("tabindex");
  const description = document.createElementNS(SVG, "desc"), style = document.createElementNS(SVG, "style");
  description.id = $(".alt", figure).id;
  description.textContent = $(".alt", figure).textContent;
  style.textContent = literal($("#figure-style").textContent);
  $("title", svg).after(description, style);
  return new XMLSerializer().serializeToString(svg);
}
let saved = null;
function save(name, type, content) {
  if (saved) return saved.push({ name, type, content });
  const url = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
async function png(figure) {
  const source = file(figure);
  const [, , width, height] = $("svg.figure", figure).getAttribute("viewBox").split(" ").map(Number);
  const sized = source.replace("<svg ", `<svg width="${width * 3}" height="${height * 3}" `);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(sized);
  await image.decode();
  const canvas = make("canvas");
  canvas.width = width * 3;
  canvas.height = height * 3;
  canvas.getContext("2d").drawImage(image, 0, 0);
  return new Promise(done => canvas.toBlob(done, "image/png"));
}

// ---- series over time: uPlot with zoom in all panels and other widths of bins

async function columns(figure) {
  const panels = new Map();
  for (const row of await rows(figure)) {
    if (!["line", "bin", "band"].includes(row.mark)) continue;
    const panel = panels.get(row.panel) ?? panels.set(row.panel, new Map()).get(row.panel);
    const column = panel.get(row.series) ?? panel.set(row.series, []).get(row.series);
    column.push([Number(row.x), row.value === "" ? null : Number(row.value)]);
  }
  return panels;
}
function rebin(points, times) {
  if (times === 1) return points;
  const out = [];
  for (let i = 0; i < points.length; i += times) {
    const part = points.slice(i, i + times), values = part.map(p => p[1]).filter(v => v !== null);
    out.push([part.at(-1)[0], values.length ? values.reduce((a, b) => a + b) / values.length : null]);
  }
  return out;
}
async function live(figure, times) {
  const panels = await columns(figure);
  const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink");
  const host = $(".live", figure) ?? figure.insertBefore(make("div", { class: "live" }), $(".alt", figure));
  host.replaceChildren();
  const sync = uPlot.sync(figure.id);
  const width = Math.max(300, figure.clientWidth), grid = { stroke: style.getPropertyValue("--grid"), width: 1 };
  const looks = Object.fromEntries($$(".layer", figure).map(l => [l.dataset.series, l.classList[2]]));
  const keys = $$(".key", figure);
  const colour = name => {
    const key = keys.find(k => k.textContent === name);
    return style.getPropertyValue("--" + (key ? looks[key.dataset.series] : "s0"));
  };
  const groups = $$(".panel", figure);
  host.charts = [];
  for (const [name, series] of panels) {
    const unit = axis(groups.find(g => $(".axis.y .name", g).textContent === name).dataset.y);
    const binned = [...series].map(([, points]) => rebin(points, times));
    const data = [binned[0].map(p => p[0]), ...binned.map(points => points.map(p => p[1] === null ? null : p[1] * unit.factor))];
    const axes = [{ stroke: ink, grid }, { stroke: ink, grid, size: 60 }];
    host.charts.push(new uPlot({
      width, height: 220, title: name, axes,
      scales: { x: { time: false } },
      cursor: { sync: { key: sync.key, setSeries: true }, drag: { x: true, y: false } },
      series: [{ label: "time (s)" }, ...[...series.keys()].map(label => ({ label, stroke: colour(label), width: 1.5,
        // A point is at the end of its bin.
        paths: uPlot.paths.stepped({ align: -1 }) }))],
    }, data, host));
  }
  $(".scroll", figure).hidden = true;
  return host;
}
async function seriesTools(figure) {
  if (!figure.dataset.series || typeof uPlot === "undefined") return [];
  const select = make("select", { onchange: () => live(figure, Number(select.value)) });
  const first = await columns(figure);
  const points = [...[...first.values()][0].values()][0];
  const bin = points.length > 1 ? points[1][0] - points[0][0] : 1;
  for (const times of [1, 2, 4, 10, 20, 40, 100]) {
    if (points.length / times >= 5) select.append(make("option", { value: times }, digits(bin * times * 1000) + " ms"));
  }
  return [make("label", {}, "bins of ", select)];
}

// ---- tables

const UNITS = { "": 1, "%": 0.01, "packets": 1, "µs": 0.000001, "ms": 0.001, "s": 1, "bit/s": 1, "kbit/s": 1000,
  "Mbit/s": 1000000, "Gbit/s": 1000000000, "B": 1, "kB": 1000, "MB": 1000000, "GB": 1000000000 };
// The number by which a cell is sorted: of its attribute, or of its text, in the base unit.
function numberOf(cell) {
  if (cell?.dataset.v !== undefined) return Number(cell.dataset.v);
  const [number, unit] = (cell?.textContent ?? "").replace(/^[✓✗] /, "").split(" ");
  return number ? Number(number) * (UNITS[!unit || unit === "±" ? "" : unit] ?? NaN) : NaN;
}

function sortable(table) {
  $$("tbody td", table).forEach(cell => cell.classList.toggle("number", !Number.isNaN(numberOf(cell))));
  $$("thead th", table).forEach((head, column) => {
    const name = head.textContent;
    head.replaceChildren(make("button", { type: "button", onclick: () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      $$("th", table).forEach(th => th.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const words = row => row.cells[column]?.textContent ?? "";
      const order = (a, b) => {
        const d = numberOf(a.cells[column]) - numberOf(b.cells[column]);
        return (Number.isNaN(d) ? words(a).localeCompare(words(b)) : d) * (up ? 1 : -1);
      };
      const body = $("tbody", table);
      body.append(...[...body.rows].sort(order));
    } }, name));
  });
}
async function rawTable(block) {
  const csv = await text(block), name = block.dataset.name;
  const details = make("details", {}, make("summary", {}, name));
  details.addEventListener("toggle", () => {
    if ($("table", details)) return;
    const data = parse(csv), head = Object.keys(data[0] ?? {});
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...head.map(name => make("th", {}, name)))),
      make("tbody", {}, ...data.map(row => make("tr", {}, ...head.map(name => make("td", {}, row[name]))))));
    sortable(table);
    details.append(make("div", { class: "scroll", tabindex: "0" }, table));
  });
  const file = name.toLowerCase() + ".csv";
  block.before(make("div", { class: "tools" },
    make("button", { type: "button", onclick: () => save(file, "text/csv", csv) }, "CSV")), details);
}

// ---- begin

async function begin() {
  for (const figure of $$("figure")) {
    const svg = $("svg.figure", figure), name = figure.id.slice(4);
    pointing(figure, svg);
    legend(figure);
    const button = (label, act) => make("button", { type: "button", onclick: act }, label);
    $(".scroll", figure).after(make("div", { class: "tools" },
      button("SVG", () => save(name + ".svg", "image/svg+xml", file(figure))),
      button("PNG", async () => save(name + ".png", "image/png", await png(figure))),
      button("CSV", async () => save(name + ".csv", "text/csv", await text($("script.csv", figure)))),
      ...logButton(figure), ...await seriesTools(figure)));
  }
  $$("table").forEach(sortable);
  await Promise.all($$("script.raw").map(rawTable));
  await Promise.all($$("script.toml").map(async block => block.before(make("pre", {}, await text(block)))));
}

// ---- self-test: file:///.../report.html#selftest

/// Tests the live series of a figure: widths of bins, zoom in all panels, legend.
async function testSeries(figure, bins, problem) {
  const wait = () => new Promise(done => setTimeout(done, 60));
  const panels = await columns(figure);
  for (const option of [bins.options[0], bins.options[bins.options.length - 1]]) {
    bins.value = option.value;
    bins.dispatchEvent(new Event("change"));
    await wait();
    const charts = $(".live", figure).charts, times = Number(option.value);
    if (charts.length !== panels.size) problem(`${charts.length} charts for ${panels.size} panels`);
    charts.forEach((chart, i) => {
      const points = [...[...panels.values()][i].values()][0];
      if (chart.data[0].length !== Math.ceil(points.length / times)) problem(`bins of ${option.textContent}`);
      const values = points.slice(0, times).map(p => p[1]).filter(v => v !== null);
      const factor = axis($$(".panel", figure).find(g => $(".axis.y .name", g).textContent === [...panels.keys()][i]).dataset.y).factor;
      const mean = values.length ? values.reduce((a, b) => a + b) / values.length * factor : null;
      if (Math.abs((chart.data[1][0] ?? 0) - (mean ?? 0)) > 1e-9 * Math.abs(mean ?? 0)) problem("a bin is not the mean of its parts");
    });
  }
  const charts = $(".live", figure).charts, over = $(".u-over", charts[0].root), box = over.getBoundingClientRect();
  const before = charts.map(chart => chart.scales.x.max - chart.scales.x.min);
  const mouse = (name, share, target) => target.dispatchEvent(new MouseEvent(name, {
    clientX: box.left + box.width * share, clientY: box.top + box.height / 2, bubbles: true, button: 0, movementX: 9, view: window }));
  mouse("mousemove", 0.3, over);
  mouse("mousedown", 0.3, over);
  mouse("mousemove", 0.5, over);
  mouse("mousemove", 0.6, over);
  mouse("mouseup", 0.6, document);
  await wait();
  charts.forEach((chart, i) => {
    const { min, max } = chart.scales.x, first = charts[0].scales.x;
    if (!(max - min < before[i] / 2)) problem(`panel ${i + 1} does not zoom`);
    if (Math.abs(min - first.min) > 1e-9 || Math.abs(max - first.max) > 1e-9) problem(`panel ${i + 1} zooms apart`);
  });
  $(".u-legend .u-series:nth-child(2) th", charts[0].root)?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await wait();
  if (charts[0].series[1].show) problem("the legend hides no live series");
  $(".live", figure).replaceChildren();
  $(".scroll", figure).hidden = false;
}

async function selftest() {
  const said = [];
  const check = (good, what) => { if (!good) said.push(what); };
  const wait = () => new Promise(done => setTimeout(done, 20));
  let marks = 0;
  for (const figure of $$("figure")) {
    const data = await rows(figure), layers = layersOf(figure), id = figure.id;
    const drawn = layers.reduce((sum, l) => sum + l.count, 0);
    check(drawn === data.length, `${id}: ${drawn} rows drawn of ${data.length}`);
    for (const l of layers) {
      const path = $(":scope > path:not(.m)", l.group);
      check(l.marks.length === l.count || path, `${id}: ${l.marks.length} marks for ${l.count} rows`);
      if (path && !l.marks.length && l.group.classList.contains("lines") && !path.dataset.thinned) {
        const finite = data.slice(l.first, l.first + l.count).filter(row => row.value !== "").length;
        const vertices = (path.getAttribute("d").match(/[ML]/g) ?? []).length;
        check(vertices === finite, `${id}: ${vertices} vertices for ${finite} values`);
      }
      const panel = panelOf(l.group.closest(".panel"));
      l.marks.forEach((mark, i) => {
        const row = data[l.first + i];
        if (!l.group.classList.contains("points") || !row) return;
        const y = Number(mark.getAttribute("transform").match(/ ([-\d.]+)\)/)[1]);
        check(Math.abs(y - panel.py(Number(row.value))) < 0.11, `${id}: a mark is not at its value`);
      });
      marks += l.count;
    }
    const parsed = new DOMParser().parseFromString(file(figure), "image/svg+xml");
    check(!$("parsererror", parsed) && $$(".layer", parsed).length === layers.length, `${id}: the SVG does not parse`);
    check(parse(await text($("script.csv", figure))).length === data.length, `${id}: CSV`);
    const all = await targets(figure);
    if (all.length) {
      const [x, y] = centre(all[0].mark);
      const svg = $("svg.figure", figure);
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
      await wait();
      check(!tip.hidden && tip.textContent.includes(":"), `${id}: no tooltip`);
      svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
      await wait();
      check($(".m.at", figure), `${id}: no mark chosen by the keyboard`);
      choose(figure, null);
    }
    const key = $(".key", figure);
    if (key) {
      key.dispatchEvent(new MouseEvent("click"));
      check($$(".layer.off", figure).length > 0, `${id}: the legend hides nothing`);
      key.dispatchEvent(new MouseEvent("click"));
      check($$(".layer.off", figure).length === 0, `${id}: the legend shows nothing`);
    }
    const log = $$(".tools button", figure).find(b => b.textContent === "log axis");
    if (log) {
      const svg = $("svg.figure", figure), before = svg.innerHTML;
      log.click();
      await wait();
      check(svg.innerHTML !== before && !svg.innerHTML.includes("NaN"), `${id}: log axis`);
      log.click();
      await wait();
      check(svg.innerHTML === before, `${id}: linear axis`);
    }
    const bins = $(".tools select", figure);
    if (bins) await testSeries(figure, bins, what => check(false, `${id}: ${what}`));
    saved = [];
    const tools = $$(".tools button", figure);
    for (const label of ["SVG", "CSV"]) tools.find(b => b.textContent === label).click();
    for (let waits = 0; saved.length < 2 && waits < 500; waits++) await wait();
    const [picture, table] = saved;
    saved = null;
    const downloaded = new DOMParser().parseFromString(picture?.content, "image/svg+xml");
    check($$(".layer", downloaded).length === layers.length, `${id}: the downloaded SVG`);
    const style = $("style", downloaded)?.textContent ?? "";
    check(style.includes(".s0{color:#0453c7;}") && !style.includes("var("), `${id}: colours of the downloaded SVG`);
    check(JSON.stringify(parse(table?.content ?? "")) === JSON.stringify(data), `${id}: the downloaded CSV`);
    check((await png(figure)).size > 1000, `${id}: PNG`);
  }
  const sorted = $("table th button");
  if (sorted) { sorted.click(); check($("th[aria-sort=ascending]"), "tables do not sort"); }
  check($("#verdict")?.textContent, "no line of verdicts");
  check(document.documentElement.scrollWidth <= innerWidth, `page ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
  const requests = performance.getEntriesByType("resource").filter(e => !/^(data|blob):/.test(e.name));
  check(requests.length === 0, "requests: " + requests.map(e => e.name));
  said.push(...problems);
  const verdict = `selftest ${said.length ? "failed" : "ok"}: ${$$("figure").length} figures, ${marks} marks`;
  document.title = verdict;
  document.body.append(make("pre", { id: "selftest" }, [verdict, ...said].join("\n")));
}

begin().then(() => { if (location.hash === "#selftest") return selftest(); })
  .catch(e => document.body.append(make("pre", { id: "selftest" }, "selftest failed: " + e.stack)));
})();
