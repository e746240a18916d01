"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const tip = document.getElementById("tip");
  const zoom = document.getElementById("zoom");
  const data = JSON.parse(document.getElementById("data").textContent);

  /* ---- tips: without scripts the title attribute serves; here a tip that the keyboard can reach replaces it ---- */

  function tipped(target) {
    const element = target.closest?.("[title], [data-tip]");
    if (element?.title) {
      element.dataset.tip = element.title;
      element.removeAttribute("title");
    }
    return element ?? null;
  }

  let tipFor = null;
  function showTip(element) {
    if (element === tipFor) return;
    tipFor?.removeAttribute("aria-describedby");
    tipFor = element;
    tip.hidden = !element;
    if (!element) return;
    tip.textContent = element.dataset.tip;
    element.setAttribute("aria-describedby", "tip");
    placeTip();
  }

  function placeTip() {
    const box = tipFor.getClientRects()[0], size = tip.getBoundingClientRect();
    if (!box) return showTip(null);
    const left = Math.min(Math.max(8, box.left + box.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const above = box.top - size.height - 6;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
  }

  /* mousemove, not mouseover: a page that scrolls under a still mouse must not replace the tip of the focused word */
  for (const event of ["mousemove", "focusin", "click"])
    document.addEventListener(event, (e) => showTip(tipped(e.target)));
  document.addEventListener("focusout", () => showTip(null));
  document.addEventListener("scroll", () => tipFor && placeTip(), { capture: true, passive: true });
  document.addEventListener("keydown", (e) => e.key === "Escape" && showTip(null));

  /* ---- one Tab stop per group, arrows inside it: a text of 500 words must not cost 500 presses of Tab ---- */

  function rove(group, items, columns) {
    if (!items.length) return;
    items[0].tabIndex = 0;
    let at = 0;
    const go = (to) => {
      if (to < 0 || to >= items.length) return;
      items[at].tabIndex = -1;
      items[at = to].tabIndex = 0;
      items[at].focus();
    };
    group.addEventListener("keydown", (e) => {
      const on = items.indexOf(document.activeElement);
      if (on < 0) return;
      at = on;
      const forward = getComputedStyle(items[at].parentElement).direction === "rtl" ? -1 : 1;
      const steps = { ArrowLeft: -forward, ArrowRight: forward, ArrowUp: -columns, ArrowDown: columns };
      const to = e.key === "Home" ? 0 : e.key === "End" ? items.length - 1 : at + (steps[e.key] ?? NaN);
      if (Number.isNaN(to)) return;
      e.preventDefault();
      go(to);
    });
  }

  for (const group of all(".words, .tokens")) rove(group, all(".w", group), 1);

  /* ---- heat maps ---- */

  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;

  function colour(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  }

  /* 256 colours, from the stops at even distances */
  function ramp(names) {
    const stops = names.map(colour);
    return Array.from({ length: 256 }, (_, i) => {
      const x = (i / 255) * (stops.length - 1), a = Math.min(Math.floor(x), stops.length - 2);
      return stops[a].map((c, j) => c + (x - a) * (stops[a + 1][j] - c));
    });
  }

  const ramps = {};
  function theme() {
    ramps.unsigned = ramp(["--ramp-0", "--ramp-1", "--ramp-2"]);
    ramps.signed = ramp(["--against-deep", "--ramp-0", "--for-deep"]);
  }
  theme();

  const decoded = new Map();
  function steps(map, layer, head) {
    if (!decoded.has(map)) decoded.set(map, Uint8Array.from(atob(map.steps), (c) => c.charCodeAt(0)));
    const size = map.side * map.side;
    return decoded.get(map).subarray((layer * map.heads + head) * size, (layer * map.heads + head + 1) * size);
  }

  /* the weight behind a step, and how far off it may be: half a step on the square-root scale */
  function weight(map, step) {
    const count = map.signed ? 127 : 255, root = (map.signed ? step - 128 : step) / count;
    const error = map.top * (Math.abs(root) / count + 0.25 / count ** 2);
    return { value: map.top * root * Math.abs(root), error };
  }

  function draw(canvas, map, layer, head) {
    const context = canvas.getContext("2d");
    canvas.width = canvas.height = map.side;
    const image = context.createImageData(map.side, map.side);
    const colours = map.signed ? ramps.signed : ramps.unsigned;
    steps(map, layer, head).forEach((step, i) => image.data.set([...colours[step], 255], 4 * i));
    context.putImageData(image, 0, 0);
  }

  const cells = [];
  for (const table of all(".grid")) {
    const siblings = data.maps[table.dataset.text], map = siblings[table.dataset.map];
    const buttons = all("button", table);
    rove(table, buttons, map.heads);
    for (const button of buttons) {
      const cell = { button, map, siblings, buttons, layer: +button.dataset.l, head: +button.dataset.h, drawn: false };
      cell.paint = () => draw(button.firstElementChild, map, cell.layer, cell.head);
      button.addEventListener("click", () => open(cell));
      cells.push(cell);
    }
  }
  const cellOf = new Map(cells.map((cell) => [cell.button, cell]));

  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      const cell = cellOf.get(target);
      cell.paint();
      cell.drawn = true;
      seen.unobserve(target);
    }
  }, { rootMargin: "300px" });
  for (const cell of cells) seen.observe(cell.button);
  function repaint() {
    theme();
    for (const cell of cells) if (cell.drawn) cell.paint();
    if (zoom.open) view.paint();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  for (const radio of all("input[name=theme]")) radio.addEventListener("change", repaint);

  /* on paper all maps are drawn, in light colours */
  const root = document.documentElement;
  addEventListener("beforeprint", () => {
    root.style.colorScheme = "light";
    theme();
    cells.forEach((cell) => cell.paint());
  });
  addEventListener("afterprint", () => {
    root.style.colorScheme = "";
    repaint();
  });

  /* ---- one enlarged map; or two, attention and its attributions, side by side ---- */

  const panes = all("figure", zoom).map((figure) => ({ figure, canvas: figure.querySelector("canvas"), caption: figure.querySelector("figcaption") }));
  const said = zoom.querySelector("output");
  const sheet = document.createElement("canvas");
  let view = null;

  const short = (text, n) => ([...text].length > n ? [...text].slice(0, n - 1).join("") + "…" : text);
  const round = (x, digits) => (x === 0 ? "0" : x.toPrecision(digits).replace("-", "−"));

  function layout(canvas, map, count) {
    const beside = count > 1 && innerWidth >= 700;
    const high = count > 1 && !beside ? (innerHeight - 250) / 2 : innerHeight - 215;
    const room = Math.min((innerWidth - 50 - (beside ? 30 : 0)) / (beside ? 2 : 1), Math.max(high, 220), 900);
    const letters = innerWidth < 600 || beside ? 9 : 16;
    const names = map.bins.map((name) => short(name.replace(/ … .*/s, " …").replace(/\s+/g, " "), letters));
    const context = canvas.getContext("2d");
    context.font = "12px sans-serif";
    const margin = Math.ceil(Math.max(40, ...names.map((name) => context.measureText(name).width))) + 8;
    const cell = Math.min(40, (room - margin) / map.side);
    return { names, margin, cell, size: margin + cell * map.side, every: Math.ceil(11 / cell) };
  }

  function labels(context, { names, margin, cell, every }, at, ink, soft) {
    context.font = `${Math.min(12, Math.max(9, cell * 1.1))}px sans-serif`;
    context.textBaseline = "middle";
    names.forEach((name, i) => {
      [at?.query, at?.key].forEach((marked, axis) => {
        const near = Math.abs(i - (marked ?? Infinity)) < every;  /* the marked name needs the room of its neighbours */
        if (i !== marked && (near || i % every)) return;
        context.save();
        context.fillStyle = i === marked ? ink : soft;
        if (axis) context.translate(margin + (i + 0.5) * cell, margin - 5), context.rotate(-Math.PI / 2);
        else context.translate(margin - 5, margin + (i + 0.5) * cell);
        context.textAlign = axis ? "left" : "right";
        context.fillText(name, 0, 0);
        context.restore();
      });
    });
  }

  function paintPane(pane, at) {
    const { canvas, map, layer, head } = pane, form = pane.form = layout(canvas, map, view.shown.length);
    const ratio = devicePixelRatio || 1;
    draw(sheet, map, layer, head);
    canvas.width = canvas.height = Math.round(form.size * ratio);
    canvas.style.width = canvas.style.height = `${form.size}px`;
    const context = canvas.getContext("2d"), ink = `rgb(${colour("--ink")})`, soft = `rgb(${colour("--soft")})`;
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    const side = form.cell * map.side;
    context.drawImage(sheet, form.margin, form.margin, side, side);
    context.strokeStyle = soft;
    context.strokeRect(form.margin, form.margin, side - 0.5, side - 0.5);
    labels(context, form, at, ink, soft);
    context.fillStyle = soft;
    context.font = "italic 10px sans-serif";
    context.textAlign = "left";
    context.fillText("key →", 0, 6);
    context.fillText("query ↓", 0, 18);
    if (!at) return;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(form.margin + at.key * form.cell, form.margin + at.query * form.cell, form.cell, form.cell);
  }

  const paint = () => view.shown.forEach((pane) => paintPane(pane, view.at));

  function point(query, key) {
    const { side, bins } = view.shown[0].map;
    if (query < 0 || key < 0 || query >= side || key >= side) return;
    view.at = { query, key };
    const values = view.shown.map(({ map, layer, head }) => {
      const { value, error } = weight(map, steps(map, layer, head)[query * side + key]);
      return `${view.shown.length > 1 ? `${map.name} ` : ""}${round(value, 3)} ± ${round(error, 1)}`;
    });
    said.textContent = `query “${bins[query]}” → key “${bins[key]}”: ${values.join(", ")}`;
    paint();
  }

  /* the maps of a cell: its own, and the same layer and head of its mate, attention first */
  function mapsOf({ map, layer, head, siblings }) {
    const mate = siblings[map.mate], other = mate ? mate.numbers.indexOf(map.numbers[layer]) : -1;
    const single = [{ map, layer, head }];
    if (other < 0 || mate.side !== map.side) return single;
    const both = [...single, { map: mate, layer: other, head }];
    return mate.name === "attention-weights" ? both.reverse() : both;
  }

  function open(cell) {
    showTip(null);
    const maps = mapsOf(cell);
    panes.forEach((pane, i) => {
      pane.figure.hidden = i >= maps.length;
      Object.assign(pane, maps[i]);
      pane.caption.textContent = maps.length > 1 && maps[i] ? maps[i].map.name : "";
    });
    view = { ...cell, at: null, paint, shown: panes.slice(0, maps.length) };
    const title = `Layer ${cell.map.numbers[cell.layer]}, head ${cell.head}`;
    document.getElementById("zoom-title").textContent = title;
    const label = cell.button.getAttribute("aria-label");
    for (const { canvas, map } of view.shown)
      canvas.setAttribute("aria-label", `${maps.length > 1 ? `${map.name}. ` : ""}${map === cell.map ? label : title}. Arrow keys read single weights.`);
    said.textContent = "Rows: query. Columns: key. Point, or use the arrow keys, to read a weight.";
    if (!zoom.open) zoom.showModal();
    paint();
  }

  for (const pane of panes) {
    const pointed = (e) => {
      const box = pane.canvas.getBoundingClientRect(), { margin, cell } = pane.form;
      point(Math.floor((e.clientY - box.top - margin) / cell), Math.floor((e.clientX - box.left - margin) / cell));
    };
    pane.canvas.addEventListener("pointermove", pointed);
    pane.canvas.addEventListener("pointerdown", pointed);
    pane.canvas.addEventListener("keydown", (e) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
      if (!move) return;
      e.preventDefault();
      point((view.at?.query ?? 0) + (view.at ? move[0] : 0), (view.at?.key ?? 0) + (view.at ? move[1] : 0));
    });
  }
  zoom.addEventListener("click", (e) => {
    if (e.target === zoom || e.target.closest("[data-close]")) return zoom.close();
    const step = e.target.closest("[data-step]")?.dataset.step;
    if (!step) return;
    const buttons = view.buttons, to = (buttons.indexOf(view.button) + +step + buttons.length) % buttons.length;
    open(cellOf.get(buttons[to]));
  });
  zoom.addEventListener("close", () => view.button.focus());
  addEventListener("resize", () => zoom.open && paint());
})();
