"use strict";
// All text reaches the page as text nodes: names in it are file names, and those can be anything.
const data = JSON.parse(document.getElementById("data").textContent);
const { images, libraries, summary, strings } = data;
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const LETTER = { registers: "R", strip: "S", mask: "M", guard: "G", other: "·" };
const MEANS = { registers: "registers", strip: "strip", mask: "mask", guard: "guard", other: "left" };
const MOST_ROWS = 1000, MOST_NODES = 40;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter(c => c !== null && c !== undefined));
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const show = (place, ...children) => place.replaceChildren(...children.flat().filter(c => c !== null));
const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const sum = list => list.reduce((a, b) => a + b, 0);
function bytes(n) {
  for (const unit of ["B", "kB", "MB"]) {
    if (n < 999.5) return `${unit === "B" ? n : n.toFixed(n < 99.95 ? 1 : 0)} ${unit}`;
    n /= 1000;
  }
  return `${n.toFixed(1)} GB`;
}
const time = us => us < 1e3 ? `${us} µs` : us < 1e6 ? `${(us / 1e3).toFixed(1)} ms` : `${(us / 1e6).toFixed(2)} s`;
const badge = (kind, text) => h("span", { class: `badge ${kind}`, title: MEANS[kind] }, text ?? LETTER[kind]);
const kindOf = verdict => ["own", "protect"].includes(verdict) ? "registers" : verdict in LETTER ? verdict : "other";

const rows = data.rows.map(([image, library, verdict, reason, units], index) => {
  const row = { index, image, library, verdict: strings[verdict], reason: strings[reason], kinds: {} };
  row.units = units.map(([id, v, why, size]) => ({ id: strings[id], verdict: strings[v], reason: why === null ? "" : strings[why], size }));
  for (const unit of row.units) row.kinds[kindOf(unit.verdict)] = (row.kinds[kindOf(unit.verdict)] ?? 0) + 1;
  row.gone = sum(row.units.filter(u => u.verdict === "strip" || u.verdict === "mask").map(u => u.size));
  row.name = library === null ? "(own objects)" : libraries[library].name;
  // The reason of a cured file names its first unit only.
  const reasons = row.units.filter(u => u.reason).map(u => u.reason);
  row.text = [images[image].label, images[image].path, row.name, row.verdict, ...Object.keys(row.kinds).map(k => MEANS[k]), row.reason,
    ...row.units.map(u => u.id), ...reasons].join(" ").toLowerCase();
  return row;
});

// What is shown: rows by the filter's words, all of which must occur, and by the kinds switched on.
const state = { words: "", off: new Set(), chosen: null, sort: null };
const kindsOn = row => Object.keys(row.kinds).filter(k => !state.off.has(k));
function shown() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(row => kindsOn(row).length > 0 && words.every(w => row.text.includes(w)));
}

function badges(row) {
  return kindsOn(row).map(kind => [badge(kind, `${LETTER[kind]}${row.kinds[kind] > 1 ? row.kinds[kind] : ""}`), " "]).flat();
}

function drawMatrix(list) {
  const cells = new Map(), used = new Map();
  for (const row of list) {
    if (row.library === null) continue;
    used.set(row.library, (used.get(row.library) ?? 0) + 1);
    cells.set(`${row.image},${row.library}`, row);
  }
  const columns = [...used.keys()].sort((a, b) => used.get(b) - used.get(a) || libraries[a].name.localeCompare(libraries[b].name));
  const lines = new Set(list.filter(r => r.library !== null).map(r => r.image));
  const registers = new Map();
  if (!state.off.has("registers")) {
    for (const l of columns) for (const [image, n] of libraries[l].registered_by) {
      registers.set(`${image},${l}`, n);
      lines.add(image);
    }
  }
  const head = h("tr", {}, h("th", {}, `${count(lines.size, "image")}, ${columns.length} ${columns.length === 1 ? "library" : "libraries"}`),
    columns.map(l => h("th", { "data-library": l, title: libraries[l].path }, h("span", {}, libraries[l].name))));
  const body = [...lines].sort((a, b) => a - b).map(image => h("tr", {},
    h("th", { "data-image": image, title: images[image].path }, images[image].label),
    columns.map(l => {
      const row = cells.get(`${image},${l}`), own = registers.get(`${image},${l}`);
      if (!row && !own) return h("td", { "data-column": l });
      const about = `${images[image].label} · ${libraries[l].name}${row ? `: ${row.reason}` : ""}${own ? ` · registers ${count(own, "unit")}` : ""}`;
      const parts = row ? kindsOn(row).filter(k => k !== "registers").map(k => badge(k)) : [];
      return h("td", { "data-column": l, "data-library": l, "data-row": row ? row.index : null, "data-image": image, title: about },
        own ? badge("registers") : null, parts);
    })));
  $("matrix").replaceChildren(columns.length ? h("table", {}, h("thead", {}, head), h("tbody", {}, body)) : h("p", { class: "hint" }, "Nothing to show."));
}

const COLUMNS = [
  ["image", r => images[r.image].label], ["library", r => r.name], ["units", r => Object.keys(r.kinds).join(" ")],
  ["not linked", r => r.gone], ["why", r => r.reason],
];
function drawTable(list) {
  const [key, down] = state.sort ?? [null, false];
  if (key !== null) {
    const value = COLUMNS[key][1];
    list = [...list].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true })) * (down ? -1 : 1);
    });
  }
  $("table").tHead.replaceChildren(h("tr", {}, COLUMNS.map(([name], i) =>
    h("th", { "data-sort": i, "aria-sort": i === key ? (down ? "descending" : "ascending") : null }, name))));
  $("table").tBodies[0].replaceChildren(...list.slice(0, MOST_ROWS).map(r => h("tr", { "data-row": r.index },
    h("td", { title: images[r.image].path }, images[r.image].label), h("td", { title: r.library === null ? null : libraries[r.library].path }, r.name),
    h("td", { class: "badges" }, badges(r)), h("td", { class: "number" }, r.gone ? bytes(r.gone) : ""), h("td", {}, r.reason))));
  $("table-hint").textContent = list.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${list.length}; filter to see others.` : "";
}

// The graph: registrars, libraries, and who else has them on the line, in three columns. Images that do the same are one node.
function graphOf(list) {
  const used = new Map();
  for (const row of list) {
    if (row.library === null) continue;
    if (!used.has(row.library)) used.set(row.library, []);
    const kinds = kindsOn(row).filter(k => k !== "registers");
    if (kinds.length) used.get(row.library).push({ image: row.image, kinds });
  }
  const left = new Map(), middle = new Map(), right = new Map(), edges = [];
  for (const l of used.keys()) {
    middle.set(l, { kind: "library", library: l, label: libraries[l].name, title: libraries[l].path, missing: !libraries[l].registered_by.length });
    if (state.off.has("registers")) continue;
    for (const [image, n] of libraries[l].registered_by) {
      left.set(image, { kind: "image", image, label: images[image].label, title: images[image].path });
      edges.push({ from: left.get(image), to: middle.get(l), verdict: "registers", title: `${images[image].label} registers ${count(n, "unit")} of ${libraries[l].name}` });
    }
  }
  const byImage = new Map();
  for (const [l, users] of used) for (const { image, kinds } of users) {
    if (!byImage.has(image)) byImage.set(image, []);
    for (const kind of kinds) byImage.get(image).push(`${l} ${kind}`);
  }
  const groups = new Map();
  for (const [image, does] of byImage) {
    const key = does.sort().join();
    if (!groups.has(key)) groups.set(key, { does, members: [] });
    groups.get(key).members.push(image);
  }
  const few = groups.size <= MOST_NODES;
  if (!few) {
    // Too many to tell apart: per library, how many do what.
    groups.clear();
    for (const [image, does] of byImage) for (const deed of does) {
      if (!groups.has(deed)) groups.set(deed, { does: [deed], members: [] });
      groups.get(deed).members.push(image);
    }
  }
  for (const [key, { does, members }] of groups) {
    const one = members.length === 1;
    const label = one ? images[members[0]].label : few ? `${members.length} images: ${images[members[0]].label}, …` : `${MEANS[does[0].split(" ")[1]]} in ${members.length} images`;
    const node = { kind: one ? "image" : "group", image: members[0], members, label, title: members.slice(0, 30).map(m => images[m].label).join("\n") };
    right.set(key, node);
    for (const deed of does) {
      const [l, kind] = deed.split(" ");
      edges.push({ from: middle.get(+l), to: node, verdict: kind, title: `${MEANS[kind]}: ${libraries[+l].name} in ${label}` });
    }
  }
  return { columns: [[...left.values()], [...middle.values()], [...right.values()]], edges, few, images: byImage.size };
}

function order({ columns, edges }) {
  const settle = (column, end, other) => {
    const mean = node => {
      const ends = edges.filter(e => e[end] === node).map(e => e[other].at);
      return ends.length ? sum(ends) / ends.length : Infinity;
    };
    const keys = new Map(column.map(n => [n, mean(n)]));
    column.sort((a, b) => keys.get(a) - keys.get(b) || a.at - b.at);
    column.forEach((n, i) => n.at = i / column.length);
  };
  columns.forEach(c => c.forEach((n, i) => n.at = i / c.length));
  for (let sweep = 0; sweep < 4; sweep++) {
    settle(columns[1], "to", "from");
    settle(columns[0], "from", "to");
    settle(columns[2], "to", "from");
    settle(columns[1], "from", "to");
  }
  settle(columns[0], "from", "to");
  settle(columns[2], "to", "from");
}

function drawGraph(list) {
  const graph = graphOf(list);
  const place = $("graph");
  if (!graph.edges.length) {
    $("graph-hint").textContent = "";
    place.replaceChildren(h("p", { class: "hint" }, "Nothing to show."));
    return;
  }
  order(graph);
  const STEP = 28, TOP = 24, X = [0, 330, 640], WIDTH = [210, 170, 260];
  const height = TOP + STEP * Math.max(...graph.columns.map(c => c.length));
  graph.columns.forEach((column, c) => {
    const room = (height - TOP) / column.length;
    column.forEach((n, i) => Object.assign(n, { x: X[c], y: TOP + room * (i + .5), width: WIDTH[c] }));
  });
  const svg = s("svg", { width: X[2] + WIDTH[2] + 2, height, role: "img", "aria-label": "Images that register, libraries, images that have them on their line" });
  ["registered by", "library", "on the line of"].forEach((t, c) => svg.append(s("text", { class: "column", x: X[c] + 2, y: 12 }, t)));
  for (const e of graph.edges) {
    const [a, b] = [e.from.x + e.from.width, e.to.x];
    const half = (a + b) / 2;
    // Two arrows between the same nodes run side by side.
    const shift = { mask: 3, guard: -3 }[e.verdict] ?? 0, [from, to] = [e.from.y + shift, e.to.y + shift];
    e.line = s("path", { class: e.verdict, "stroke-width": e.verdict === "strip" ? 1.2 : 2, d: `M${a} ${from}C${half} ${from} ${half} ${to} ${b} ${to}` }, s("title", {}, e.title));
    svg.append(e.line);
  }
  for (const n of graph.columns.flat()) {
    const letters = Math.floor((n.width - 14) / 6.6);
    const head = n.kind === "group" ? letters - 1 : 6;
    const label = n.label.length > letters ? `${n.label.slice(0, head)}…${n.label.slice(n.label.length - letters + head + 1)}` : n.label;
    n.box = s("g", { class: `node ${n.kind}${n.missing ? " missing" : ""}${isChosen(n) ? " chosen" : ""}`, tabindex: 0 },
      s("title", {}, n.missing ? `${n.title}\nno image in this report registers its units` : n.title),
      s("rect", { x: n.x + 1, y: n.y - 11, width: n.width - 2, height: 22, rx: n.kind === "library" ? 11 : 4 }),
      s("text", { x: n.x + 8, y: n.y + 4 }, label));
    const trace = on => {
      svg.classList.toggle("tracing", on);
      const near = graph.edges.filter(e => e.from === n || e.to === n);
      // Through a library to its other side; an image's own arrows are enough.
      for (const e of near) for (const part of [e.line, e.from.box, e.to.box]) part.classList.toggle("lit", on);
      n.box.classList.toggle("lit", on);
    };
    const choose = () => n.kind === "group" ? showGroup(n) : pick(n.kind, n[n.kind]);
    fill(n.box, { onmouseenter: () => trace(true), onmouseleave: () => trace(false), onfocus: () => trace(true), onblur: () => trace(false), onclick: choose,
      onkeydown: e => { if (e.key === "Enter") choose(); } }, []);
    svg.append(n.box);
  }
  $("graph-hint").textContent = graph.few ? "Images that do the same with the same libraries are one node. Point at a node to follow its arrows, click for details."
    : `${graph.images} images differ too much to draw each: shown is how many do what. Filter for a library or an image to see them one by one.`;
  place.replaceChildren(svg);
}

const isChosen = n => state.chosen && n.kind === state.chosen.kind && n[n.kind] === state.chosen.index;
const go = (kind, index) => h("a", { class: "go", tabindex: 0, onclick: () => pick(kind, index) }, kind === "image" ? images[index].label : libraries[index].name);
const unitList = row => h("ul", {}, row.units.map(u => h("li", {}, badge(kindOf(u.verdict)), " ", h("span", { class: "id" }, u.id), u.reason ? `: ${u.reason}` : "",
  u.size ? h("span", { class: "hint" }, ` ${bytes(u.size)}`) : null)));

function pick(kind, index) {
  state.chosen = { kind, index };
  draw();
}
function showGroup(node) {
  state.chosen = null;
  show($("detail"), h("h2", {}, count(node.members.length, "image")), h("ul", {}, node.members.map(m => h("li", {}, go("image", m)))));
}
function drawDetail() {
  const { kind, index } = state.chosen ?? {};
  if (kind === "image") {
    const image = images[index], mine = rows.filter(r => r.image === index);
    const registers = libraries.map((l, i) => [i, l.registered_by.find(([m]) => m === index)]).filter(([, r]) => r);
    show($("detail"), h("h2", {}, image.label), h("p", {}, h("code", {}, image.path)),
      image.outcome === null ? h("p", { class: "hint" }, "Named on a device-link line; its own device link is not in this report.")
        : h("p", { class: "hint" }, `${image.outcome}${image.reason ? `: ${image.reason}` : ""} · ${time(image.shim_us)} in the shim · ${count(image.own_units, "own unit")}`),
      image.warning ? h("p", { class: "notice" }, image.warning) : null,
      ...(registers.length ? [h("h3", {}, "Registers"), h("ul", {}, registers.map(([l, r]) => h("li", {}, badge("registers"), ` ${count(r[1], "unit")} of `, go("library", l))))] : []),
      ...(mine.length ? [h("h3", {}, "On its line"), ...mine.map(r => h("details", {}, h("summary", {}, badges(r), r.library === null ? r.name : go("library", r.library)), h("p", {}, r.reason), unitList(r)))] : []),
      ...(image.notes.length ? [h("h3", {}, "Notes"), h("ul", {}, image.notes.map(n => h("li", {}, n)))] : []));
  } else if (kind === "library") {
    const library = libraries[index], mine = rows.filter(r => r.library === index), by = new Map();
    for (const r of mine) for (const k of Object.keys(r.kinds)) by.set(k, [...(by.get(k) ?? []), r]);
    show($("detail"), h("h2", {}, library.name), h("p", {}, h("code", {}, library.path)),
      h("p", { class: "hint" }, `${count(library.units, "unit")} · ${bytes(sum(mine.map(r => r.gone)))} not linked`),
      h("h3", {}, "Registered by"), library.registered_by.length ? h("ul", {}, library.registered_by.map(([m, n]) => h("li", {}, go("image", m), ` (${count(n, "unit")})`))) : h("p", {}, "no image in this report"),
      ...[...by].flatMap(([k, list]) => [h("h3", {}, badge(k), ` ${MEANS[k]} in ${count(list.length, "image")}`),
        ...list.map(r => h("details", {}, h("summary", {}, go("image", r.image)), h("p", {}, r.reason), unitList(r)))]));
  } else {
    show($("detail"), h("h2", {}, "What the letters say"), h("p", {}, badge("registers"), " the image registers the units with the CUDA runtime"),
      h("p", {}, badge("strip"), " the library left the device link: another image registers its units"), h("p", {}, badge("mask"), " single units left it"),
      h("p", {}, badge("guard"), " the units stay, since something needs them; the image registers whether or not their host side is in it"),
      h("p", {}, badge("other"), " left as it was"), h("p", { class: "hint" }, "Click an image or a library."));
  }
}

function draw() {
  const list = shown();
  $("count").textContent = `${list.length} of ${rows.length}`;
  drawGraph(list);
  drawMatrix(list);
  drawTable(list);
  drawDetail();
  const hash = new URLSearchParams();
  if (state.words) hash.set("filter", state.words);
  if (state.chosen) hash.set(state.chosen.kind, state.chosen.kind === "image" ? images[state.chosen.index].label : libraries[state.chosen.index].name);
  history.replaceState(null, "", hash.size ? `#${hash}` : location.pathname + location.search);
}

function drawHead() {
  document.title = `Device links: ${data.top}`;
  $("top").textContent = data.top;
  const o = summary.outcomes, tile = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value), h("small", {}, small ?? " ")));
  $("tiles").append(tile("device links", summary.device_links, `${o.cured ?? 0} cured, ${o["as-given"] ?? 0} needed nothing${o.reported ? `, ${o.reported} only looked at` : ""}`),
    tile("libraries stripped", summary.libraries_stripped, `${summary.units_stripped} units`), tile("units masked", summary.units_masked), tile("units guarded", summary.units_guarded),
    tile("device code not linked", bytes(summary.unlinked_bytes), o.reported ? "would not be, in mode fix" : null),
    tile("time in the shim", time(summary.shim_us), `median ${time(summary.shim_us_median)}, most ${time(summary.shim_us_most)}`));
  const notice = (calm, title, lines) => lines.length ? [h("div", { class: calm ? "notice calm" : "notice" }, h("strong", {}, title), h("ul", {}, lines.map(l => h("li", {}, l))))] : [];
  const calm = [];
  if (summary.units_without_registrar) calm.push(`${count(summary.units_without_registrar, "unit")} left a device link, and no image in this report registers them: right if their library was built before.`);
  if (summary.units_in_several) calm.push(`${count(summary.units_in_several, "unit")} register in more than one image, each with variables of its own.`);
  if (summary.replaced) calm.push(`${count(summary.replaced, "older link")} of the same outputs not shown.`);
  $("notices").append(...notice(false, "Left as they were; a cure may be missing", images.filter(i => ["left", "refused"].includes(i.outcome)).map(i => `${i.label}: ${i.reason}`)),
    ...notice(false, "Warnings", images.filter(i => i.warning).map(i => `${i.label}: ${i.warning}`)),
    ...notice(false, "Lines of the report that could not be read", data.damaged.map(d => `line ${d.line}: ${d.why}`)), ...notice(true, "Notes", calm));
  $("inert").append(...data.left.map(([reason, n]) => h("li", {}, `${n} × ${reason}`)));
  $("inert-section").hidden = !data.left.length;
  $("chips").append(...Object.keys(LETTER).filter(k => rows.some(r => k in r.kinds)).map(kind => h("button", { type: "button", "aria-pressed": "true", onclick: e => {
    state.off.has(kind) ? state.off.delete(kind) : state.off.add(kind);
    e.currentTarget.setAttribute("aria-pressed", String(!state.off.has(kind)));
    draw();
  } }, badge(kind), ` ${MEANS[kind]}`)));
}

$("filter").addEventListener("input", e => { state.words = e.target.value; draw(); });
$("table").addEventListener("click", e => {
  const head = e.target.closest("th"), row = e.target.closest("tr[data-row]");
  if (head) {
    const i = +head.dataset.sort;
    state.sort = [i, state.sort?.[0] === i ? !state.sort[1] : false];
    draw();
  } else if (row) pick("image", rows[+row.dataset.row].image);
});
$("matrix").addEventListener("click", e => {
  const { image, library } = e.target.closest("[data-image],[data-library]")?.dataset ?? {};
  if (image !== undefined) pick("image", +image);
  else if (library !== undefined) pick("library", +library);
});
$("matrix").addEventListener("mouseover", e => {
  const column = e.target.closest("[data-column]")?.dataset.column ?? e.target.closest("thead [data-library]")?.dataset.library;
  for (const cell of $("matrix").querySelectorAll(".across")) cell.classList.remove("across");
  if (column !== undefined) for (const cell of $("matrix").querySelectorAll(`[data-column="${column}"], thead [data-library="${column}"]`)) cell.classList.add("across");
});
// A view has an address: `#filter=WORDS&library=NAME` or `&image=LABEL`.
function readHash() {
  const hash = new URLSearchParams(location.hash.slice(1));
  state.words = $("filter").value = hash.get("filter") ?? "";
  state.chosen = null;
  for (const [kind, index] of [["image", images.findIndex(i => i.label === hash.get("image"))], ["library", libraries.findIndex(l => l.name === hash.get("library"))]]) {
    if (index >= 0) state.chosen = { kind, index };
  }
  draw();
}
window.addEventListener("hashchange", readHash);
drawHead();
readHash();
